"""Who may run a job, as a model: every event in every state of two workers and their group, and every crash.

Explored breadth first around a smooth run (`lease_world.py`): at most one worker holds a lease, an attempt
is begun once, what a replaced worker writes or sends late changes nothing, and there is always a way to the
job's end, also when one of both never moves again. One exception, which the fence covers: whom the group
throws out since it didn't join again in time had heartbeats answered until then.
"""

from __future__ import annotations

import inspect
import types
from collections import deque

import pytest

from streams import transitions
from streams.contact_jobs import decode_jobs
from streams.transport import lease, token
from tests.unit.lease_world import JOB, Broken, Protocol, World

ENDS = frozenset({"done", "failed", "dead"})
FIRST = (
    "a late write arrives", "hears", "its write arrives", "reads", "asks to claim", "claims", "owns",
    "record", "answer done", "hands back", "steps", "asks", "was told", "sends", "joins again", "joins",
    "gives it to", "thrown out", "is told", "beats", "tick",
)  # fmt: skip
"""What happens when nobody is held up, in this order."""


def look(protocol: Protocol, world: World) -> None:
    """The rules of a world. Raises Broken."""
    holding = [one for one, worker in enumerate(world.workers) if protocol.held(worker)]
    if protocol.timed and len(holding) > 1 and not world.overdue:
        raise Broken("two workers hold a lease of one partition")
    seqs = [seq for seq, _ in world.told]
    if len(seqs) != len(set(seqs)):
        raise Broken(f"one seq tells two states: {sorted(world.told)}")
    ended = [seq for seq, status in world.told if status in ENDS]
    if ended and max(ended) < max(seqs):
        raise Broken("what was told to have ended goes on")


def over(protocol: Protocol, world: World) -> bool:
    """Whether the job has ended for later readers, and somebody was told; with time: a lease is held."""
    if protocol.timed:
        return any(worker.at == "work" and protocol.held(worker) for worker in world.workers)
    value = world.changelog[1]
    head = decode_jobs(value).heads.get(JOB.id) if value else None
    return bool(head and head.state.ended) and any(status in ENDS for _, status in world.told)


def on(protocol: Protocol, world: World, alive: tuple[int, ...]) -> World:
    """The next thing where nobody is held up."""
    found = dict(protocol.steps(world, alive))
    for wanted in FIRST:
        for name, then in found.items():
            if wanted in name and then != world and not (wanted == "beats" and _fresh(world, name)):
                return then
    raise Broken("nothing can happen any more")


def _fresh(world: World, name: str) -> bool:
    """Its last heartbeat was just answered: time goes on."""
    return world.workers[int(name[0])].heard == 0


def end(protocol: Protocol, world: World, alive: tuple[int, ...], known: set[World]) -> None:
    """Without further trouble the job ends. Raises Broken. `known`: worlds of which that is known."""
    way = []
    for _ in range(150):
        if world in known or over(protocol, world):
            known.update(way)
            return
        way.append(world)
        world = on(protocol, world, alive)
        look(protocol, world)
    raise Broken(f"stuck for ever with {alive}")


def walk(protocol: Protocol, most: int = 1_000_000) -> int:
    """Look at every world that can be reached, nearest to a smooth run first; how many there are.

    Raises Broken, with the way there.
    """
    willing = Protocol(
        deaths=0, generations=10**9, fenced=protocol.fenced, durable=protocol.durable,
        timed=protocol.timed, lease=protocol.lease, token=protocol.token, core=protocol.core,
    )  # fmt: skip
    ways: dict[World, tuple[World | None, str]] = {World(): (None, "")}
    known: dict[tuple[int, ...], set[World]] = {(0, 1): set(), (0,): set(), (1,): set()}
    world, name = World(), ""
    try:
        while not over(protocol, world):  # the run that the faults are put around
            before, world = world, on(willing, world, (0,))
            ways[world] = (before, "-")
        waiting = deque(ways)
        while waiting and len(ways) < most:
            world = waiting.popleft()
            for alive, ends in known.items():
                end(willing, world, alive, ends)
            for name, then in protocol.steps(world):
                if then not in ways:
                    ways[then] = (world, name)
                    look(protocol, then)
                    waiting.append(then)
    except Broken as error:
        raise Broken(f"{error}\nafter: {_way(ways, world)}; {name}") from None
    return len(ways)


def _way(ways: dict[World, tuple[World | None, str]], world: World) -> str:
    names: list[str] = []
    before: World | None = world
    while before is not None:
        before, name = ways[before]
        names.append(name)
    return "; ".join(reversed(names))


def of_now(module: types.ModuleType, before: str = "", after: str = "") -> types.ModuleType:
    """A module's own source with the clock at rest (ages say how long ago things were), or a mutant."""
    source = inspect.getsource(module)
    assert before in source, "the mutant has nothing to change any more"
    made = types.ModuleType(f"{module.__package__}.mutant")
    made.__package__ = module.__package__
    exec(compile(source.replace(before, after) if before else source, "mutant", "exec"), made.__dict__)
    made.__dict__["monotonic"] = lambda: 0.0
    return made


LEASE = of_now(lease)


@pytest.mark.thorough
def test_one_lease_at_a_time_and_one_that_ended_is_another_workers() -> None:
    assert walk(Protocol(timed=True, lease=LEASE), most=1_500) >= 1_500


@pytest.mark.thorough
def test_without_any_lease_the_fence_and_the_tokens_keep_attempts_single_and_the_job_ends() -> None:
    assert walk(Protocol(lease=LEASE), most=800) >= 800


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("timed", [True, False])
def test_many_more_worlds(timed: bool) -> None:
    protocol = Protocol(timed=timed, lease=LEASE, deaths=2, generations=4, forgets=True)
    assert walk(protocol, most=40_000) >= 40_000


CHANGED = {
    "a lease outlasts the session": ("lease", "TRUST = 0.7", "TRUST = 1.4"),
    "a lease counts from the answer": ("lease", "max(self._sent_at, sent_at)", "monotonic()"),
    "a stranger is confirmed": (
        "lease", "return error_code in _MEMBER", "return error_code in (*_MEMBER, *_STRANGER)",
    ),
    "a late write counts": ("token", "return False", "pass"),
    "who was lost stays so": (
        "core", "    if head.kind == GROUP_LINK:\n        _doubt",
        "    return False\n    if 0:\n        _doubt",
    ),
    "a start spends nothing": ("core", "    head.attempt += 1\n    head.seq", "    head.seq"),
    "a start is told under the seq of before": (
        "core", "    head.seq += 1\n    head.started_ms", "    head.started_ms",
    ),
}  # fmt: skip
LEFT_OUT = ("fenced", "durable")
SOURCES = {"lease": lease, "token": token, "core": transitions}


def changed(name: str) -> Protocol:
    """A protocol with a fault."""
    if name in LEFT_OUT:
        return Protocol(lease=LEASE, fenced=name != "fenced", durable=name != "durable")
    where, before, after = CHANGED[name]
    mutant = of_now(SOURCES[where], before, after)
    if where == "lease":
        return Protocol(lease=mutant, timed="lease" in name)
    return Protocol(lease=LEASE, token=mutant) if where == "token" else Protocol(lease=LEASE, core=mutant)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*CHANGED, *LEFT_OUT])
def test_the_walk_is_able_to_fail(name: str) -> None:
    with pytest.raises(Broken):
        walk(changed(name), most=6_000)
