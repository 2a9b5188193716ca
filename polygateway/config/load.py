"""Where a configuration comes from: an object, a mapping, or a TOML file and the environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import platformdirs

from ..errors import ConfigurationError
from ..policies import Config
from .environment import PREFIX, put_on_top
from .mistakes import Mistake, Place, as_error
from .structure import find_mistakes, make_config

_FILE_VARIABLE = f"{PREFIX}CONFIG"

# The one setting about which there is a rule that only the whole configuration can break.
_TOGETHER: Place = ("stream", "recovery")


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


def _loaded(config: Config | Mapping[str, object] | str | os.PathLike[str] | None) -> Config:
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        return _checked(config, "the configuration", {}, [])
    path, why = _default_path() if config is None else (_path(config), "")
    return _from_file(path, f"{path}{why}")


def _path(config: str | os.PathLike[str]) -> Path:
    try:
        return Path(config)
    except TypeError:
        raise ConfigurationError(
            f"a configuration is a Config, a mapping, a path or None, not a {type(config).__name__}"
        ) from None


def _default_path() -> tuple[Path, str]:
    """Give the path to read when none is given, and why it is that one."""
    named = os.environ.get(_FILE_VARIABLE)
    if named:
        return Path(named), f" (named by {_FILE_VARIABLE})"
    folder = platformdirs.user_config_path("polygateway", appauthor=False)
    if not folder.is_absolute():
        raise ConfigurationError(
            f"no configuration: none was given, {_FILE_VARIABLE} is not set, and where the user's"
            f" configuration folder is cannot be told ({folder})"
        )
    return folder / "config.toml", f" (none was given, and {_FILE_VARIABLE} is not set)"


def _from_file(path: Path, source: str) -> Config:
    table = _read(path, source)
    setters, mistakes = put_on_top(table, os.environ)
    return _checked(table, source, setters, mistakes)


def _read(path: Path, source: str) -> dict[str, object]:
    # None of these errors becomes a cause: they hold the whole text.
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"cannot read {source}: {reason}") from None
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{source} is not UTF-8 (at line {line})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source} is not TOML: {error}") from None


def _checked(
    data: Mapping[str, object],
    source: str,
    setters: Mapping[Place, str],
    mistakes: Sequence[Mistake],
) -> Config:
    every = [*mistakes, *find_mistakes(data)]
    if every:
        raise as_error(source, every, setters)
    try:
        return make_config(data)
    except ConfigurationError as error:
        raise as_error(source, [Mistake(_TOGETHER, str(error))], setters) from None
