from __future__ import annotations

from polygateway.config.mistakes import Mistake, Place, as_error

AFTER_S = Mistake(("hedge", "after_s"), "hedge.after_s is wrong")
MODEL = Mistake(("targets", "eu", "model"), "targets.eu.model is wrong")
TARGET = Mistake(("targets", "eu"), "targets.eu is wrong")


def test_mistakes_are_counted_and_sorted_by_place() -> None:
    assert str(as_error("a file", [MODEL, TARGET, AFTER_S], {})) == (
        "3 mistakes in a file:\n"
        "  hedge.after_s is wrong\n"
        "  targets.eu is wrong\n"
        "  targets.eu.model is wrong"
    )


def test_one_mistake_is_not_called_mistakes() -> None:
    assert (
        str(as_error("a file", [AFTER_S], {})) == "1 mistake in a file:\n  hedge.after_s is wrong"
    )


def test_the_variable_that_set_it_is_named() -> None:
    variables: dict[Place, str] = {("hedge", "after_s"): "A", ("hedge", "enabled"): "B"}
    assert str(as_error("a file", [AFTER_S], variables)).endswith("is wrong (set by A)")


def test_variables_that_set_a_part_of_it_are_named_once_each() -> None:
    variables: dict[Place, str] = {
        ("targets", "eu"): "A",
        ("targets", "eu", "dialect"): "A",
        ("targets", "eu", "x"): "B",
    }
    assert str(as_error("a file", [TARGET], variables)).endswith("is wrong (set by A) (set by B)")


def test_else_the_variable_that_set_the_table_around_it_is_named() -> None:
    variables: dict[Place, str] = {
        ("targets",): "A",
        ("targets", "eu"): "B",
        ("targets", "us"): "C",
    }
    assert str(as_error("a file", [MODEL], variables)).endswith("is wrong (set by B)")


def test_even_if_that_is_the_whole_section() -> None:
    variables: dict[Place, str] = {("targets",): "A"}
    assert str(as_error("a file", [MODEL], variables)).endswith("is wrong (set by A)")
