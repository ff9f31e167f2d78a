"""Which fault happens when, all of it from one seed (pure).

A plan names kinds, times and targets by number; what a kind does to real processes stands in `faults`. The
first faults of a plan are one of each kind and a kill of each process, in a shuffled order, so that a run
that is long enough meets all.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

PROCESSES: Final = ("relay", "worker-1", "worker-2", "sink", "delays", "web")
WORKERS: Final = ("worker-1", "worker-2")
CLOCKED: Final = ("worker-1", "worker-2", "sink", "delays", "relay")
NOTHING: Final = ("",)

QUIET_S: Final = 4.0
"""Before the first fault and after the last: the load runs undisturbed."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: its targets, how long it lasts (least, most, s), and how often it comes.

    `alone`: it changes what all processes stand on, so everything else is put right first and waits.
    `heavy`: a server is away; two of these never overlap.
    """

    targets: Sequence[str] = NOTHING
    lasts_s: tuple[float, float] = (0.0, 0.0)
    weight: int = 1
    heavy: bool = False
    alone: bool = False


KINDS: Final[dict[str, Kind]] = {
    "kill": Kind(PROCESSES, weight=8),
    "term": Kind(PROCESSES, weight=4),
    "stop": Kind(PROCESSES, (20.0, 20.0), weight=3),
    "join": Kind(NOTHING, (8.0, 25.0), weight=2),
    "leave": Kind(WORKERS, (5.0, 15.0), weight=2),
    "broker-leader": Kind(NOTHING, (3.0, 8.0), weight=2, heavy=True),
    "controller": Kind(NOTHING, (3.0, 8.0), weight=2, heavy=True),
    "brokers": Kind(NOTHING, (1.0, 4.0), heavy=True),
    "postgres-kill": Kind(NOTHING, (0.5, 8.0), weight=2, heavy=True),
    "postgres-stop": Kind(NOTHING, (0.5, 8.0), heavy=True),
    "restore": Kind(alone=True),
    "slot": Kind(NOTHING, (2.0, 6.0), heavy=True),
    "retention": Kind(alone=True),
    "broker-disk": Kind(NOTHING, (6.0, 12.0), heavy=True),
    "postgres-disk": Kind(NOTHING, (4.0, 10.0), heavy=True),
    "clock": Kind(CLOCKED, (8.0, 20.0), weight=2),
    "cdc-twice": Kind(NOTHING, (5.0, 10.0)),
    "cdc-late": Kind(NOTHING, (5.0, 10.0)),
    "cdc-disorder": Kind(NOTHING, (5.0, 10.0)),
    "engine-hang": Kind(NOTHING, (4.0, 10.0), weight=2),
    "engine-5xx": Kind(NOTHING, (4.0, 10.0), weight=2),
    "engine-drop": Kind(NOTHING, (2.0, 5.0)),
    "slow": Kind(NOTHING, (6.0, 15.0), weight=2),
}

BOUNDED: Final = (
    "kill", "term", "stop", "join", "leave", "broker-leader", "postgres-kill", "postgres-stop",
    "cdc-twice", "cdc-disorder", "engine-hang", "engine-5xx", "engine-drop",
)  # fmt: skip
"""What a stack gets over within a minute on any machine: the mix of continuous integration."""

BEGINS_S: Final = 8.0
"""So long after its start a worker may still own nothing: who is frozen then is no zombie."""
DRAWS: Final = 200
"""So often a plan is drawn anew that did not meet everything, before one that doesn't is taken."""

