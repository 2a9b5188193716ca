"""What a target's server must prove, and what is proved to it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..policies import Target


class _Encrypted(Exception):
    """A private key can only be read with a passphrase."""


class Contexts:
    """The TLS contexts of a gateway. Targets that name the same files, or none, share one.

    For what a context holds of the system's authorities takes a megabyte, and long to read.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str | None, ...], ssl.SSLContext] = {}

    def of(self, name: str, target: Target) -> ssl.SSLContext:
        """Give the context of the target called *name*.

        Raises:
            ConfigurationError: as :func:`client_context` does.
        """
        files = (target.ca_file, target.client_cert_file, target.client_key_file)
        if files not in self._made:
            self._made[files] = client_context(name, target)
        return self._made[files]


def client_context(name: str, target: Target) -> ssl.SSLContext:
    """Make the TLS context of the target called *name*. The server is verified in any case.

    Raises:
        ConfigurationError: a file of the target's cannot be used. The text names the setting and
            the file, and shows nothing of what is in it.
    """
    try:
        context = ssl.create_default_context(cafile=target.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"targets.{name}.ca_file: {target.ca_file!r} holds no usable certificates: {error}"
        ) from error
    if target.client_cert_file is not None:
        _load_own(context, name, target.client_cert_file, target.client_key_file)
    return context


def _load_own(context: ssl.SSLContext, name: str, cert_file: str, key_file: str | None) -> None:
    """Load the certificate that is shown to servers, and its key."""
    place = f"targets.{name}.client_cert_file"
    _check_readable(place, cert_file)
    if key_file is not None:
        _check_readable(f"targets.{name}.client_key_file", key_file)
    files = repr(cert_file) if key_file is None else f"{cert_file!r} with {key_file!r}"
    try:
        context.load_cert_chain(cert_file, key_file, password=_refuse)
    except _Encrypted:
        flaw = "a private key that is encrypted; decrypt the file, and guard it by its permissions"
    except ssl.SSLError as error:
        flaw = f"no certificate with its private key: {error}"
    else:
        return
    raise ConfigurationError(f"{place}: {files} holds {flaw}")


def _check_readable(place: str, path: str) -> None:
    # ssl's own errors name no file.
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise ConfigurationError(f"{place}: {path!r} cannot be read: {error.strerror}") from error


def _refuse() -> NoReturn:
    """Give no passphrase: by default OpenSSL would ask for one at the terminal, and wait."""
    raise _Encrypted
