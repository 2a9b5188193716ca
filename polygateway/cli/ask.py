"""``polygateway ask``: one question, its answer as it comes, and where the time went."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from ..errors import ConfigurationError, GatewayError
from ..gateway import open_gateway
from ..messages import Chunk
from ..request import CallOptions, Prompt
from .figures import attempts_line, call_lines
from .terminal import harmless

if TYPE_CHECKING:
    from ..response import CompletionStream


async def ask(
    prompt: str | None = None,
    /,
    *,
    piped: Annotated[bool, Parameter(name="-", negative="", show=False)] = False,
    model: Annotated[str, Parameter(name=["--model", "-m"])],
    system: Annotated[str | None, Parameter(name=["--system", "-s"])] = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    deadline: float | None = None,
    config: Path | None = None,
) -> None:
    """Ask a configured model: the answer as it comes, then where the time went.

    The answer goes to standard output, the figures and the model's reasoning to standard error.

    Args:
        prompt: The question. If it is - or not there, it is read from standard input.
        piped: Whether the prompt is -.
        model: Which of the configured models.
        system: What the model is told before the question.
        temperature: Randomness of the answer, from 0.
        max_tokens: The longest answer, in tokens.
        deadline: Seconds that the whole call may take.
        config: A TOML file, instead of the user's own or the one that POLYGATEWAY_CONFIG names.
    """
    options: CallOptions = {
        "temperature": temperature,
        "max_tokens": max_tokens,
        "deadline_s": deadline,
    }
    await _answer(_conversation(_question(prompt, piped=piped), system), model, options, config)


def _question(prompt: str | None, *, piped: bool) -> str:
    """Give the prompt, wherever it is."""
    if prompt is not None:
        if piped:
            raise ConfigurationError("there are two prompts: one, and - for standard input")
        return prompt
    if not piped and sys.stdin.isatty():
        raise ConfigurationError("no prompt: name one, or pipe it to standard input")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"cannot read standard input: {error}") from None


def _conversation(question: str, system: str | None) -> Prompt:
    if not question.strip():
        raise ConfigurationError("the prompt is empty")
    user = {"role": "user", "content": question}
    return [user] if system is None else [{"role": "system", "content": system}, user]


async def _answer(prompt: Prompt, model: str, options: CallOptions, config: Path | None) -> None:
    page = _Page()
    stream: CompletionStream | None = None
    try:
        async with (
            open_gateway(config) as gw,
            gw.stream(prompt, model=model, **options) as stream,
        ):
            async for chunk in stream:
                page.show(chunk)
    except BrokenPipeError:
        stream = None  # who does not read the answer wants no figures either
        raise
    except GatewayError as error:
        if stream is None and error.attempts:
            page.note(attempts_line(error.attempts))
        raise
    finally:
        if stream is not None:
            page.end()
            page.note(*call_lines(stream.stats, stream.completion.usage))


class _Page:
    """Puts the answer on standard output, and all else on standard error."""

    def __init__(self) -> None:
        self._aside = Console(stderr=True, highlight=False)
        self._for_eyes = sys.stdout.isatty()
        self._answer_open = False
        self._aside_open = False

    def show(self, chunk: Chunk) -> None:
        """Print a chunk as it comes. Reasoning is only shown to somebody who watches."""
        if chunk.kind == "text":
            self._close_aside()
            self._answer(chunk.text)
        elif chunk.kind == "refusal" or (chunk.kind == "reasoning" and self._aside.is_terminal):
            if self._for_eyes:  # a file holds the answer as it was sent
                self._close_answer()
            self._whisper(chunk.delta)
        elif chunk.seam_kind == "restart":
            self.end()
            self.note("the answer begins anew: what came before is void")

    def end(self) -> None:
        """Finish the last line."""
        self._close_aside()
        self._close_answer()

    def note(self, *lines: str) -> None:
        """Print lines about the answer."""
        for line in lines:
            self._aside.out(line, style="dim")

    def _answer(self, text: str) -> None:
        self._answer_open = not text.endswith("\n")
        sys.stdout.write(harmless(text) if self._for_eyes else text)
        sys.stdout.flush()

    def _whisper(self, text: str) -> None:
        self._aside_open = not text.endswith("\n")
        self._aside.out(harmless(text), end="", style="dim")

    def _close_answer(self) -> None:
        if self._answer_open:
            self._answer("\n")

    def _close_aside(self) -> None:
        if self._aside_open:
            self._whisper("\n")
