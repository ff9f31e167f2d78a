"""What is asked of the metrics port of real processes."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.processes import COMMANDS, Processes

RECONCILER = [sys.executable, "-m", "faust", "-A", "streams.reconcile", "worker", "--without-web"]
NAMES = ("relay", "worker", "delays", "sink", "web", "reconciler")


@dataclass
class Scrape:
    """One reading of /metrics."""

    kinds: dict[str, str] = field(default_factory=dict)
    """Metric → type, ours alone; counters with their `_total`."""
    labels: dict[str, set[frozenset[str]]] = field(default_factory=lambda: defaultdict(set))
    values: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def of(self, name: str, **labels: str) -> float:
        """A sample's value; 0 when it isn't there."""
        return self.values.get((name, frozenset(labels.items())), 0.0)

    def sum(self, name: str, **labels: str) -> float:
        """All samples of a name that have these labels, together."""
        wanted = set(labels.items())
        return sum(value for (found, have), value in self.values.items() if found == name and wanted <= have)


@dataclass
class Ports:
    """Where each process serves."""

    ports: dict[str, int]
    commands: dict[str, list[str]] = field(
        default_factory=lambda: {"worker": [*COMMANDS["worker"]], "reconciler": [*RECONCILER]}
    )
    client: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=10))

    def spawn(self, processes: Processes, *names: str) -> None:
        """Start each with its own port, without waiting."""
        processes.commands.update(self.commands)
        for name in names:
            processes.environment["RAJADA_METRICS_PORT"] = str(self.ports[name])
            processes.spawn(name)

    def ask(self, name: str, path: str) -> httpx.Response:
        """One answer of a process."""
        return self.client.get(f"http://127.0.0.1:{self.ports[name]}/{path}")

    def scrape(self, name: str) -> Scrape:
        """What a process shows now."""
        answer = self.ask(name, "metrics")
        assert answer.status_code == 200
        found = Scrape()
        for family in text_string_to_metric_families(answer.text):
            if not family.name.startswith("rajada_"):
                continue
            metric = f"{family.name}_total" if family.type == "counter" else family.name
            found.kinds[metric] = family.type
            for sample in family.samples:
                found.labels[metric].add(frozenset(sample.labels) - {"le"})
                found.values[sample.name, frozenset(sample.labels.items())] = sample.value
        return found
