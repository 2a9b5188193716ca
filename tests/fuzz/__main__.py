"""Look for inputs for which something does not hold: ``python -m tests.fuzz [TARGET...]``.

Each target is fuzzed by atheris in a process of its own, with the coverage of ``polygateway.wire``
as its guide. It begins with the bodies of ``tests/data/wire`` and what is kept in
``tests/data/fuzz``. What was found is written to the folder that is printed, and the exit code is
1; ``python -m tests.fuzz --replay FILE TARGET`` then tells what does not hold.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .properties import PROPERTIES, check
from .seeds import keep, kept, seeds, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# What one input may take: seconds, and MiB of the whole process. And bytes that it may have.
_LIMITS = ("-timeout=5", "-rss_limit_mb=2048", "-max_len=8192")

_KEPT_BYTES = 14_000
"""How much is kept of the corpus of one target."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--keep", action="store_true", help="write tests/data/fuzz anew")
    parser.add_argument("--replay", type=Path, help="check this input, without atheris")
    options = parser.parse_args(arguments)
    targets: Sequence[str] = options.targets or list(PROPERTIES)
    if options.replay:
        for target in targets:
            check(target, options.replay.read_bytes())
        return 0
    folder = Path(tempfile.mkdtemp(prefix="polygateway-fuzz-"))
    failed = [name for name in targets if not fuzz(name, folder / name, options.seconds)]
    if options.keep:
        for name in targets:
            keep_what_is_new(name, folder / name)
    print(f"{len(targets) - len(failed)} passed, {len(failed)} failed")
    if failed:
        print(f"see what is called failed, timeout- or oom- in the folders of {folder}")
    return 1 if failed else 0


def fuzz(target: str, folder: Path, seconds: int) -> bool:
    """Fuzz *target* in *folder*; tell whether nothing was found."""
    print(f"== {target}", flush=True)
    write(folder / "seeds", [*seeds(target), *kept(target)])
    write(folder / "found", [])
    dictionary = folder / "words"
    dictionary.write_text("".join(f'"{word}"\n' for word in words(target)), "ascii")
    return libfuzzer(
        target,
        folder,
        *(f"-max_total_time={seconds}", f"-dict={dictionary}", f"-artifact_prefix={folder}/"),
        *(str(folder / "found"), str(folder / "seeds")),
    )


def keep_what_is_new(target: str, folder: Path) -> None:
    """Keep the inputs that do what no seed does, the shortest first, up to a bound."""
    write(folder / "kept", seeds(target))
    before = set((folder / "kept").iterdir())
    libfuzzer(
        target, folder, "-merge=1", *(str(folder / name) for name in ("kept", "seeds", "found"))
    )
    new = [path.read_bytes() for path in set((folder / "kept").iterdir()) - before]
    chosen, size = list[bytes](), 0
    for each in sorted(new, key=lambda each: (len(each), each)):
        size += len(each) * 4 // 3 + 3
        if size <= _KEPT_BYTES:
            chosen.append(each)
    keep(target, chosen)


def libfuzzer(target: str, folder: Path, *arguments: str) -> bool:
    script = folder / "fuzz"
    command = shlex.join([sys.executable, "-m", "tests.fuzz.one", target, str(script)])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
    script.chmod(0o700)
    done = subprocess.run([script, *_LIMITS, *arguments], check=False)  # noqa: S603 - ours
    return done.returncode == 0


def write(folder: Path, inputs: Iterable[bytes]) -> None:
    folder.mkdir(parents=True)
    for number, each in enumerate(inputs):
        (folder / f"{number:04}").write_bytes(each)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
