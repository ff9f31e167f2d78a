"""Everything that a process shows to whoever scrapes, in Prometheus' text form.

Nothing is counted here: the numbers that the parts of a process keep anyway are read when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import structlog
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.core import (
    Metric as ClientMetric,
)
from prometheus_client.registry import Collector

from telemetry.catalogue import Metric
from telemetry.distribution import Read
from telemetry.readings import Reading, Source, Summary

log = structlog.get_logger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

TRIES: Final = 3

_Numbers = CounterMetricFamily | GaugeMetricFamily


class Exhibit(Collector):
    """The sources of one process; each is read anew at every scrape.

    A source that fails is left out and told once: what else the process shows is shown all the same.
    """

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._failed: set[int] = set()
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(self)

    def show(self, *sources: Source) -> None:
        """Read these, too, from the next scrape on."""
        self._sources.extend(sources)

    def render(self) -> bytes:
        """All of it as text."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[ClientMetric]:
        """Nothing: the registry need not ask the sources before somebody scrapes."""
        return ()

    def collect(self) -> Iterator[ClientMetric]:
        """Every metric with its samples."""
        found: dict[Metric, list[Reading]] = {}
        for source in self._sources:
            for reading in self._read(source):
                found.setdefault(reading.metric, []).append(reading)
        for metric, readings in found.items():
            yield _FORMS[metric.kind](metric, readings)

    def _read(self, source: Source) -> list[Reading]:
        try:
            for _ in range(TRIES):
                try:
                    return list(source())
                except RuntimeError:  # a dictionary changed while it was read, by the thread whose it is
                    continue
            return list(source())
        except Exception as error:  # what is told of the work must never stand in its way
            if id(source) not in self._failed:
                self._failed.add(id(source))
                log.warning("metrics_source_failed", error=type(error).__name__, exc_info=True)
            return []


def _numbers(make: type[_Numbers], metric: Metric, readings: list[Reading]) -> ClientMetric:
    family = make(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
    if make is GaugeMetricFamily:
        family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for reading in readings:
        assert isinstance(reading.value, (int, float)), f"{metric.name} is a number"
        family.add_metric(reading.labels, reading.value)
    return family


def _counter(metric: Metric, readings: list[Reading]) -> ClientMetric:
    return _numbers(CounterMetricFamily, metric, readings)


def _gauge(metric: Metric, readings: list[Reading]) -> ClientMetric:
    return _numbers(GaugeMetricFamily, metric, readings)


def _histogram(metric: Metric, readings: list[Reading]) -> ClientMetric:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for reading in readings:
        assert isinstance(reading.value, Read), f"{metric.name} is a distribution"
        family.add_metric(reading.labels, _added_up(reading.value), sum_value=reading.value.total)
    return family


def _added_up(read: Read) -> list[tuple[str, float]]:
    """Buckets as Prometheus wants them: each holds all below its bound."""
    buckets, so_far = [], 0
    for bound, count in zip((*map(_shown, read.bounds), "+Inf"), read.counts, strict=True):
        so_far += count
        buckets.append((bound, float(so_far)))
    return buckets


def _shown(bound: float) -> str:
    return repr(float(bound))


def _summary(metric: Metric, readings: list[Reading]) -> ClientMetric:
    family = SummaryMetricFamily(metric.name, metric.help, labels=metric.labels)
    for reading in readings:
        assert isinstance(reading.value, Summary), f"{metric.name} is a count and a sum"
        family.add_metric(reading.labels, reading.value.number, reading.value.total)
    return family


_FORMS: Final[dict[str, Callable[[Metric, list[Reading]], ClientMetric]]] = {
    "counter": _counter,
    "gauge": _gauge,
    "histogram": _histogram,
    "summary": _summary,
}
