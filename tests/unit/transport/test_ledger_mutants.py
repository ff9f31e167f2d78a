"""The walks are able to fail: each of these broken ledgers is caught."""

from __future__ import annotations

import inspect
import types

import pytest

from streams.transport import ledger as original

from .ledger_model import walk

WALKS = 400

MUTANTS = {
    "finish ignores the epoch": (
        "if state is None or state.epoch != batch.epoch:\n            return False",
        "if state is None:\n            return False",
    ),
    "settle ignores the epoch": (
        "if state is None or state.epoch != epoch or state.base is not None:",
        "if state is None:",
    ),
    "accept ignores the epoch and the start": (
        "state.epoch != epoch or state.next != start or end <= start",
        "state.next is None or end <= start",
    ),
    "accept ignores the start": ("state.next != start", "state.next is None"),
    "accept ignores the epoch": ("or state.epoch != epoch or state.next != start", "or state.next != start"),
    "batches fold out of order": (
        "while self.in_flight and self.in_flight[0].finished:",
        "while self.in_flight and any(batch.finished for batch in self.in_flight):",
    ),
    "suspend leaves a seek under way": ("            if state.base is None:\n", "            if False:\n"),
    "suspend does nothing": (
        "            state.next = None\n\n    def rewind",
        "            pass\n\n    def rewind",
    ),
    "a seek keeps what is in flight": ("        self.in_flight.clear()", "        pass"),
    "a seek stays in its epoch": ("state.restart(epochs[partition])", "state.next = state.base = None"),
    "a late confirmation counts": (
        "if state is not None and state.epoch == epoch and state.base is not None "
        "and offset > state.committed:\n            state.committed = min(offset, state.base)",
        "if state is not None and state.base is not None:\n            state.committed = offset",
    ),
    "a commit is offered once": (
        "            return None\n        return state.base\n",
        "            return None\n        state.committed = state.base\n        return state.base\n",
    ),
    "an assigned partition is open": (
        "self.next: int | None = None  # where",
        "self.next: int | None = 0  # where",
    ),
    "what stays assigned keeps its epoch": (
        "{partition: _Partition(next(self._epochs)) for partition in partitions}",
        "{p: self._partitions.get(p) or _Partition(next(self._epochs)) for p in partitions}",
    ),
    "an empty range is never finished": ("self.finished = not records", "self.finished = False"),
    "a revoked partition stays": ("self._partitions.pop(partition, None)", "self._partitions.get(partition)"),
    "empty ranges overtake": (
        "self.base = self.in_flight.popleft().end",
        "self.base = self.in_flight.pop().end",
    ),
}


def load(source: str) -> types.ModuleType:
    module = types.ModuleType("mutant")
    exec(compile(source, "mutant", "exec"), module.__dict__)
    return module


@pytest.mark.thorough
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name):
    source = inspect.getsource(original)
    good, bad = MUTANTS[name]
    assert source.count(good) == 1, "the mutant's text is no longer in the ledger: write it anew"
    mutant = load(source.replace(good, bad))
    with pytest.raises((AssertionError, TypeError)):
        for seed in range(WALKS):
            walk(mutant.Ledger(), seed)
