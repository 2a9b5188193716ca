from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings, strategies as st

from polygateway.config.environment import put_on_top
from polygateway.config.mistakes import Mistake

FILE = """
[targets.eu-west]
model = "lyra-3"
headers = { x-team = "search" }
[models]
fast = ["eu-west"]
[hedge]
after_s = 4.0
"""


def over_file(**variables: str) -> dict[str, object]:
    """The file's table with the variables on top; there is no mistake in them."""
    table = tomllib.loads(FILE)
    _setters, mistakes = put_on_top(table, variables)
    assert mistakes == []
    return table


def told(**variables: str) -> list[str]:
    _setters, mistakes = put_on_top(tomllib.loads(FILE), variables)
    return [mistake.text for mistake in mistakes]


def test_without_variables_of_ours_the_file_stays_as_it_is() -> None:
    assert over_file(PATH="/bin", HEDGE__AFTER_S="1") == tomllib.loads(FILE)


def test_a_variable_goes_over_what_the_file_says() -> None:
    assert over_file(POLYGATEWAY_HEDGE__AFTER_S="3")["hedge"] == {"after_s": 3}


def test_a_variable_makes_the_tables_that_it_needs() -> None:
    table = over_file(POLYGATEWAY_RETRY__MAX_RETRIES="0", POLYGATEWAY_TARGETS__US__MODEL="lyra-4")
    assert table["retry"] == {"max_retries": 0}
    targets = table["targets"]
    assert isinstance(targets, dict)
    assert targets["us"] == {"model": "lyra-4"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3.5", 3.5),
        ("true", True),
        ('"3"', "3"),
        ("['eu', 'us']", ["eu", "us"]),
        ("{ target = 'eu', weight = 2 }", {"target": "eu", "weight": 2}),
        ("lyra-3", "lyra-3"),
        ("https://example.invalid/v1", "https://example.invalid/v1"),
        ("True", "True"),
        ("", ""),
        ("[1", "[1"),
        ("1\nother = 2", "1\nother = 2"),
        ("1\n[hedge]\nafter_s = 9", "1\n[hedge]\nafter_s = 9"),
        ("9" * 5000, "9" * 5000),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_value_is_what_toml_reads_else_a_string(text: str, value: object) -> None:
    table = over_file(POLYGATEWAY_HEDGE__AFTER_S=text)
    assert table["hedge"] == {"after_s": value}
    assert set(table) == {"targets", "models", "hedge"}


@pytest.mark.parametrize(
    "variable", ["POLYGATEWAY_TARGETS__EU_WEST__MODEL", "POLYGATEWAY_targets__Eu-West__Model"]
)
def test_names_of_the_file_are_met_whatever_their_case_and_dashes(variable: str) -> None:
    table = over_file(**{variable: "lyra-4"})
    assert table["targets"] == {"eu-west": {"model": "lyra-4", "headers": {"x-team": "search"}}}


def test_a_header_of_the_file_is_met_too() -> None:
    table = over_file(POLYGATEWAY_TARGETS__EU_WEST__HEADERS__X_TEAM="ads")
    targets = table["targets"]
    assert isinstance(targets, dict)
    assert targets["eu-west"]["headers"] == {"x-team": "ads"}


def test_a_name_that_two_of_the_file_could_mean_is_refused() -> None:
    table: dict[str, object] = {"targets": {"eu-west": {}, "eu_west": {}}}
    _setters, mistakes = put_on_top(table, {"POLYGATEWAY_TARGETS__EU_WEST__MODEL": "x"})
    assert [mistake.text for mistake in mistakes] == [
        "POLYGATEWAY_TARGETS__EU_WEST__MODEL could mean 'eu-west' or 'eu_west'"
    ]


def test_a_variable_within_what_is_no_table_is_refused() -> None:
    assert told(POLYGATEWAY_MODELS__FAST__FIRST="x") == [
        "POLYGATEWAY_MODELS__FAST__FIRST is within models.fast, which is no table"
    ]


def test_two_variables_for_one_setting_are_refused() -> None:
    assert told(POLYGATEWAY_HEDGE__AFTER_S="1", POLYGATEWAY_hedge__after_s="2") == [
        "POLYGATEWAY_hedge__after_s sets hedge.after_s, as POLYGATEWAY_HEDGE__AFTER_S does"
    ]


@pytest.mark.parametrize(
    "variable", ["POLYGATEWAY_HEDGE__", "POLYGATEWAY___AFTER_S", "POLYGATEWAY_A____B"]
)
def test_an_empty_part_is_refused(variable: str) -> None:
    assert told(**{variable: "1"}) == [
        f"{variable} has an empty part between or after its underscores"
    ]


def test_one_underscore_where_two_belong_is_refused_and_not_ignored() -> None:
    assert told(POLYGATEWAY_HEDGE_AFTER_S="1") == [
        "POLYGATEWAY_HEDGE_AFTER_S is no setting (nearest: POLYGATEWAY_HEDGE__AFTER_S)"
    ]


def test_what_kubernetes_makes_for_a_service_of_our_name_is_no_setting() -> None:
    # https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    made = {
        "POLYGATEWAY_SERVICE_HOST": "10.0.0.11",
        "POLYGATEWAY_SERVICE_PORT": "8080",
        "POLYGATEWAY_PORT": "tcp://10.0.0.11:8080",
        "POLYGATEWAY_PORT_8080_TCP": "tcp://10.0.0.11:8080",
    }
    assert over_file(**made) == tomllib.loads(FILE)


