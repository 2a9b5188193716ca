"""Makes benchmarks/ importable, which is no part of the package."""

from __future__ import annotations

import sys
from pathlib import Path

# At the end: the package itself must come from where it is installed.
sys.path.append(str(Path(__file__).parents[2]))
