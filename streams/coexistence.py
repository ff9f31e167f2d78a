"""Never two at once: does another system work on our events or jobs (spec/dispatch.md, "Who runs the jobs")?

A worker that started beside a polling drain, or lanes beside a CRM's own workers, would answer customers
twice. So the worker looks before it starts, waits as long as it sees another one, and begins by itself when
that is gone. It is seen by what it leaves in the tables; one that has had nothing to do leaves nothing, so a
running worker goes on looking and complains. docs/cut-over.md tells how to change from one to the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, cast

import psycopg
import structlog
from psycopg_pool import AsyncConnectionPool, PoolTimeout

import status
from db.pool import conninfo_for
from db.publisher import EVENT_TYPES
from db.queries import load
from schemas.kinds import INBOUND_TURN
from schemas.records import RunBy
from settings import RajadaError, Settings

log = structlog.get_logger(__name__)

US: Final = "agent-engine"
"""Our name in `consumed_by` and `locked_by`; the reference system has the same."""
JOB_KINDS: Final = (INBOUND_TURN,)
"""Kinds of job that our lanes run from the events; a CRM's workers may go on with any other."""
JOBS_FRESH_S: Final = 600.0
"""A job that is running for longer was left by a worker that died (b173)."""
MADE_FRESH_S: Final = 15.0
"""A drain that made a job from an event so lately is still on. Beside lanes such a job counts for as long as
one that runs: between two attempts it is pending, and the CRM's workers are not done with it."""
LOOK_EVERY_S: Final = 1.0
WATCH_EVERY_S: Final = 10.0
SAY_EVERY_S: Final = 30.0

What = Literal["event", "job", "made"]


class NotPrepared(RajadaError):
    """The database lacks our columns."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What another consumer left, counted by its name: a row of `foreign_consumers.sql`."""

    what: What
    """`event`: being processed; `job`: running; `made`: pending, made from an event not by us."""
    who: str | None
    fresh: bool
    """So young that the other one must be on; else it was left behind."""
    count: int
    newest_age_s: float

    def __str__(self) -> str:
        """The sign in words, with count, name and age."""
        many = self.count != 1
        things = {
            "event": f"event{'s' * many} `processing`",
            "job": f"job{'s' * many} `running`",
            "made": f"pending job{'s' * many} made by another drain",
        }[self.what]
        if self.what == "made":
            who = ""
        elif self.who is None:
            who = " by an unnamed consumer"
        else:
            who = f" by {self.who}" + (" (another process of our name)" if self.who == US else "")
        newest = "newest " if many else ""
        return f"{self.count} {things}{who}, {newest}{_age(self.newest_age_s)} ago"


def in_the_way(signs: Iterable[Sign], run_by: RunBy) -> list[Sign]:
    """The signs of somebody at work who must not be while we are.

    Whoever else takes events is; whoever runs jobs is beside our lanes, and is meant to with `table`.
    """
    return [sign for sign in signs if sign.fresh and (sign.what != "job" or run_by == "lanes")]


def left_behind(signs: Iterable[Sign], run_by: RunBy) -> list[Sign]:
    """What nobody will finish: orphans of a consumer that is gone, and jobs that our lanes don't know of.

    Our own sweep puts back the events that were left under our name.
    """
    return [
        sign
        for sign in signs
        if not sign.fresh and (run_by == "lanes" if sign.what != "event" else sign.who != US)
    ]


def told(signs: Sequence[Sign]) -> str:
    """The signs in one line."""
    return "; ".join(str(sign) for sign in signs)


def cut_over(signs: Sequence[Sign], run_by: RunBy) -> str:
    """What to do about somebody who is in the way."""
    seen = {sign.what for sign in signs}
    steps = []
    if seen & {"event", "made"}:
        steps.append("switch the old drain off and put back the events that it left `processing`")
    if "job" in seen or ("made" in seen and run_by == "lanes"):
        steps.append("let the CRM's workers finish their jobs and switch them off")
    return f"{'; '.join(steps)} (docs/cut-over.md)"


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


