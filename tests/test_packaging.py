"""What is shipped is whole, says what it is, and the README's commands are what CI runs."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import tomllib
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest
from hatchling.build import build_wheel

from polygateway._version import __version__

if TYPE_CHECKING:
    from email.message import Message

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMMANDS = re.findall(
    r"^```console\n(.*)\n```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a freshly built wheel, by name."""
    folder = tmp_path_factory.mktemp("wheel")
    with contextlib.chdir(ROOT):
        path = folder / build_wheel(str(folder))
    with ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.fixture(scope="module")
def metadata(wheel: dict[str, str]) -> Message:
    return Parser().parsestr(of_dist_info(wheel, "METADATA"))


def of_dist_info(wheel: dict[str, str], name: str) -> str:
    return wheel[f"polygateway-{__version__}.dist-info/{name}"]


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(
    wheel: dict[str, str],
) -> None:
    ours = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "polygateway").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name for name in wheel if ".dist-info/" not in name} == ours


def test_the_wheel_says_that_it_is_typed(wheel: dict[str, str]) -> None:
    assert "polygateway/py.typed" in wheel  # PEP 561


def test_the_version_is_that_of_the_package_and_a_semantic_one(metadata: Message) -> None:
    assert metadata["Version"] == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", __version__)


def test_the_licence_is_named_and_enclosed(wheel: dict[str, str], metadata: Message) -> None:
    assert metadata["License-Expression"] == "MIT"  # PEP 639
    assert of_dist_info(wheel, "licenses/LICENSE").startswith("MIT License")


def test_every_dependency_is_accounted_for_in_the_documentation(metadata: Message) -> None:
    page = (ROOT / "docs" / "explanation" / "dependencies.md").read_text("utf-8")
    needs = metadata.get_all("Requires-Dist") or []
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == {
        re.split(r"[<>=; ]", need)[0] for need in needs
    }


def test_the_command_of_the_wheel_can_be_loaded(wheel: dict[str, str]) -> None:
    assert "polygateway = polygateway.cli:main" in of_dist_info(wheel, "entry_points.txt")
    command = importlib.metadata.EntryPoint("polygateway", "polygateway.cli:main", "")
    assert callable(command.load())


def test_ci_runs_the_readmes_test_command_and_nothing_else() -> None:
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "set -euo pipefail",
        'cd "$(dirname "$0")/.."',
        COMMANDS[1],
    ]


def test_the_readme_has_one_command_for_the_demo_and_one_for_the_tests() -> None:
    demo, test = COMMANDS
    assert demo.endswith("/polygateway demo")
    assert test.endswith("/nox")
    # On a machine with Python alone, each must begin by making its environment.
    assert all(command.startswith("python3 -m venv .venv && ") for command in COMMANDS)


def test_every_piece_of_news_is_of_a_known_kind_and_says_something() -> None:
    kinds = PYPROJECT["tool"]["towncrier"]["fragment"]
    news = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    for path in news:
        assert re.fullmatch(rf"(\d+|\+[\w-]+)\.({'|'.join(kinds)})\.md", path.name), path.name
        assert path.read_text("utf-8").strip(), path.name


def test_a_version_under_way_has_news_and_a_released_one_has_its_entry() -> None:
    news = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert bool(news) if "dev" in __version__ else f"\n## {__version__} (" in changelog
