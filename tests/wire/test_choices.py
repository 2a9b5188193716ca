from __future__ import annotations

from hypothesis import given, strategies as st

from polygateway.wire.choices import Choices


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans())))
def test_it_tells_what_looking_at_every_choice_would_tell(marks: list[tuple[int, bool]]) -> None:
    choices, finished = Choices(), dict[int, bool]()
    for index, is_finished in marks:
        choices.mark(index, finished=is_finished)
        finished[index] = is_finished
    assert len(choices) == len(finished)
    assert choices.any_finished == any(finished.values())
    assert choices.all_finished == (bool(finished) and all(finished.values()))
    for index in range(5):
        assert (index in choices) == (index in finished)
        assert choices.is_finished(index) == finished.get(index, False)
