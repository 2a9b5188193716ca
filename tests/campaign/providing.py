"""Providers that carry out the replies of a series, and remember who said what.

Every piece that is written names its provider, its exchange and its place ("eu0.0 ", "eu0.1 "), so
that what comes out tells where it came from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs
import trio

from polygateway import Config, Target, WeightedTarget
from polygateway.testing import (
    Exchange,
    ScriptedProvider,
    Send,
    Silence,
    chunk,
    comment,
    cut,
    done,
    empty,
    error_frame,
    finish,
    hang,
    headers,
    ping,
    raw,
    reasoning,
    refusal,
    reset,
    role,
    silence,
    status,
    together,
    tool_call,
    usage,
)

from .series import Reply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polygateway.messages import JSON
    from polygateway.testing import Request, Step

    from .series import Beat, Ending, GoingOn, Provider, Series, Spell, What

Piece: TypeAlias = tuple[str, str]
"""Kind and text of a content chunk."""

TOKENS_ASKED = 7


def question(number: int) -> str:
    """Give the prompt of a call, by which its requests are known at the other end."""
    return f"call {number}"


def voice(pieces: Iterable[Piece]) -> str:
    """Give what *pieces* say in one string, which does not tell how it was cut within a kind."""
    said: list[str] = []
    before = None
    for kind, text in pieces:
        said += [text] if kind == before else [f"<{kind}>", text]
        before = kind
    return "".join(said)


@attrs.define(eq=False)
class Asked:
    """A request as a provider saw it, and what was said to it."""

    call: int
    target: str
    prefix: str
    """The answer that it was to go on with; empty for none."""

    exchange: Exchange
    reply: Reply
    pieces: Mapping[Send, Sequence[Piece]]
    """What each step with content says."""

    on_used_connection: bool
    """Whether its connection had been used before."""

    @property
    def was_lost(self) -> bool:
        """Whether a client must take the connection for a stale one, and may ask once more."""
        lost = self.exchange.ended in {"cut", "reset"} and not self.exchange.sent
        return lost and self.on_used_connection

    def spoken(self) -> list[Piece]:
        """Give the content that was written up to now."""
        steps = (step for _, step in self.exchange.sent if isinstance(step, Send))
        return [piece for step in steps for piece in self.pieces.get(step, ())]

    def text(self) -> str:
        """Give the text that was written up to now."""
        return "".join(text for kind, text in self.spoken() if kind == "text")


class Cast:
    """The providers of a series, and all that they were asked."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self.asked: list[Asked] = []
        """In the order in which the requests came. Those that were dropped are not in it."""

        self.providers = {
            name: self._provider(name, position, provider)
            for position, (name, provider) in enumerate(series.by_name().items())
        }

    def _provider(self, name: str, position: int, provider: Provider) -> ScriptedProvider:
        def script(request: Request) -> Sequence[Step]:
            exchange = scripted.log[-1]
            number, prefix = _request(request)
            reply = self._reply(number, name, position, provider)
            label = f"{name}{exchange.index}"
            steps, pieces = _Writer(reply, label, prefix).script()
            used = any(each.connection == exchange.connection for each in scripted.log[:-1])
            self.asked.append(Asked(number, name, prefix, exchange, reply, pieces, used))
            return steps

        keep_alive = provider.keep_alive_ms
        scripted = ScriptedProvider(
            script,
            connect_s=provider.connect_ms / 1000,
            keep_alive_s=float("inf") if keep_alive is None else keep_alive / 1000,
            drops_reused=provider.drops_reused,
        )
        return scripted

    def _reply(self, number: int, name: str, position: int, provider: Provider) -> Reply:
        spell, now = provider.spell, trio.current_time() * 1000
        if spell is not None and spell.reply is not None and spell.begin_ms <= now < spell.end_ms:
            return spell.reply
        before = sum((each.call, each.target) == (number, name) for each in self.asked)
        luck = self._series.calls[number].luck * (position + 1) + before
        return provider.replies[luck % len(provider.replies)]

    def config(self, base_urls: Mapping[str, str]) -> Config:
        """Give the configuration of the series, whose model is called ``m``."""
        series = self._series
        targets = {
            name: Target(
                dialect="openai-chat",
                base_url=base_urls[name],
                model="scripted",
                prefill=provider.prefill,
            )
            for name, provider in series.by_name().items()
        }
        weighted = [
            WeightedTarget(target=name, weight=provider.weight)
            for name, provider in series.by_name().items()
        ]
        return Config(
            targets=targets,
            models={"m": weighted if series.weighted else tuple(targets)},
            hedge=series.policies.hedge,
            stream=series.policies.stream,
            retry=series.policies.retry,
            limits=series.limits,
        )

    async def refuse_connections(self) -> None:
        """Let the providers refuse connections while they are sick in that way."""
        async with trio.open_nursery() as nursery:
            for name, provider in self._series.by_name().items():
                if provider.spell is not None and provider.spell.reply is None:
                    nursery.start_soon(self._refuse, self.providers[name], provider.spell)

    async def _refuse(self, provider: ScriptedProvider, spell: Spell) -> None:
        await trio.sleep_until(spell.begin_ms / 1000)
        provider.refuses = True
        await trio.sleep_until(spell.end_ms / 1000)
        provider.refuses = False


