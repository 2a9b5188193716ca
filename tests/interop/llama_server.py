"""llama.cpp's server with the tiny model, in a process of its own.

``python -m tests.interop.llama_server KEY`` prints its address and serves until its standard input
ends, so it dies with whoever started it; or after two minutes.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from .tiny_model import CONTEXT, write_model


def main(key: str) -> None:
    signal.alarm(120)
    os.environ["LLAMA_SERVER_SLOTS_DEBUG"] = "1"  # GET /slots then tells the prompt
    xllamacpp = import_module("xllamacpp")  # only the session `interop` installs it
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "tiny.gguf"
        write_model(model)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(model)
        parameters.n_ctx = CONTEXT
        parameters.n_parallel = 1
        parameters.cpuparams.n_threads = 1
        parameters.cpuparams_batch.n_threads = 1
        parameters.sampling.seed = 7
        parameters.warmup = False
        parameters.api_keys = [key]
        server = xllamacpp.Server(parameters)
        print(server.listening_address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
