"""What the command understands, and what its exit code says."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from cyclopts import App, CycloptsError

from .._version import __version__
from ..errors import ConfigurationError, GatewayError
from .terminal import harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = 1
"""Exit code when the providers failed."""

MISUSED = 2
"""Exit code when the user can mend it."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and SIGINT's number, as shells count."""

PIPE_CLOSED = 141
"""Exit code when nobody reads the output any more: 128 and SIGPIPE's number."""

# The subcommands are named by strings so that the help does not wait for what they import.
APP = App(
    name="polygateway",
    help="Race a stalled LLM stream against a second target, and know where the time went.",
    version=__version__,
    help_format="plaintext",  # markdown would take as long to import as all the rest
    backend="trio",
    suppress_keyboard_interrupt=False,
)
APP.command(
    "polygateway.cli.demo:demo",
    name="demo",
    help="Show what a stall is and what becomes of it: no key, no configuration, 15 seconds.",
)
APP.command(
    "polygateway.cli.ask:ask",
    name="ask",
    help="Ask a configured model: the answer as it comes, then where the time went.",
)
APP.command(
    "polygateway.cli.probe:probe",
    name="probe",
    help="Measure targets: how often and how soon they answer, how fast, where they stall.",
)
APP.command(
    "polygateway.cli.timeline:timeline",
    name="timeline",
    help="Draw the calls of a journal: where the time of each one went.",
)


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line and give the exit code."""
    _never_fail_to_print()
    code: int | None = 0
    try:
        code = APP(arguments, print_error=False, exit_on_error=False, result_action="return_value")
    # The groups are the nurseries'; what is plain is caught as well.
    except* (CycloptsError, ConfigurationError) as mistakes:
        code = _complain(str(mistakes.exceptions[0]), MISUSED)
    except* GatewayError as failures:
        code = _complain(_one_line(failures.exceptions[0]), FAILED)
    except* KeyboardInterrupt:
        code = INTERRUPTED
    except* BrokenPipeError:
        code = PIPE_CLOSED
        _let_go_of_stdout()
    return code or 0


def _complain(text: str, code: int) -> int:
    print(f"polygateway: {harmless(text)}", file=sys.stderr)
    return code


def _one_line(error: BaseException) -> str:
    """Say what failed. Providers' texts may have many lines."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _never_fail_to_print() -> None:
    """Escape what the output's encoding cannot say, instead of failing at it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _let_go_of_stdout() -> None:
    """Let Python flush what is left into nothing, else it complains at its exit.

    See the note on SIGPIPE in the documentation of Python's ``signal``.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
