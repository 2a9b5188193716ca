"""What the documentation shows runs, prints what it says, and agrees with the code."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, cast

import attrs
import pytest
import trio

import polygateway
from polygateway import errors, policies
from polygateway.config import load_config
from polygateway.core.figures import Ending, figures
from polygateway.core.gate import ATTEMPT_TRANSITIONS, RACE_TRANSITIONS
from polygateway.core.tally import Tally
from polygateway.stats import StreamFigures
from polygateway.testing import ScriptedProvider, answer, serve_tcp
from polygateway.trace import Arrival
from polygateway.usage import Usage

if TYPE_CHECKING:
    import subprocess

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
}

# What README.md configures, served by two providers on this machine.
CONFIG = """
[targets]
eu = {{ dialect = "openai-chat", base_url = "{eu}", model = "lyra-3" }}
us = {{ dialect = "openai-chat", base_url = "{us}", model = "lyra-3" }}
[models]
fast = ["eu", "us"]
"""


def blocks(page: str, language: str) -> list[str]:
    """Give what stands in the page's fences of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def program(page: str) -> str:
    """Give the page's examples as one program, every line in its place on the page."""
    lines: list[str] = []
    inside = False
    for line in page.splitlines():
        fence = line.startswith("```")
        lines.append(line if inside and not fence else "")
        inside = line == "```python" if fence else inside
    return "\n".join([*lines, ""])


async def run(page: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run the page's examples in a folder with a configuration whose targets answer."""
    script = folder / "page.py"
    script.write_text(program(page), "utf-8")
    config = folder / "polygateway.toml"
    provider = ScriptedProvider(answer("The ", "tide ", "turns."))
    async with serve_tcp({"eu": provider, "us": provider}) as served:
        config.write_text(CONFIG.format_map(served.base_urls), "utf-8")
        with trio.fail_after(60):
            return await trio.run_process(
                [sys.executable, "-W", "error", str(script)],
                cwd=folder,
                env=os.environ
                | {
                    "POLYGATEWAY_CONFIG": str(config),
                    "PYTHONPATH": str(Path(polygateway.__file__).parents[1]),  # the one under test
                },
                check=False,
                capture_stdout=True,
                capture_stderr=True,
            )


async def check(page: str, folder: Path) -> None:
    """Make sure that the page's examples run, and print what the page says if it does."""
    done = await run(page, folder)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    if expected := blocks(page, "output"):
        assert done.stdout.decode() == "".join(expected)


# ---------------------------------------------------------------- examples


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if blocks(page, "python")])
async def test_the_examples_of_a_page_run_and_print_what_it_says(name: str, tmp_path: Path) -> None:
    await check(PAGES[name], tmp_path)


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if blocks(page, "toml")])
def test_every_configuration_that_is_shown_is_accepted(name: str) -> None:
    for block in blocks(PAGES[name], "toml"):
        load_config(tomllib.loads(block))


async def test_an_example_that_raises_is_reported_with_its_line(tmp_path: Path) -> None:
    page = "# Title\n\n```python\nx = 1\n```\n\nText.\n\n```python\nassert x == 2\n```\n"
    done = await run(page, tmp_path)
    assert done.returncode == 1
    assert 'page.py", line 10, in <module>' in done.stderr.decode()


async def test_an_example_that_warns_fails(tmp_path: Path) -> None:
    page = "```python\nimport warnings\n\nwarnings.warn('old')\n```\n"
    assert (await run(page, tmp_path)).returncode == 1


async def test_an_example_that_prints_something_else_fails(tmp_path: Path) -> None:
    page = "```python\nprint(1)\n```\n\n```output\n{}\n```\n"
    await check(page.format(1), tmp_path)
    with pytest.raises(AssertionError):
        await check(page.format(2), tmp_path)


async def test_an_example_finds_targets_that_answer(tmp_path: Path) -> None:
    page = """```python
import tomllib
import urllib.request
from pathlib import Path

config = tomllib.loads(Path("polygateway.toml").read_text())
url = config["targets"]["us"]["base_url"] + "/chat/completions"
with urllib.request.urlopen(url, b"{}") as reply:
    print(b"turns." in reply.read())
```

```output
True
```
"""
    await check(page, tmp_path)


# ---------------------------------------------------------------- facts


def rows(page: str) -> list[list[str]]:
    """Give the cells of every table row on a page, without their backticks."""
    lines = re.findall(r"^\| (.*) \|$", page, re.MULTILINE)
    return [[cell.strip("`") for cell in line.split(" | ")] for line in lines]


