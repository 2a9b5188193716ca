"""What was measured, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import cattrs

from ..speed.about import About
from .measuring import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@attrs.frozen
class Results:
    """The batches of a run."""

    about: About
    batches: Sequence[Batch]


def write(results: Results, file: Path) -> None:
    """Keep *results*, a line for each batch."""
    batches = ",\n".join(json.dumps(attrs.asdict(batch)) for batch in results.batches)
    file.parent.mkdir(parents=True, exist_ok=True)
    about = json.dumps(results.about, indent=1)
    file.write_text(f'{{"about": {about},\n"batches": [\n{batches}\n]}}\n', "utf-8")


def read(files: Iterable[Path]) -> Results:
    """Read what was kept, as one; it was measured alike."""
    kept = [json.loads(file.read_text("utf-8")) for file in files]
    batches = [batch for each in kept for batch in each["batches"]]
    return Results(kept[0]["about"], cattrs.structure(batches, list[Batch]))
