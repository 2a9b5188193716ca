"""Runs systems in processes of their own, each for as long as it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import attrs
import cattrs

from ..speed.serving import ROOT
from .jobs import Outcome

if TYPE_CHECKING:
    from collections.abc import Generator

    from .jobs import Job

# litellm would ask the network what models cost, before anything else.
_ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


@attrs.frozen
class Worker:
    """A process that does jobs."""

    _name: str
    _jobs: IO[str]
    _outcomes: IO[str]

    def do(self, job: Job) -> Outcome:
        """Let it do a job.

        Raises:
            RuntimeError: the process has ended; why stands in its own output.
        """
        self._jobs.write(json.dumps(attrs.asdict(job)) + "\n")
        self._jobs.flush()
        line = self._outcomes.readline()
        if not line:
            raise RuntimeError(f"the process of {self._name} has ended")
        return cattrs.structure(json.loads(line), Outcome)


@contextmanager
def working(name: str, url: str, *, faster: float) -> Generator[Worker]:
    """Run a system for the block.

    Args:
        name: which.
        url: address of the provider.
        faster: how many times as fast as usual its time is.
    """
    command = [sys.executable, "-m", "benchmarks.stalls.worker", name, url, str(faster)]
    with subprocess.Popen(  # noqa: S603 - ours
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | _ENVIRONMENT,
    ) as process:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        try:
            yield Worker(name, process.stdin, process.stdout)
        finally:
            process.kill()