@pytest.mark.parametrize("variable", ["POLYGATEWAY_CONFIG", "POLYGATEWAY_HEDGE", "POLYGATEWAY__X"])
def test_a_variable_without_two_parts_is_no_setting(variable: str) -> None:
    assert over_file(**{variable: "/etc/polygateway.toml"}) == tomllib.loads(FILE)


def test_a_table_given_whole_takes_the_place_of_the_files() -> None:
    table = over_file(
        POLYGATEWAY_TARGETS__EU_WEST="{ model = 'lyra-4' }",
        POLYGATEWAY_TARGETS__EU_WEST__DIALECT="openai-chat",
    )
    assert table["targets"] == {"eu-west": {"model": "lyra-4", "dialect": "openai-chat"}}


def test_who_set_what_is_known() -> None:
    setters, _mistakes = put_on_top(
        tomllib.loads(FILE),
        {"POLYGATEWAY_HEDGE__AFTER_S": "3", "POLYGATEWAY_TARGETS__US__MODEL": "lyra-4"},
    )
    assert setters == {
        ("hedge", "after_s"): "POLYGATEWAY_HEDGE__AFTER_S",
        ("targets", "us"): "POLYGATEWAY_TARGETS__US__MODEL",
        ("targets", "us", "model"): "POLYGATEWAY_TARGETS__US__MODEL",
    }


def test_a_mistake_stands_where_its_variable_is() -> None:
    _setters, mistakes = put_on_top({}, {"POLYGATEWAY_HEDGE__": ""})
    assert mistakes == [
        Mistake(
            ("POLYGATEWAY_HEDGE__",),
            "POLYGATEWAY_HEDGE__ has an empty part between or after its underscores",
        )
    ]


@settings(deadline=None)
@given(st.dictionaries(st.text("ABCab_-"), st.text(), max_size=6))
def test_every_variable_is_set_ignored_or_told(variables: dict[str, str]) -> None:
    environ = {f"POLYGATEWAY_{name}": text for name, text in variables.items()}
    setters, mistakes = put_on_top({}, environ)
    ignored = {name for name in environ if "__" not in name.removeprefix("POLYGATEWAY_")}
    told = {mistake.place[0] for mistake in mistakes}
    assert {*setters.values(), *told, *ignored} == set(environ)
