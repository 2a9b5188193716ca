"""A clean environment: what is set where the tests run is nobody's configuration."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith("POLYGATEWAY_"):
            monkeypatch.delenv(variable)
