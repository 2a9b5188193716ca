"""A key goes to its provider and nowhere else, whatever goes wrong.

A canary is driven through every way of failing, and then looked for in all that an application, a
log, a journal, a picture, an exporter or an error reporter could show: texts, arguments, notes and
attributes of errors, their causes, their tracebacks with the variables of every frame of ours,
their pickles, the records of attempts, the gateway itself.
"""

from __future__ import annotations

import io
import json
import logging
import pickle
import shlex
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING
from urllib.parse import quote

import attrs
import pytest
import trio
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from polygateway import (
    Completion,
    Config,
    ConfigurationError,
    Gateway,
    GatewayError,
    HedgePolicy,
    InternalError,
    Limits,
    RetryPolicy,
    StreamPolicy,
    Target,
    open_gateway,
)
from polygateway.cli import main as command
from polygateway.config import load_config
from polygateway.observe import (
    Journal,
    OpenTelemetryInstrument,
    PrometheusInstrument,
    draw_call,
    draw_page,
    read_journal,
)
from polygateway.secret import Secret
from polygateway.testing import (
    Script,
    ScriptedProvider,
    Send,
    answer,
    chunk,
    cut,
    done,
    error_frame,
    finish,
    hang,
    headers,
    page,
    raw,
    reset,
    run_virtual,
    serve_memory,
    silence,
    status,
)
from polygateway.wire import DIALECTS
from tests.frames import is_ours

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from polygateway.messages import JSON
    from polygateway.policies import DialectName

    Ask = Callable[[Gateway], Awaitable[Completion]]

KEY = 'sk-canary/7f3a+9b21%c4d8"e6'
"""With characters that JSON, URLs and HTML escape."""

ESCAPED = json.dumps(KEY)[1:-1]


# ---------------------------------------------------------------- looking for it


def forms() -> Iterator[str]:
    """Give what would betray the key: itself, escaped, or the best part of it."""
    yield from (KEY, ESCAPED, quote(KEY, safe=""), KEY[:12])


def betrayed(text: str) -> bool:
    return any(form in text for form in forms())


def shown(error: BaseException, seen: set[int]) -> Iterator[str]:
    """Give every text that an error, and all that is linked to it, could be shown by."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
    yield repr(getattr(error, "__notes__", ()))
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    for frame in told.stack:
        if is_ours(frame.filename):
            yield f"{frame.filename}:{frame.lineno} {frame.locals}"
    if isinstance(error, GatewayError):
        yield pickle.dumps(error).decode("latin-1")
    for other in (error.__cause__, error.__context__):
        if other is not None:
            yield from shown(other, seen)


def shown_of(answer: Completion) -> Iterator[str]:
    yield repr(answer)
    yield pickle.dumps(answer).decode("latin-1")
    yield repr(attrs.asdict(answer))


class Watch:
    """Everything that watches a gateway, and what it has seen."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "calls.jsonl"
        self._journal = Journal(self._path, text=True)
        self._registry = CollectorRegistry()
        self._spans = InMemorySpanExporter()
        self.texts: list[str] = []
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.instruments = [
            self._journal,
            PrometheusInstrument(self._registry),
            OpenTelemetryInstrument(tracer_provider=provider),
        ]

    def everything(self) -> Iterator[str]:
        """Give all texts."""
        yield from self.texts
        self._journal.close()
        yield self._path.read_text("utf-8")
        calls = read_journal(self._path).calls
        yield draw_page(calls)
        yield from map(draw_call, calls)
        yield generate_latest(self._registry).decode()
        yield from (span.to_json() for span in self._spans.get_finished_spans())


