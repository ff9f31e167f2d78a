"""The life of one supervised thing, as values: what its state is, and what follows from what happened.

No clock, no process: times come in as monotonic seconds, decisions go out as a new `Life`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class State(StrEnum):
    """Where a supervised thing is; the values are what people read in `rajada status`."""

    BLOCKED = "blocked"
    """What it depends on isn't ready."""
    PREPARING = "preparing"
    STARTING = "starting"
    """Its process runs, but has not been ready yet."""
    READY = "ready"
    WAITING = "waiting"
    """It was ready, runs, and says that it waits for something."""
    RESTARTING = "restarting"
    """It died; it is started again when its pause is over."""
    DONE = "done"
    """It was a step, not a process, and is over."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    """It is not started again."""


UP = frozenset({State.READY, State.WAITING, State.DONE})
"""States on which others may build."""
RUNNING = frozenset({State.STARTING, State.READY, State.WAITING})
"""States with a process."""


@dataclass(frozen=True, slots=True)
class Policy:
    """When something that died is started again.

    The first pause is short: a worker that loses its fence ends on purpose and shall be back soon. A thing
    that stayed up for `steady_s` starts over with its pauses. One that never was ready is given up after
    `tries` deaths: then something is wrong that no restart cures.
    """

    first_pause_s: float = 0.2
    longest_pause_s: float = 30.0
    steady_s: float = 10.0
    tries: int = 4
    start_timeout_s: float = 90.0

    def pause_s(self, deaths: int) -> float:
        """The pause after the `deaths`-th quick death in a row (1 = the first): it doubles each time."""
        return float(min(self.first_pause_s * 2 ** (min(max(deaths, 1), 32) - 1), self.longest_pause_s))


@dataclass(frozen=True, slots=True)
class Life:
    """State of one thing, since when (monotonic seconds), and its history of deaths."""

    state: State = State.BLOCKED
    since: float = 0.0
    starts: int = 0
    quick_deaths: int = 0
    retry_at: float = 0.0
    was_ready: bool = False
    reason: str = ""

    def into(self, state: State, now: float, reason: str = "") -> Life:
        """The same life in `state` since `now`; staying in a state keeps its time."""
        if state is self.state:
            return self if reason == self.reason else replace(self, reason=reason)
        return replace(self, state=state, since=now, reason=reason, was_ready=self.was_ready or state in UP)

    @property
    def restarts(self) -> int:
        """Starts after the first."""
        return max(0, self.starts - 1)

    def spawned(self, now: float) -> Life:
        """A process was started."""
        return replace(self, starts=self.starts + 1).into(State.STARTING, now)

    def died(self, why: str, now: float, policy: Policy) -> Life:
        """The process ended without being asked to: pause and start again, or give up."""
        was_steady = self.state in UP and now - self.since >= policy.steady_s
        deaths = 1 if was_steady else self.quick_deaths + 1
        life = replace(self, quick_deaths=deaths)
        if not self.was_ready and deaths >= policy.tries:
            return life.into(State.FAILED, now, why)
        return replace(life.into(State.RESTARTING, now, why), retry_at=now + policy.pause_s(deaths))

    def overdue(self, now: float, policy: Policy) -> bool:
        """Whether a server has been starting for longer than any start takes."""
        return self.state is State.STARTING and now - self.since > policy.start_timeout_s

    def may_start(self, now: float) -> bool:
        """Whether it is its turn, if what it depends on is up."""
        return self.state is State.BLOCKED or (self.state is State.RESTARTING and now >= self.retry_at)
