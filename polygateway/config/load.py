"""Where a configuration comes from: an object, a mapping, or a TOML file and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from ..policies import Config

if TYPE_CHECKING:
    import os


def load_config(config: Config | Mapping[str, object] | str | os.PathLike[str] | None) -> Config:
    """Make a :class:`Config` of whatever says what it should be.

    A file of the working folder is only read if it is named: a cloned repository must not be able
    to send the user's key to a host of its own.

    Args:
        config: a :class:`Config`; a mapping, taken as it is; the path of a TOML file; or ``None``
            for the file that ``POLYGATEWAY_CONFIG`` names, else ``polygateway/config.toml`` in
            the user's configuration folder. Variables ``POLYGATEWAY_SECTION__NAME`` are put on
            top of a file.

    Raises:
        ConfigurationError: there is no such file, it is no TOML, or something in it is wrong; the
            text has a line for each mistake.
    """
    try:
        return _loaded(config)
    except ConfigurationError as error:
        failure = error.with_traceback(None)  # whose frames hold all that was read
    failure.__context__ = None  # likewise
    raise failure


# The imports stand within: only who has plain data or a file should wait for what reads it, cattrs
# and a parser of TOML among it.
# ruff: noqa: PLC0415
def _loaded(config: Config | Mapping[str, object] | str | os.PathLike[str] | None) -> Config:
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        from .structure import checked

        return checked(config, "the configuration", {}, [])
    from .file import from_file

    return from_file(config)