@pytest.fixture
def logs() -> Iterator[Callable[[], str]]:
    """Have everything logged, by everybody, with tracebacks; give what was."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield written.getvalue
    root.removeHandler(handler)
    root.setLevel(level)


def test_what_looks_for_the_key_finds_it() -> None:
    for form in forms():
        with pytest.raises(ValueError, match="leak") as caught:
            raise ValueError(f"a leak: {form}")
        assert any(map(betrayed, shown(caught.value, set())))
    with pytest.raises(ValueError, match="No closing quotation") as caught:
        shlex.split(KEY)  # whose frames have it in a variable
    assert any(map(betrayed, shown(caught.value, set())))


# ---------------------------------------------------------------- what a provider can do


def refuses(http_status: int, **fields: JSON) -> Script:
    return status(http_status, {"error": {"message": "no", **fields}})


def event(value: JSON) -> Send:
    return raw(f"data: {json.dumps(value)}\n\n".encode())


FAILED: JSON = {"finish_reason": "error", "error": {"message": KEY}}
ECHO = {"x-echo": f"Bearer {KEY}", "x-request-id": KEY}


SCRIPTS: Mapping[str, Script] = {
    # It quotes the key in a refusal.
    "401 with the key": refuses(401, message=f"Incorrect API key provided: {KEY}."),
    "400 with the key": refuses(400, message=f"bad key {KEY}"),
    "403 with the key": refuses(403, message=f"{KEY} may not"),
    "404 with the key": refuses(404, message=f"no model for {KEY}"),
    "429 with the key": refuses(429, message=f"rate limit of {KEY}"),
    "500 with the key": refuses(500, message=f"boom {KEY}"),
    "503 with the key": refuses(503, message=f"{KEY} has to wait"),
    "the key as a code": refuses(401, code=KEY),
    "the key as a type": refuses(401, type=KEY),
    "the key in quotes of quotes": refuses(401, message=json.dumps({"sent": ESCAPED})),
    "the key in a URL": refuses(401, message=f"see /keys?key={quote(KEY, safe='')}"),
    "the key where the text is cut": refuses(401, message=f"{'x' * 485}{KEY}"),
    "the key after the cut of an escape": refuses(401, message=f"{'x' * 478}{ESCAPED}"),
    "a page with the key": page(f"<html>{KEY}</html>", code=401),
    "a page with status 200": page(f"<html>{KEY}</html>"),
    "plain text with the key": (headers(status=502), raw(f"upstream said {KEY}".encode())),
    "a redirect with the key": [headers({"location": f"/{quote(KEY)}"}, status=307)],
    "the key as the request's id": [headers({"x-request-id": KEY}, status=500)],
    "the key in a header of a refusal": [headers(ECHO, status=500)],
    # It quotes it in a stream.
    "an error frame with the key": [error_frame(f"lost {KEY}")],
    "an error frame behind content": [chunk("Ebb."), error_frame(f"lost {KEY}", code=KEY)],
    "a finish reason with the key": [event({"choices": [FAILED]})],
    "no JSON with the key": [raw(f"data: {{{KEY}\n\n".encode())],
    "JSON, but no object": [event([KEY])],
    "no UTF-8 behind the key": [raw(f"data: {KEY}".encode() + b"\xff\n\n")],
    "a whole answer with the key in its head": [headers(ECHO), chunk("Ebb."), finish(), done()],
    "a cut behind a line with the key": [chunk("Ebb."), raw(f"data: {KEY}".encode()), cut()],
    # It does not, but things go wrong.
    "closed without a reply": [cut()],
    "reset without a reply": [reset()],
    "reset in the answer": [chunk("Ebb."), reset()],
    "silence": [hang()],
    "silence in the answer": [chunk("Ebb."), hang()],
    "no HTTP": [headers(), raw(b"")],
    "nothing but an end": [done()],
    "an answer too long": [chunk("x" * 2000)],
    "a whole answer": answer("Ebb."),
}  # fmt: skip


def config(dialect: DialectName = "openai-chat") -> Config:
    return Config(
        targets={
            "eu": Target(
                dialect=dialect, base_url="https://eu.invalid/v1", model="m", api_key_env="CANARY"
            )
        },
        models={"m": ("eu",)},
        hedge=HedgePolicy(enabled=False),
        retry=RetryPolicy(max_retries=1, backoff_base_s=0),
        stream=StreamPolicy(ttft_timeout_s=1, stall_timeout_s=1),
        limits=Limits(max_answer_bytes=1000, max_event_bytes=10_000, admission_timeout_s=1),
    )


async def complete(gw: Gateway) -> Completion:
    return await gw.complete("How is the tide?", model="m")


async def stream(gw: Gateway) -> Completion:
    async with gw.stream("How is the tide?", model="m") as opened:
        async for _ in opened:
            pass
    return opened.completion


async def run(
    script: Script,
    dialect: DialectName,
    ask: Ask,
    watch: Watch,
) -> None:
    """Make a call, and collect all that could be shown of it."""
    provider = ScriptedProvider(script)
    async with serve_memory({"eu": provider}) as network:
        async with open_gateway(
            config(dialect), connect=network.connect, instruments=watch.instruments
        ) as gw:
            try:
                watch.texts += shown_of(await ask(gw))
            except GatewayError as error:
                logging.getLogger("application").exception("the call failed")
                watch.texts += shown(error, set())
            watch.texts += [repr(gw), repr(gw.stats()), repr(vars(gw))]
        sent = [exchange.request for exchange in provider.log]
    assert all(KEY in str(request.headers) for request in sent), "the key did not go along"
    assert sent


@pytest.mark.parametrize("ask", [complete, stream])
@pytest.mark.parametrize("name", SCRIPTS)
def test_whatever_a_provider_does_the_key_is_not_shown(
    name: str,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
    logs: Callable[[], str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("CANARY", KEY)
    watch = Watch(tmp_path)
    run_virtual(run, SCRIPTS[name], "openai-chat", ask, watch)
    found = [text for text in (*watch.everything(), logs()) if betrayed(text)]
    assert not found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_dialect_shows_the_key(
    dialect: DialectName, monkeypatch: pytest.MonkeyPatch, logs: Callable[[], str], tmp_path: Path
) -> None:
    monkeypatch.setenv("CANARY", KEY)
    watch = Watch(tmp_path)
    script = refuses(401, message=f"invalid x-api-key {KEY}")
    run_virtual(run, script, dialect, complete, watch)
    found = [text for text in (*watch.everything(), logs()) if betrayed(text)]
    assert not found


def with_header(watch: Watch) -> None:
    """Make a call whose key is in a header of the application's own, which a refusal quotes."""
    provider = ScriptedProvider(refuses(401, message=f"bad key {KEY}"))

    async def main() -> None:
        async with serve_memory({"eu": provider}) as network:
            eu = attrs.evolve(config().targets["eu"], api_key_env=None, headers={"X-Api-Key": KEY})
            given = attrs.evolve(config(), targets={"eu": eu})
            async with open_gateway(
                given, connect=network.connect, instruments=watch.instruments
            ) as gw:
                with pytest.raises(GatewayError) as caught:
                    await complete(gw)
        watch.texts += (repr(given), *shown(caught.value, set()))
        assert provider.log[0].request.headers["x-api-key"] == KEY

    run_virtual(main)


