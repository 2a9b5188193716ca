"""The front door: what is promised is there, and opening it is cheap."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

import polygateway


@pytest.mark.parametrize("name", polygateway.__all__)
def test_every_name_that_is_promised_is_there(name: str) -> None:
    assert getattr(polygateway, name) is getattr(polygateway, name)
    assert name in dir(polygateway)


def test_a_name_that_is_not_promised_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'Nonsense'"):
        getattr(polygateway, "Nonsense")  # noqa: B009 - a checker would see through it


def test_every_error_can_be_imported_from_the_front_door() -> None:
    def tree(error: type[polygateway.GatewayError]) -> list[type[polygateway.GatewayError]]:
        return [error, *(leaf for each in error.__subclasses__() for leaf in tree(each))]

    for error in tree(polygateway.GatewayError):
        if not error.__name__.startswith("_"):
            assert getattr(polygateway, error.__name__) is error


def test_the_import_alone_loads_neither_trio_nor_an_http_client() -> None:
    code = "import polygateway, sys; print(sorted({'trio', 'httpcore', 'h11'} & set(sys.modules)))"
    done = subprocess.run(  # noqa: S603 - our own interpreter and text
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_values_pickle() -> None:
    usage = polygateway.Usage(input_tokens=7)
    assert pickle.loads(pickle.dumps(usage)) == usage  # noqa: S301 - our own
