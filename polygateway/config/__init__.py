"""Reads TOML and the environment into the policies, and tells every mistake at once."""

from __future__ import annotations

from .keys import resolve_key
from .load import load_config

__all__ = ["load_config", "resolve_key"]
