"""The splice between an answer that broke and the one that goes on with it."""

# Theory of operation
# ===================
#
# The model is shown the delivered text without the white space at its end, which Anthropic refuses
# (langchain-google#1733), and goes on from there. What it says is a continuation, unless it begins
# the answer anew:
#
# Rule 1: while it says what the delivered text begins with, it is not known which of the two it
#         does, and nothing is given. White space before the first word of either does not count.
# Rule 2: when it has said all of the delivered text again, that is left out and the rest goes on,
#         however short it is. Mistral's API repeats it always (vercel/ai#3256), and a server that
#         takes it for a whole message lets its model begin at the beginning (colibri#1401).
# Rule 3: where it departs before that, it began alike by chance and what it has said is given;
#         unless it has said too much for chance. Then it has started over, and differently: that
#         fits nowhere behind what was delivered, so that it can only replace it.
# Rule 4: too much for chance are 30 characters, some six words, which the delivered text has
#         nowhere but at its beginning. What goes on begins with the same list mark or "def test_"
#         by its form alone; longer forms, as those of JSON lines, are there more than once.
# Rule 5: an answer that ends while it repeats departs where it ends.
# Rule 6: of a continuation, the white space that the model was not shown is left out as far as it
#         says that again. It never loses any other: indents and empty lines stay as they were
#         meant.
#
# What begins with the last words of the delivered text is not taken for a repetition. Models do
# repeat them when a prompt asks to go on, but of prefill no such report is known; and two lines
# that are the same are honest in code, in tables and in songs. To lose one in silence is worse than
# to see it twice (qwen-code#3966).
#
# What is left out, or not given yet, is always the beginning of what the model said.

from __future__ import annotations

from io import StringIO

TOO_MUCH_FOR_CHANCE = 30
"""How many characters of the delivered text's beginning the model may say again by chance."""


class _Echo:
    """A text that may be said again, and how much of it has been."""

    def __init__(self, text: str) -> None:
        self.heard: int = 0
        """How many characters of it have been said."""

        self._text = text

    @property
    def is_whole(self) -> bool:
        """Whether all of it has been said."""
        return self.heard == len(self._text)

    @property
    def said(self) -> str:
        """What has been said of it."""
        return self._text[: self.heard]

    @property
    def recurs(self) -> bool:
        """Whether what has been said of it is elsewhere in it, too."""
        return self._text.find(self.said, 1) >= 0

    def hear(self, piece: str) -> int:
        """Give how many characters at the beginning of *piece* are what comes next in it."""
        is_next = self._text.startswith(piece, self.heard)
        same = len(piece) if is_next else self._compare(piece)
        self.heard += same
        return same

    def _compare(self, piece: str) -> int:
        """Compare character by character. That is done once: the text ends, or *piece* departs."""
        rest = self._text[self.heard :]
        pairs = enumerate(zip(rest, piece, strict=False))
        return next((index for index, (mine, other) in pairs if mine != other), len(rest))


class Splice:
    """Joins the text of a continuation to what was delivered before."""

    def __init__(self, delivered: str) -> None:
        """Begin behind the text *delivered*."""
        self.delivered: str = delivered
        """The text that it goes on with."""

        self._sent = delivered.rstrip()
        self._beginning = _Echo(self._sent.lstrip())
        self._not_shown = _Echo(delivered[len(self._sent) :])
        self._blank = StringIO()  # before the first word
        self._is_known = self._beginning.is_whole
        self._whole: str | None = None
        self._said = 0
        self._given = 0

    @property
    def sent(self) -> str:
        """What the model is shown: the delivered text without the white space at its end."""
        return self._sent

    @property
    def started_over(self) -> bool:
        """Whether it has begun anew, and departed from what was delivered."""
        return self._whole is not None

    @property
    def whole(self) -> str:
        """All that it had said when it was found to have started over; empty if it has not."""
        return self._whole or ""

    @property
    def withheld(self) -> int:
        """How many characters at the beginning of what it has said are not to be delivered.

        They are repeated, or it is not known yet whether they are.
        """
        return self._said - self._given

    def feed(self, text: str) -> str:
        """Take a piece of what the model says, and give what is now to be delivered.

        That is nothing while it is not known whether the model starts over. If it has, what comes
        after :attr:`whole` is given as it is.
        """
        self._said += len(text)
        return self._join(text if self._is_known else self._judge(text))

    def close(self) -> str:
        """Take the end of what the model says, and give what is still to be delivered.

        It may be found out only now that it has started over.
        """
        return "" if self._is_known else self._join(self._depart(""))

    def _judge(self, text: str) -> str:
        """Give what goes on with the answer, once that is known."""
        if not self._beginning.heard:
            words = text.lstrip()
            self._blank.write(text[: len(text) - len(words)])
            text = words
        same = self._beginning.hear(text)
        if self._beginning.is_whole:
            self._is_known = True
            return text[same:]
        return self._depart(text[same:]) if same < len(text) else ""

    def _depart(self, text: str) -> str:
        """Give what goes on with the answer, if anything does, where *text* ends a repetition."""
        self._is_known = True
        said = f"{self._blank.getvalue()}{self._beginning.said}{text}"
        if self._beginning.heard < TOO_MUCH_FOR_CHANCE or self._beginning.recurs:
            return said
        self._whole, self._not_shown = said, _Echo("")
        return ""

    def _join(self, text: str) -> str:
        """Give *text* without the white space that is there already."""
        repeated = self._not_shown.hear(text)
        if repeated < len(text):
            self._not_shown = _Echo("")
        self._given += len(text) - repeated
        return text[repeated:]
