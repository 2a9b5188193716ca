"""The command ``polygateway``. It needs the packages of the extra ``cli``."""

from __future__ import annotations

import sys
from importlib import import_module

_EXTRA = ("cyclopts", "rich")


def main() -> None:
    """Run the command with the arguments of the process, and exit."""
    try:
        for package in _EXTRA:
            import_module(package)
    except ModuleNotFoundError as error:
        print(
            f"polygateway: the command needs the package {error.name}:"
            " pip install 'polygateway[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    from .app import run  # noqa: PLC0415 - it imports what may have been missing

    sys.exit(run(sys.argv[1:]))