def _request(request: Request) -> tuple[int, str]:
    """Give the number of the call that made *request*, and the answer that it is to go on with."""
    messages = cast("Sequence[Mapping[str, str]]", request.body["messages"])
    last = messages[-1]
    number = int(messages[0]["content"].removeprefix("call "))
    return number, last["content"] if last["role"] == "assistant" else ""


class _Writer:
    """Writes the script of one reply."""

    def __init__(self, reply: Reply, label: str, prefix: str) -> None:
        self._reply = reply
        self._label = label
        self._prefix = prefix
        self._place = 0
        self._called = False
        self._steps: list[Step] = []
        self._pieces: dict[Send, Sequence[Piece]] = {}

    def script(self) -> tuple[Sequence[Step], Mapping[Send, Sequence[Piece]]]:
        reply = self._reply
        if reply.status != 200:
            return [*_wait(reply.wait_ms), *_refused(reply)], {}
        if self._prefix and reply.going_on == "refuses":
            return status(400), {}
        if reply.head_first:
            self._steps.append(headers())
        if self._prefix:
            self._begin_again(reply.going_on)
        for beat in reply.beats:
            self._steps += _wait(beat.wait_ms)
            self._write(beat)
        self._steps += [*_wait(reply.wait_ms), *self._ending(reply.ending)]
        return self._steps, self._pieces

    def _begin_again(self, how: GoingOn) -> None:
        """Say what comes before the first beat of an answer that has been begun."""
        if how == "goes on after a blank":
            self._say(("text", " "))
        elif how == "starts over":
            for word in re.findall(r"\S+\s*", self._prefix):
                self._say(("text", word))
            blank = self._prefix[-1:].isspace()
            if not blank:
                self._say(("text", " "))
        elif how == "starts differently":
            self._say(("text", self._prefix[:-1] + "\N{SNOWMAN} "))

    def _write(self, beat: Beat) -> None:
        match beat.what:
            case "text" | "reasoning" | "refusal" | "tool_call" as kind:
                self._say((kind, self._next()))
            case "two":
                self._say(("text", self._next()), ("text", self._next()))
            case "comment" | "ping" | "empty" | "role" as what:
                self._steps.append(_OTHER[what])

    def _next(self) -> str:
        self._place += 1
        return f"{self._label}.{self._place - 1} "

    def _say(self, *pieces: Piece) -> None:
        step = together(*(self._content(kind, text) for kind, text in pieces))
        self._pieces[step] = pieces
        self._steps.append(step)

    def _ending(self, ending: Ending) -> Iterable[Step]:
        if ending == "whole" and self._reply.counts:
            return [finish(), usage(TOKENS_ASKED, self._place), done()]
        return _ENDINGS[ending]

    def _content(self, kind: str, text: str) -> Send:
        match kind:
            case "reasoning":
                return reasoning(text)
            case "refusal":
                return refusal(text)
            case "tool_call" if not self._called:
                self._called = True
                return tool_call(text, id="call_1", name="look_up")
            case "tool_call":
                return tool_call(text)
            case _:
                return chunk(text)


def _wait(ms: int) -> list[Silence]:
    return [silence(ms / 1000)] if ms else []


def _refused(reply: Reply) -> Sequence[Step]:
    fields = {} if reply.retry_after is None else {"retry-after": reply.retry_after}
    error: dict[str, JSON] = {"message": "scripted", "type": "scripted_error", "code": reply.code}
    return status(reply.status, {"error": error}, fields)


_OTHER: Mapping[What, Send] = {
    "comment": comment(),
    "ping": ping(),
    "empty": empty(),
    "role": role(),
}

_ENDINGS: Mapping[Ending, Sequence[Step]] = {
    "whole": [finish(), done()],
    "no marker": [finish(), hang()],
    "marker only": [done()],
    "length": [finish("length"), done()],
    "cut": [cut()],
    "reset": [reset()],
    "hang": [hang()],
    "error": [error_frame("boom")],
    "overloaded": [error_frame("busy", type="overloaded_error", code=529), done()],
    "rate limited": [error_frame("slow down", type="rate_limit_error", code="rate_limit_exceeded")],
    "garbage": [raw(b"data: {\n\n"), hang()],
    "eof": [],
}
