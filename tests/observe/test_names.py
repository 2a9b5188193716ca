"""What the room of instruments promises is there, and opening its door is cheap."""

from __future__ import annotations

import subprocess
import sys

import pytest

from polygateway import instrument, observe


@pytest.mark.parametrize("name", observe.__all__)
def test_every_name_that_is_promised_is_there(name: str) -> None:
    assert getattr(observe, name) is getattr(observe, name)
    assert name in dir(observe)


def test_a_name_that_is_not_promised_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'Nonsense'"):
        getattr(observe, "Nonsense")  # noqa: B009 - a checker would see through it


def test_every_event_that_an_instrument_is_told_of_has_a_name() -> None:
    events = {
        name
        for name, value in vars(instrument).items()
        if isinstance(value, type) and "tell" in vars(value)
    }
    assert events
    assert events <= set(observe.__all__)


def test_an_instrument_needs_no_package_of_another_one() -> None:
    code = """
        import sys
        sys.modules.update(dict.fromkeys(["opentelemetry", "prometheus_client", "rich"]))
        from polygateway.observe import Journal, draw_page, figures_of, read_journal
        try:
            from polygateway.observe import PrometheusInstrument
        except ImportError as error:
            print(error)
    """
    script = "\n".join(line[8:] for line in code.splitlines())
    done = subprocess.run(  # noqa: S603 - our own interpreter and text
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "polygateway[prometheus]" in done.stdout
