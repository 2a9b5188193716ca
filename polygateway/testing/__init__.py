"""For tests of applications: scripted providers, and virtual time.

::

    from polygateway import open_gateway
    from polygateway.testing import ScriptedProvider, answer, run_virtual, serve_memory, silence


    async def main():
        slow = ScriptedProvider([silence(55), *answer("too late")])
        quick = ScriptedProvider(answer("The ", "tide ", "turns.", every_s=0.02))
        async with serve_memory({"eu": slow, "us": quick}) as network:
            async with open_gateway(network.config(), connect=network.connect) as gw:
                reply = await gw.complete("How is the tide?", model="m")
        assert reply.text == "The tide turns."


    run_virtual(main)

Hypothesis strategies for scripts are in ``polygateway.testing.strategies``, which needs
hypothesis.
"""

from ._http import Request
from .clock import run_virtual
from .network import MemoryNetwork, ServedProviders, serve_memory, serve_tcp
from .provider import Exchange, ScriptedProvider
from .script import (
    Closing,
    Head,
    Script,
    Send,
    Silence,
    Step,
    answer,
    chunk,
    comment,
    cut,
    done,
    empty,
    error_frame,
    finish,
    hang,
    headers,
    keepalives,
    page,
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

__all__ = [
    "Closing",
    "Exchange",
    "Head",
    "MemoryNetwork",
    "Request",
    "Script",
    "ScriptedProvider",
    "Send",
    "ServedProviders",
    "Silence",
    "Step",
    "answer",
    "chunk",
    "comment",
    "cut",
    "done",
    "empty",
    "error_frame",
    "finish",
    "hang",
    "headers",
    "keepalives",
    "page",
    "ping",
    "raw",
    "reasoning",
    "refusal",
    "reset",
    "role",
    "run_virtual",
    "serve_memory",
    "serve_tcp",
    "silence",
    "status",
    "together",
    "tool_call",
    "usage",
]