# -- the looking


def parameters(settings: Settings) -> dict[str, object]:
    """What `foreign_consumers.sql` takes."""
    return {
        "event_types": list(EVENT_TYPES),
        "job_kinds": list(JOB_KINDS),
        "us": US,
        "events_s": settings.event_reap_ms / 1000,
        "jobs_s": JOBS_FRESH_S,
        "made_s": MADE_FRESH_S if settings.jobs_run_by == "table" else JOBS_FRESH_S,
    }


def signs_of(rows: Iterable[tuple[object, ...]]) -> list[Sign]:
    """The rows of `foreign_consumers.sql`, typed."""
    return [Sign(*row) for row in cast("Iterable[tuple[What, str | None, bool, int, float]]", rows)]


def look(connection: psycopg.Connection[tuple[object, ...]], settings: Settings) -> list[Sign]:
    """What others leave now. Raises psycopg.Error, or NotPrepared when our columns are missing."""
    try:
        rows = connection.execute(load("foreign_consumers"), parameters(settings)).fetchall()
    except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable) as error:
        raise NotPrepared(f"run `rajada migrate` on this database first: {_first_line(error)}") from error
    return signs_of(rows)


def wait_until_alone(url: str, settings: Settings) -> None:
    """Return once nobody else works on our events or, with lanes, on jobs; until then say so.

    Looks every second; tells the supervisor at once (`rajada status`) and the log every 30 s. Nothing is
    consumed meanwhile. An unreachable database is waited for too: it can't be asked.

    Raises:
        NotPrepared: the database was never migrated.
    """
    gate = Gate(url, settings)
    try:
        while not gate.open():
            time.sleep(LOOK_EVERY_S)
    finally:
        gate.close()


class Gate:
    """One wait: its connection, and what was said last."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._conninfo = conninfo_for(url, "worker-start", {"statement_timeout": "10000"})
        self._settings = settings
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._said_at: float | None = None
        self._since = time.monotonic()

    def open(self) -> bool:
        """Look once; whether the way is free."""
        run_by = self._settings.jobs_run_by
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._conninfo, autocommit=True)
            signs = look(self._connection, self._settings)
        except psycopg.Error as error:
            self.close()
            self._wait(f"Postgres can't be asked whether another consumer is at work: {_first_line(error)}")
            return False
        others = in_the_way(signs, run_by)
        if others:
            self._wait(
                f"another consumer is at work: {told(others)}. To cut over: {cut_over(others, run_by)}"
            )
            return False
        if left := left_behind(signs, run_by):
            log.warning("left_by_another_consumer", what=told(left), next="docs/cut-over.md")
        if self._said_at is not None:
            log.info(
                "no_other_consumer", waited_s=round(time.monotonic() - self._since, 1), jobs_run_by=run_by
            )
        return True

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _wait(self, reason: str) -> None:
        status.report("worker", "waiting", reason)
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            log.error("worker_waits", reason=reason, since_s=round(now - self._since))


async def watch(pool: AsyncConnectionPool, settings: Settings) -> None:
    """Go on looking while we work, for ever: another consumer that comes back is told every 30 s.

    It isn't waited for: a few rows written by hand must not stop the answers of everybody.
    """
    said_at = -SAY_EVERY_S
    while True:
        await asyncio.sleep(WATCH_EVERY_S)
        try:
            async with pool.connection(timeout=2) as connection:
                cursor = await connection.execute(load("foreign_consumers"), parameters(settings))
                signs = signs_of(await cursor.fetchall())
        except (psycopg.Error, PoolTimeout, OSError) as error:
            log.debug("other_consumers_unreadable", error=type(error).__name__)
            continue
        others = in_the_way(signs, settings.jobs_run_by)
        if others and time.monotonic() - said_at >= SAY_EVERY_S:
            said_at = time.monotonic()
            log.error(
                "another_consumer_is_at_work", what=told(others), next=cut_over(others, settings.jobs_run_by)
            )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