def test_every_public_name_is_in_the_reference() -> None:
    reference = "".join(page for name, page in PAGES.items() if name.startswith("docs/reference/"))
    documented = re.findall(r"^\.\. auto\w+:: (?:\w+\.)*(\w+)$", reference, re.MULTILINE)
    assert set(polygateway.__all__) - {"__version__"} <= set(documented)


def test_the_errors_page_lists_every_error_with_its_kind() -> None:
    told = {row[0]: row[1:] for row in rows(PAGES["docs/reference/errors.md"])}
    del told["class"]
    assert told.pop("StreamBroken") == ["its cause's", "its cause's"]
    assert told == {
        cls.__name__: [cls.kind, "yes" if may_be_retried(cls) else "no"]
        for cls in public_errors()
        if hasattr(cls, "kind")
    }


def test_the_tree_on_the_errors_page_has_every_error() -> None:
    (tree,) = blocks(PAGES["docs/reference/errors.md"], "text")
    names = re.findall(r"^[ │├└─]*(\w+)", tree, re.MULTILINE)
    assert sorted(names) == sorted(cls.__name__ for cls in public_errors())


def public_errors() -> list[type[errors.GatewayError]]:
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [
        cls
        for cls in found
        if issubclass(cls, errors.GatewayError) and not cls.__name__.startswith("_")
    ]


def may_be_retried(cls: type[errors.GatewayError]) -> bool:
    if hasattr(cls, "default_retryable"):
        return cast("type[errors.AttemptError]", cls).default_retryable
    return cls.retryable


def test_the_gate_page_shows_the_tables_of_the_code() -> None:
    told = [row for row in rows(PAGES["docs/explanation/the-commit-gate.md"]) if row[1] != "event"]
    assert told == [
        [state.value, event.value, after.value]
        for (state, event), after in [*RACE_TRANSITIONS.items(), *ATTEMPT_TRANSITIONS.items()]
    ]


def figures_after(chunks: int, *, whole: bool) -> StreamFigures:
    """Give the figures of a stream of text, a chunk every 100 ms, with 20 tokens counted."""
    tally = Tally(10**9)
    for position in range(chunks):
        at = position * 10**8
        tally.take(Arrival(at, 10**8, 0, 1, 4, ("text",), None))
    ending = Ending(
        attempt=0,
        started_ns=0,
        until_ns=10**10,
        waited_ns=0,
        keepalives=0,
        end_kind="complete" if whole else "cut",
        form="stream",
        usage=Usage(output_tokens=20),
    )
    return StreamFigures(**figures(tally, ending))


def test_the_statistics_page_says_when_each_figure_exists() -> None:
    table = [row for row in rows(PAGES["docs/reference/statistics.md"]) if len(row) == 5]
    told = {
        name: (none, one, more)
        for names, none, one, more, _ in table[1:]
        for name in re.findall(r"\w+", names)
    }
    fields = {field.name for field in attrs.fields(StreamFigures)}
    assert fields - set(told) == {"stalls", "tokens_source", "rate_reason"}
    for name, cells in told.items():
        for chunks, cell in zip((0, 1, 9), cells, strict=True):
            # The open gap exists only where the end was not proper, all else where it was.
            seen = figures_after(chunks, whole=name != "open_gap_ms")
            assert (getattr(seen, name) is None) == (cell == "None"), (name, chunks)


SECTIONS = {
    "hedge": policies.HedgePolicy,
    "stream": policies.StreamPolicy,
    "retry": policies.RetryPolicy,
    "limits": policies.Limits,
}


def test_the_configuration_page_has_every_section() -> None:
    page = PAGES["docs/reference/configuration.md"]
    for section in attrs.fields(policies.Config):
        assert re.search(rf"^## `\[{section.name}(\.NAME)?\]`$", page, re.MULTILINE), section.name
    documented = re.findall(r"^\.\. autoclass:: (\w+)$", page, re.MULTILINE)
    classes = [policies.Config, policies.Target, policies.WeightedTarget, *SECTIONS.values()]
    assert sorted(documented) == sorted(cls.__name__ for cls in classes)


@pytest.mark.parametrize("name", PAGES)
def test_every_setting_that_a_page_names_exists(name: str) -> None:
    for section, setting in re.findall(rf"`({'|'.join(SECTIONS)})\.(\w+)", PAGES[name]):
        assert setting in attrs.fields_dict(SECTIONS[section]), f"{section}.{setting}"


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^):]+)\)", PAGES["README.md"])
    assert links
    for link in links:
        assert (ROOT / link).is_file(), link
