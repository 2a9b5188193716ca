"""What a probe is told: where to measure, and how."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
from attrs.validators import optional
from cyclopts import Parameter

from ..._checks import Number, nearest
from ...config import load_config
from ...errors import ConfigurationError
from ...policies import Config, HedgePolicy, Limits, RetryPolicy, Target
from ...request import CallOptions, build_request
from .load import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROMPT = "Explain in about a hundred words why the tide turns twice a day."


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Where:
    """What is to be measured: targets of a configuration, or a base URL."""

    config: Path | None = None
    """A TOML file, instead of the user's own or the one that POLYGATEWAY_CONFIG names."""

    target: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """Name of a configured target; may be given several times. Without, all are measured."""

    base_url: str | None = None
    """Measure what is there, without a configuration."""

    model: str | None = None
    """The model's name there; only with --base-url."""

    dialect: str | None = None
    """What is spoken there, openai-chat unless told otherwise; only with --base-url."""

    api_key_env: str | None = None
    """The environment variable that holds the key; only with --base-url."""

    def configuration(self) -> Config:
        """Give the targets to measure, each as a model that consists of it alone.

        Raises:
            ConfigurationError: what was told cannot be meant; the text says why.
        """
        config = self._configured() if self.base_url is None else self._of_url(self.base_url)
        targets = self._chosen(config.targets)
        return attrs.evolve(
            config,
            targets=targets,
            models={name: (name,) for name in targets},
            hedge=HedgePolicy(enabled=False),
            retry=RetryPolicy(max_retries=0),
            stream=attrs.evolve(config.stream, recovery="raise", hold_back_s=0.0),
        )

    def _configured(self) -> Config:
        told = {
            "--model": self.model,
            "--dialect": self.dialect,
            "--api-key-env": self.api_key_env,
        }
        for option, value in told.items():
            if value is not None:
                raise ConfigurationError(f"{option} is only for what --base-url names")
        return load_config(self.config)

    def _of_url(self, base_url: str) -> Config:
        if self.config is not None or self.target:
            raise ConfigurationError(
                "--base-url does without a configuration: --config and --target are not for it"
            )
        if self.model is None:
            raise ConfigurationError("--base-url needs --model: the model's name there")
        key = {} if self.api_key_env is None else {"api_key_env": self.api_key_env}
        target = {
            "dialect": self.dialect or "openai-chat",
            "base_url": base_url,
            "model": self.model,
            **key,
        }
        return load_config({"targets": {self.model: target}, "models": {"probe": [self.model]}})

    def _chosen(self, targets: Mapping[str, Target]) -> Mapping[str, Target]:
        for name in self.target:
            if name not in targets:
                raise ConfigurationError(
                    f"target {name!r} is not configured {nearest(name, targets)}"
                )
        return {name: targets[name] for name in self.target or targets}


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class How:
    """How it is to be measured."""

    requests: int = attrs.field(default=20, validator=Number(least=1, whole=True))
    """Requests to each target. The 95th percentile takes 20 of them, the 99th 100."""

    warmup: int | None = attrs.field(default=None, validator=optional(Number(least=0, whole=True)))
    """Requests before these, not counted; as many as run at once unless told otherwise."""

    concurrency: int | None = attrs.field(
        default=None, validator=optional(Number(least=1, whole=True))
    )
    """Requests that run at once: 1 unless told otherwise, or with --rate as many as it takes."""

    rate: float | None = attrs.field(default=None, validator=optional(Number(over=0, most=1e6)))
    """Requests a second, whatever became of those before."""

    prompt: str = _PROMPT
    """What is asked."""

    max_tokens: int = 128
    """The longest answer, in tokens."""

    deadline: float = 300.0
    """Seconds that a request may take."""

    def plan(self, limits: Limits) -> Plan:
        """Give what is to be done.

        Args:
            limits: those of the configuration.

        Raises:
            ConfigurationError: it cannot be done like this; the text says why.
        """
        options: CallOptions = {"max_tokens": self.max_tokens, "deadline_s": self.deadline}
        build_request(self.prompt, options)
        most = limits.max_connections_per_target
        slots = self.concurrency or (1 if self.rate is None else most)
        if slots > most:
            raise ConfigurationError(
                f"concurrency ({slots}) is over limits.max_connections_per_target ({most})"
            )
        return Plan(
            prompt=self.prompt,
            options=options,
            requests=self.requests,
            warmup=(self.concurrency or 1) if self.warmup is None else self.warmup,
            slots=slots,
            rate=self.rate,
        )
