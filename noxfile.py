"""What is checked, and how: ``nox`` runs it all, ``nox -l`` lists the sessions.

Every session makes its own environment, with the package installed in it as a user would have
it: what the wheel lacks, the tests miss. For another Python: ``nox -s tests -P 3.13``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
nox.options.reuse_existing_virtualenvs = True

PYPROJECT = nox.project.load_toml("pyproject.toml")
# The rules of flake8-async that ruff lacks, such as a yield inside a nursery. Not among them:
# 109, ruff's too; 114, for which every startable function would have to be listed; 127, against
# httpx, which httpx-sse is written for; 910 and 911, a checkpoint on every path, for a chunk that
# has been read already needs none.
FLAKE8 = (
    *("--select=ASYNC1,ASYNC9", "--enable=ASYNC1,ASYNC9"),
    "--extend-ignore=ASYNC109,ASYNC114,ASYNC127,ASYNC910,ASYNC911",
    # Tests do on purpose what a program should not, such as leaving the gateway too early.
    "--per-file-ignores=tests/*:ASYNC110,ASYNC111,ASYNC112,ASYNC124",
)
PURE = "polygateway/core/*,polygateway/wire/*"
AIMOCK = "@copilotkit/aimock@1.43.0"


def install(session: nox.Session, group: str, *options: str) -> None:
    """Install the package with every extra, and a dependency group of pyproject.toml."""
    needs = nox.project.dependency_groups(PYPROJECT, group)
    session.install(*options, ".[cli,otel,prometheus,testing]", *needs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, formatting, and the mistakes that only trio programs can make."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("flake8", *FLAKE8, "polygateway", "tests", "benchmarks")


@nox.session
def typing(session: nox.Session) -> None:
    """Two type checkers, both strict, and a public interface without an unknown type."""
    install(session, "typing")
    session.run("mypy")
    session.run("pyright")
    with session.chdir(session.create_tmp()):  # Away from the checkout: the wheel is meant.
        session.run("pyright", "--verifytypes", "polygateway", "--ignoreexternal")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, where a warning or a dangling reference is an error."""
    install(session, "docs")
    session.run("sphinx-build", "-W", "-n", "-q", "--keep-going", "docs", "docs/_build")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests. Arguments go to pytest: ``nox -s tests -- tests/wire -x``."""
    install(session, "tests")
    # Not `python -m pytest`, which would import the checkout instead of what is installed.
    session.run("pytest", "--cov", "--cov-report=", *(session.posargs or ["-n", "auto"]))


@nox.session
def coverage(session: nox.Session) -> None:
    """The thresholds, over what a whole run of ``tests`` has measured."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "coverage"))
    session.run("coverage", "report", f"--include={PURE}", "--fail-under=100")
    session.run("coverage", "report", "--fail-under=95")


@nox.session
def interop(session: nox.Session) -> None:
    """Requests and answers against other people's servers: llama.cpp's and, with npm, aimock."""
    install(session, "interop")
    folder = Path(session.create_tmp())
    if shutil.which("npm"):
        session.run("npm", "install", "--no-audit", f"--prefix={folder}", AIMOCK, external=True)
    else:
        session.warn("npm is not here: what needs aimock is skipped")
    package = folder / "node_modules" / "@copilotkit" / "aimock" / "dist" / "index.js"
    env = {"POLYGATEWAY_AIMOCK": str(package)} if package.exists() else {}
    session.run("pytest", *(session.posargs or ["tests/interop"]), env=env)


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """A minute for each thing that decodes: ``nox -s fuzz -- --seconds 600 anthropic``."""
    install(session, "fuzz")
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session(default=False)
def campaign(session: nox.Session) -> None:
    """Storms at full length, thousands of examples for every property, and 100,000 calls.

    Arguments go to the campaign: ``nox -s campaign -- --calls 1000 --seed 7`` runs nothing else.
    """
    install(session, "tests")
    if session.posargs:
        session.run("python", "-m", "tests.campaign", *session.posargs)
        return
    session.run("python", "-m", "tests.campaign", "--calls", "100000")
    selection = ("-m", "long or not long", "--hypothesis-profile=long", "-n", "auto")
    patience = ("-o", "faulthandler_timeout=3600")
    session.run("pytest", *selection, *patience)


@nox.session(default=False, venv_backend="uv")  # pip cannot choose the oldest
def oldest(session: nox.Session) -> None:
    """The tests with the oldest dependencies that pyproject.toml allows."""
    install(session, "tests", "--resolution=lowest-direct")
    session.run("pytest", *(session.posargs or ["-n", "auto"]))


@nox.session(default=False)
def benchmarks(session: nox.Session) -> None:
    """What a call, a chunk and a stall cost, beside others: some minutes.

    ``nox -s benchmarks -- --full --report`` measures everything, which takes hours, and writes
    docs/explanation/performance.md anew.
    """
    install(session, "peers")
    commands = [["-m", f"benchmarks.{name}", *session.posargs] for name in ("speed", "stalls")]
    if "--full" in session.posargs:
        commands += [[str(script)] for script in sorted(Path("benchmarks").glob("bench_*.py"))]
    missed: list[str] = []
    for command in commands:
        try:
            session.run("python", *command)
        except CommandFailed:
            missed.append(" ".join(command))
    if missed:
        session.error(f"not all is as it should be: {', '.join(missed)}")


@nox.session(default=False)
def tail(session: nox.Session) -> None:
    """Simulate what hedging does to the tail: ``nox -s tail -- --calls 20000``."""
    install(session, "benchmarks")
    session.run("python", "-m", "benchmarks.simulate_tail", *session.posargs)


@nox.session(default=False)
def accuracy(session: nox.Session) -> None:
    """The figures against a server in another process that logs when it truly wrote."""
    install(session, "tests")
    session.run("python", "benchmarks/check_accuracy.py", *session.posargs)


@nox.session(default=False)
def hostile(session: nox.Session) -> None:
    """Memory and time that streams without end cost, over sockets and with the default limits."""
    install(session, "tests")
    session.run("python", "benchmarks/check_hostile.py", *session.posargs)


@nox.session(default=False)
def mutation(session: nox.Session) -> None:
    """Change the pure rooms line by line, and list the changes that no test has noticed."""
    install(session, "mutation")
    session.run("mutmut", "run", *session.posargs)
    session.run("mutmut", "results")