def test_a_key_in_a_header_is_not_shown_either(logs: Callable[[], str], tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    with_header(watch)
    assert not [text for text in (*watch.everything(), logs()) if betrayed(text)]


# ---------------------------------------------------------------- where it goes

OTHER = "sk-other-5e2d8c41f0b7"


async def visit(scripts: Mapping[str, Script]) -> Mapping[str, str]:
    """Make a call to two targets, each with a key of its own; give all headers, by the host."""
    providers = {name: ScriptedProvider(script) for name, script in scripts.items()}
    async with serve_memory(providers) as network:
        eu = config().targets["eu"]
        us = attrs.evolve(eu, base_url="https://us.invalid/v1", api_key_env="OTHER")
        given = attrs.evolve(config(), targets={"eu": eu, "us": us}, models={"m": ("eu", "us")})
        async with open_gateway(given, connect=network.connect) as gw:
            assert (await complete(gw)).text == "Ebb."
    return {
        name: repr([exchange.request for exchange in provider.log])
        for name, provider in providers.items()
    }


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_key_goes_to_its_own_origin_only_whatever_a_redirect_says(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", KEY)
    monkeypatch.setenv("OTHER", OTHER)
    away = [headers({"location": "https://us.invalid/v1/chat/completions"}, status=code)]
    sent = run_virtual(visit, {"eu": away, "us": answer("Ebb.")})
    assert KEY in sent["eu"]
    assert OTHER not in sent["eu"]
    assert OTHER in sent["us"]
    assert KEY not in sent["us"]


@pytest.mark.parametrize(
    "base_url", ["http://eu.invalid/v1", "http://10.0.0.7/v1", "http://localhost.invalid"]
)
def test_a_key_does_not_cross_a_network_in_clear(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match="would cross the network in clear"):
        attrs.evolve(config().targets["eu"], base_url=base_url)


# ---------------------------------------------------------------- what the application can do


class Broken(trio.abc.Stream):
    """A connection that fails at one of its steps, with an error that nobody expects."""

    def __init__(self, step: str, error: BaseException) -> None:
        self._step, self._error = step, error

    async def _do(self, step: str) -> None:
        await trio.lowlevel.checkpoint()
        if step == self._step:
            raise self._error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._do("send")

    async def wait_send_all_might_not_block(self) -> None:
        await self._do("wait")

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await self._do("receive")
        await trio.sleep_forever()

    async def aclose(self) -> None:
        await self._do("close")


ERRORS: Mapping[str, BaseException] = {
    "OSError": OSError("lost"),
    "BrokenResourceError": trio.BrokenResourceError("lost"),
    "RuntimeError": RuntimeError("a defect"),
    "KeyboardInterrupt": KeyboardInterrupt(),
}


async def fail(step: str, error: BaseException, texts: list[str]) -> None:
    async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if step == "connect":
            raise error
        return Broken(step, error)

    async with open_gateway(config(), connect=connect) as gw:
        try:
            await complete(gw)
        except (Exception, KeyboardInterrupt) as failure:  # noqa: BLE001 - whatever it is
            texts += shown(failure, set())


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("step", ["connect", "send", "receive"])
def test_whatever_a_connection_raises_the_key_is_not_shown(
    step: str, name: str, monkeypatch: pytest.MonkeyPatch, logs: Callable[[], str]
) -> None:
    monkeypatch.setenv("CANARY", KEY)
    texts: list[str] = []
    run_virtual(fail, step, ERRORS[name], texts)
    assert texts
    assert not [text for text in (*texts, logs()) if betrayed(text)]


async def cancel(after_s: float, texts: list[str]) -> None:
    # Cut off in the connection, in a reply that has not begun, in a refusal that quotes the key.
    refusal = (silence(0.2), headers(ECHO, status=401), raw(f"bad key {KEY}".encode()), hang())
    provider = ScriptedProvider(refusal, connect_s=0.2)
    async with (
        serve_memory({"eu": provider}) as network,
        open_gateway(config(), connect=network.connect) as gw,
    ):
        with trio.move_on_after(after_s):
            try:
                await complete(gw)
            except trio.Cancelled as cancelled:
                texts += shown(cancelled, set())
                raise


@pytest.mark.parametrize("after_s", [0, 0.1, 0.3, 0.6])
def test_a_cancelled_call_shows_no_key(after_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", KEY)
    texts: list[str] = []
    run_virtual(cancel, after_s, texts)
    assert texts
    assert not list(filter(betrayed, texts))


async def misuse(texts: list[str]) -> None:
    provider = ScriptedProvider(answer("Ebb."))
    async with serve_memory({"eu": provider}) as network:
        async with open_gateway(config(), connect=network.connect) as gw:
            with pytest.raises(ConfigurationError) as refused:
                await gw.complete("x", model="m", extra={"model": "y"})
        with pytest.raises(GatewayError) as closed:
            await complete(gw)
    texts += (*shown(refused.value, set()), *shown(closed.value, set()))


def test_a_misuse_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", KEY)
    texts: list[str] = []
    run_virtual(misuse, texts)
    assert not list(filter(betrayed, texts))


# ---------------------------------------------------------------- configuration


def target(**fields: object) -> Mapping[str, object]:
    eu = {"dialect": "openai-chat", "base_url": "https://eu.invalid/v1", "model": "m", **fields}
    return {"targets": {"eu": eu}, "models": {"m": ["eu"]}}


CONFIGURATIONS: Mapping[str, Mapping[str, object]] = {
    "a key in the file": target(api_key=KEY),
    "a key in place of its variable": target(api_key_env=KEY),
    "a key in the address": target(base_url=f"https://user:{quote(KEY)}@eu.invalid/v1"),
    "a key in the query": target(base_url=f"https://eu.invalid/v1?key={quote(KEY, safe='')}"),
    "a key in a header with a line break": target(headers={"authorization": f"Bearer {KEY}\n"}),
    "a key as the name of a header": target(headers={f"authorization: {KEY}": "x"}),
    "a key among the fields of the body": target(extra={"model": KEY}),
    "a key as a mapping's": target(headers=KEY),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_that_is_refused_shows_no_key(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_config(CONFIGURATIONS[name])
    assert not list(filter(betrayed, (str(caught.value), repr(caught.value))))


async def open_once(texts: list[str], given: Config | Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        async with open_gateway(given):
            pass
    texts += shown(caught.value, set())


EU = 'models.m = ["eu"]\n[targets.eu]\ndialect = "openai-chat"\nmodel = "m"\n'
BASE_URL = 'base_url = "https://eu.invalid/v1"\n'
BARE = "gsk_canary7f3a9b21c4d8e6"
"""A key that could be the name of a variable."""

FILES: Mapping[str, str] = {
    "a key in the file": f"{EU}{BASE_URL}api_key = '{KEY}'",
    "a key in place of its variable": f"{EU}{BASE_URL}api_key_env = '{KEY}'",
    "a key that could be a variable": f"{EU}{BASE_URL}api_key_env = '{BARE}'",
    "a key in the address": f"{EU}base_url = 'https://user:{quote(KEY, safe='')}@eu.invalid'",
    "a key in a header": f"{EU}{BASE_URL}headers.authorization = 'Bearer {KEY} '",
    "a key as a table": f"{EU}{BASE_URL}[targets.eu.secret]\nkey = '{KEY}'",
    "a key in a section": f"{EU}{BASE_URL}[hedge]\ntoken = '{KEY}'",
    "a key without quotes": f"{EU}{BASE_URL}api_key = {KEY}",
    "a key in a broken line": f"{EU}{BASE_URL}api_key = '{KEY}\n",
    "a key twice": f"{EU}{BASE_URL}api_key = '{KEY}'\napi_key = '{KEY}'",
    "a key and no UTF-8": f"{EU}{BASE_URL}api_key = '{KEY}'\nx = '\udcff'",
    "a key beside another mistake": f"{EU}{BASE_URL}headers.x-api-key = '{KEY}'\nprefill = 3",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_refused_shows_no_key_in_any_frame(name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(FILES[name].encode("utf-8", "surrogateescape"))
    texts: list[str] = []
    run_virtual(open_once, texts, path)
    assert texts
    assert not [text for text in texts if betrayed(text) or BARE in text]


@pytest.mark.parametrize("name", ["API_KEY", "HEADERS", "BASE_URL", "API_KEY_ENV"])
def test_a_variable_that_is_refused_shows_no_key_in_any_frame(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"{EU}{BASE_URL}", "utf-8")
    monkeypatch.setenv(f"POLYGATEWAY_TARGETS__EU__{name}", KEY)
    texts: list[str] = []
    run_virtual(open_once, texts, path)
    assert any(f"POLYGATEWAY_TARGETS__EU__{name}" in text for text in texts)
    assert not list(filter(betrayed, texts))


@pytest.mark.parametrize(
    "key", [f"{KEY}\r", f"{KEY}\n", f" {KEY}", f"{KEY}\t", f"{KEY}\x7f", f"{KEY}\x1b[0m", f"{KEY}é"]
)
def test_a_key_with_stray_characters_is_refused_and_not_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", key)
    texts: list[str] = []
    run_virtual(open_once, texts, config())
    assert any("at position" in text for text in texts)
    assert not list(filter(betrayed, texts))


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize("words", [["ask", "x", "--model", "m"], ["probe", "--requests", "1"]])
def test_the_command_shows_no_key(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        'models.m = ["eu"]\n[targets.eu]\ndialect = "openai-chat"\nmodel = "m"\n'
        'base_url = "http://127.0.0.1:1/v1"\napi_key_env = "CANARY"\n',
        "utf-8",
    )
    monkeypatch.setenv("CANARY", KEY)
    monkeypatch.setenv("POLYGATEWAY_CONFIG", str(path))
    monkeypatch.setattr("sys.argv", ["polygateway", *words])
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit):
        command()
    assert "127.0.0.1" in out.getvalue() + err.getvalue()
    assert not betrayed(out.getvalue() + err.getvalue())


def test_a_defect_of_ours_shows_no_key() -> None:
    secret = Secret(KEY)
    error = InternalError.because(RuntimeError(f"of {secret} and {secret!r} and {secret:>20}"))
    assert not list(filter(betrayed, shown(error, set())))
