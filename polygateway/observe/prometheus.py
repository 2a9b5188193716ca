"""Metrics of the calls for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from .metrics import METRICS, MetricsInstrument

try:
    from prometheus_client import REGISTRY, Counter, Gauge, Histogram
except ImportError as _missing:
    raise ImportError(
        "PrometheusInstrument needs prometheus-client: pip install 'polygateway[prometheus]'"
    ) from _missing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry, Metric as Family

    from .metrics import Metric, Sample


class PrometheusInstrument(MetricsInstrument):
    """Keeps the metrics of all calls in a registry, from which Prometheus scrapes them.

    One instrument may watch several gateways; its metrics are then those of all of them.
    """

    def __init__(
        self, registry: CollectorRegistry = REGISTRY, *, namespace: str = "polygateway"
    ) -> None:
        """Put the metrics into a registry, all of them or none.

        Args:
            registry: where to. The default is the one that ``prometheus_client`` exports.
            namespace: what the names begin with.

        Raises:
            ConfigurationError: the registry has metrics of such names.
        """
        self._collectors = {metric.name: _collector(metric, namespace) for metric in METRICS}
        try:
            registry.register(self)
        except ValueError as error:
            raise ConfigurationError(
                f"the registry has metrics whose names begin with {namespace!r}: let one"
                " PrometheusInstrument watch all gateways, or give each its own registry or"
                " namespace"
            ) from error

    def add(self, sample: Sample) -> None:
        """Add to a metric."""
        child = self._collectors[sample.metric.name].labels(**sample.labels)
        if isinstance(child, Histogram):
            child.observe(sample.amount)
        else:
            child.inc(sample.amount)

    def collect(self) -> Iterable[Family]:
        """Give all that there is, as a registry asks of its collectors."""
        for collector in self._collectors.values():
            yield from collector.collect()

    def describe(self) -> Iterable[Family]:
        """Give the metrics without their values, so that the registry knows the names."""
        for collector in self._collectors.values():
            yield from collector.describe()


def _collector(metric: Metric, namespace: str) -> Counter | Gauge | Histogram:
    # In no registry: the instrument is what is registered, so that it is all of them or none.
    name = metric.name.replace(".", "_")
    unit = "seconds" if metric.unit == "s" else ""
    if metric.kind == "histogram":
        return Histogram(
            name,
            metric.text,
            metric.labels,
            namespace=namespace,
            unit=unit,
            registry=None,
            buckets=metric.bounds,
        )
    kind = Counter if metric.kind == "counter" else Gauge
    return kind(name, metric.text, metric.labels, namespace=namespace, unit=unit, registry=None)