ROOM_S: Final = {
    "restore": 20.0, "retention": 15.0, "brokers": 12.0, "broker-disk": 8.0, "postgres-disk": 8.0,
    "slot": 5.0, "controller": 4.0, "broker-leader": 4.0, "postgres-kill": 4.0, "postgres-stop": 4.0,
}  # fmt: skip
"""What is left free behind a heavy fault, s: how long it takes beyond its own length until work goes on."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `at_s` since the load began; `seconds`: it is undone after so long (0: it is a moment)."""

    number: int
    at_s: float
    kind: str
    target: str = ""
    seconds: float = 0.0
    argument: float = 0.0
    """For kinds that need a size with a sign: hours of a clock's step."""

    def told(self) -> str:
        """In a few words."""
        parts = [self.kind, self.target, f"{self.argument:+.0f} h" if self.argument else ""]
        parts += [f"{self.seconds:.0f} s" if self.seconds else ""]
        return " ".join(part for part in parts if part)


def plan(seed: int, seconds: float, kinds: Collection[str]) -> list[Fault]:
    """The faults of a run of this length, in order.

    If they fit: one of each kind, a kill of each process, and a worker that wakes up as a zombie.

    Args:
        seed: the same seed, length and kinds give the same plan.
        seconds: length of the load.
        kinds: names in `KINDS`; raises KeyError for others.
    """
    dice = random.Random(seed)
    chosen = [name for name in KINDS if name in kinds]
    if unknown := set(kinds) - set(chosen):
        raise KeyError(f"there is no such kind of fault: {', '.join(sorted(unknown))}")
    if not chosen:
        return []
    promised = [(name, target) for name in chosen for target in _promised(name)]
    wanted = len(promised) + ("stop" in chosen)
    best: list[Fault] = []
    most = -1
    for _ in range(DRAWS):
        drawn = _draw(dice, seconds, chosen, promised)
        came = {(one.kind, one.target) for one in drawn} | {(one.kind, None) for one in drawn}
        met = len(came.intersection(promised)) + has_zombie(drawn)
        if met > most:
            best, most = drawn, met
        if met == wanted:
            break
    return best


def has_zombie(faults: Sequence[Fault]) -> bool:
    """Whether a worker is frozen, and nothing else happens to it until it wakes up with old ownership."""
    return any(
        stop.kind == "stop" and stop.target in WORKERS and not any(
            other.target == stop.target and other is not stop
            and stop.at_s - BEGINS_S <= other.at_s + other.seconds and other.at_s <= stop.at_s + stop.seconds
            for other in faults
        )
        for stop in faults
    )  # fmt: skip


def _promised(name: str) -> Sequence[str | None]:
    """Which targets of a kind come for sure; None: any of them."""
    return KINDS[name].targets if name == "kill" else (None,)


def _draw(
    dice: random.Random, seconds: float, chosen: Sequence[str], promised: Sequence[tuple[str, str | None]]
) -> list[Fault]:
    """One plan, what is promised first, in a shuffled order; what doesn't fit any more is left out."""
    each = dice.sample(promised, len(promised))
    found: list[Fault] = []
    now, heavy_until = QUIET_S, 0.0
    while True:
        left = bool(each)
        name, target = (
            each.pop() if each else (dice.choices(chosen, [KINDS[one].weight for one in chosen])[0], None)
        )
        kind = KINDS[name]
        lasts = dice.uniform(*kind.lasts_s)
        if kind.heavy or kind.alone:
            now = max(now, heavy_until)
        if kind.alone:
            now = max([now, *(one.at_s + one.seconds for one in found)])
        if now + lasts + ROOM_S.get(name, 0.0) > seconds - QUIET_S:
            if not left:
                return found
            now += 0.01  # a shorter one may still fit
            continue
        argument = dice.choice([-1.0, 1.0]) if name == "clock" else 0.0
        found.append(Fault(len(found) + 1, now, name, target or dice.choice(kind.targets), lasts, argument))
        if kind.heavy or kind.alone:
            heavy_until = now + lasts + ROOM_S.get(name, 0.0)
        now = heavy_until if kind.alone else now + dice.choice([dice.uniform(0.2, 2.0), dice.uniform(2, 8)])


def only(faults: Iterable[Fault], numbers: Collection[int]) -> list[Fault]:
    """The faults with these numbers, at their times: to find out which of them a finding needs."""
    return [one for one in faults if one.number in numbers]
