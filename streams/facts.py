"""Reading the facts of due windows: three statements in one pipelined round trip.

Each statement is followed by its own sync, so that one that fails leaves the others' answers. Where one
fails it is asked again for halves of the batch until the window that breaks it stands alone: a failing
`decide_facts` costs that window an attempt, a failing follow-up or eligibility statement leaves that
window's question open (fail-open). Rules: spec/dispatch.md, step 4 and Failures in step 4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from weakref import WeakSet

import psycopg
import structlog
from psycopg import AsyncConnection

from db.pool import AsyncPool, is_away
from streams.fact_rows import (
    Known,
    Row,
    Serving,
    eligibility_facts,
    facts_of,
    flows_by_organization,
    followup_facts,
    known_events,
    serving_by_session,
)
from streams.fact_statements import STATEMENTS, Statement, alone, cut, pipelined, set_up
from streams.followup import Flow
from streams.question import DatabaseAway, Facts, Question, Unreadable
from streams.slow_windows import SlowWindows

__all__ = ["DatabaseAway", "FactReader", "ReadFailure"]

log = structlog.get_logger(__name__)

_TIMEOUT: Final = "57014"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """The facts of this one window can't be read."""

    error_class: str
    """`sqlstate_<code>`, or the class of the error."""
    message: str
    """What the server said, first line; may name values, so mask it before it is shown."""
    spends_attempt: bool
    """False: it timed out, and is to be looked at again as if it had not been asked."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the three statements told of one window."""

    base: Row
    followup: Row | psycopg.Error
    eligibility: Row | psycopg.Error

    def facts(self, question: Question, serving: Serving, known: Known, flows: tuple[Flow, ...]) -> Facts:
        return facts_of(
            question,
            self.base,
            serving,
            known,
            Unreadable(_error_class(self.followup))
            if isinstance(self.followup, psycopg.Error)
            else followup_facts(self.followup, flows),
            Unreadable(_error_class(self.eligibility))
            if isinstance(self.eligibility, psycopg.Error)
            else eligibility_facts(self.eligibility),
        )


class FactReader:
    """Reads facts over connections of a pool in autocommit mode.

    Args:
        pool: the connections that are used keep the settings that reading needs (see `_set_up`).
        statement_timeout_ms: the server ends a statement after this; a full batch takes some 50 ms, and a
            window that is slow by itself is found after as many timeouts as its batch can be halved.
        answer_within_s: when a server that says nothing at all is given up.
    """

    def __init__(
        self, pool: AsyncPool, *, statement_timeout_ms: int = 2_000, answer_within_s: float = 10.0
    ) -> None:
        self._pool = pool
        self._statement_timeout_ms = statement_timeout_ms
        self._answer_within_s = answer_within_s
        self._slow = SlowWindows()
        self._set_up: WeakSet[AsyncConnection[Row]] = WeakSet()

    async def read(self, questions: Sequence[Question]) -> list[Facts | ReadFailure]:
        """The facts of each question, in order, or why they can't be read.

        Raises:
            DatabaseAway: nothing can be read now; no window has spent an attempt.
        """
        if not questions:
            return []
        try:
            async with self._pool.connection() as connection:
                if connection not in self._set_up:
                    await self._bounded(connection, set_up(connection, self._statement_timeout_ms))
                    self._set_up.add(connection)
                return await self._read(connection, questions)
        except (psycopg.Error, OSError) as error:
            if is_away(error):
                raise DatabaseAway(
                    f"Postgres can't be asked ({_error_class(error)}): windows wait until it can"
                ) from error
            raise

    async def _read(
        self, connection: AsyncConnection[Row], questions: Sequence[Question]
    ) -> list[Facts | ReadFailure]:
        told = await self._rows(connection, questions)
        flows = flows_by_organization(
            questions, [rows.followup if isinstance(rows, _Rows) else rows for rows in told]
        )
        base = [rows.base if isinstance(rows, _Rows) else rows for rows in told]
        serving, known = serving_by_session(questions, base), known_events(base)
        read = [
            rows.facts(
                question,
                serving[question.organization_id, question.channel_session_id],
                known,
                flows.get(question.organization_id, ()),
            )
            if isinstance(rows, _Rows)
            else rows
            for question, rows in zip(questions, told, strict=True)
        ]
        return self._without_errors(questions, read)

    async def _rows(
        self, connection: AsyncConnection[Row], questions: Sequence[Question]
    ) -> list[_Rows | psycopg.Error]:
        """Each question's rows of the three statements, or the error that its `decide_facts` makes."""
        answers = await self._bounded(connection, pipelined(connection, questions))
        base: Sequence[Row | psycopg.Error] | None = answers[0]
        if base is None:
            base = await self._bisect(connection, "decide_facts", questions)
            well = [
                one for one, row in zip(questions, base, strict=True) if not isinstance(row, psycopg.Error)
            ]
            if well and len(well) < len(questions):
                # Most likely the same windows broke the other statements: ask all three for the rest.
                rest = iter(await self._rows(connection, well))
                return [row if isinstance(row, psycopg.Error) else next(rest) for row in base]
        followup, eligibility = [
            answer if answer is not None else await self._bisect(connection, statement, questions)
            for statement, answer in zip(STATEMENTS[1:], answers[1:], strict=True)
        ]
        return [
            row if isinstance(row, psycopg.Error) else _Rows(row, of_followup, of_eligibility)
            for row, of_followup, of_eligibility in zip(base, followup, eligibility, strict=True)
        ]

    def _without_errors(
        self, questions: Sequence[Question], read: Sequence[Facts | psycopg.Error]
    ) -> list[Facts | ReadFailure]:
        """Say of each window that failed whether that costs it an attempt."""
        answered = [
            _name(question) for question, one in zip(questions, read, strict=True) if isinstance(one, Facts)
        ]
        self._slow.answered(len(answered), frozenset(answered))
        return [
            self._failure(question, one) if isinstance(one, psycopg.Error) else one
            for question, one in zip(questions, read, strict=True)
        ]

    def _failure(self, question: Question, error: psycopg.Error) -> ReadFailure:
        timed_out = error.sqlstate == _TIMEOUT
        spends = self._slow.timed_out(_name(question)) if timed_out else True
        return ReadFailure(_error_class(error), _first_line(error), spends)

    async def _bisect(
        self, connection: AsyncConnection[Row], statement: Statement, questions: Sequence[Question]
    ) -> list[Row | psycopg.Error]:
        """Each question's row of one statement, or the error that it makes when asked alone.

        Raises DatabaseAway when `decide_facts` is refused, or when one after the other times out: then it
        isn't the windows.
        """
        answers: list[Row | psycopg.Error] = []
        patience = timeouts_left = 2 * len(questions).bit_length() + 2
        parts: list[Sequence[Question]] = [questions]
        while parts:
            part = parts.pop()
            try:
                answers += await self._bounded(connection, alone(connection, statement, part))
                timeouts_left = patience
            except psycopg.Error as error:
                if is_away(error):
                    raise
                if _is_refused(error):
                    if statement == "decide_facts":
                        raise DatabaseAway(
                            f"{statement} is refused ({_error_class(error)}: {_first_line(error)}): run "
                            "`rajada doctor`; windows wait until tables and rights are there again"
                        ) from error
                    answers += [error] * len(part)
                    continue
                if error.sqlstate == _TIMEOUT:
                    timeouts_left -= 1
                    if not timeouts_left:
                        raise DatabaseAway(
                            f"{statement} times out again and again: windows wait until the database is less "
                            "busy; look at pg_stat_activity, and at the indexes of messages and job_queue"
                        ) from error
                if len(part) == 1:
                    log.warning("window_unreadable", statement=statement, error=_error_class(error))
                    answers.append(error)
                else:
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
        return answers

    async def _bounded(self, connection: AsyncConnection[Row], work: Coroutine[Any, Any, T]) -> T:
        """Await work on a connection, but cut the connection when the server says nothing for too long.

        A task that waits on a silent socket can't be cancelled cleanly: it would wait for the server to
        confirm. Cutting makes it fail at once, with an error that says that the database is away.
        """
        task = asyncio.ensure_future(work)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._answer_within_s)
        except asyncio.CancelledError:
            cut(connection)
            with suppress(psycopg.Error):
                await task
            raise
        if not done:
            cut(connection)
        return await task


def _name(question: Question) -> str:
    """A window's name: its first event."""
    return question.events[0].event_id


def _is_refused(error: psycopg.Error) -> bool:
    """The statement itself can't run here, whatever it is asked: a table, a column or a right is missing.

    No window is to blame, and none may die of a migration that is under way.
    """
    return error.sqlstate is not None and error.sqlstate.startswith("42")


def _error_class(error: BaseException) -> str:
    code = error.sqlstate if isinstance(error, psycopg.Error) else None
    return f"sqlstate_{code}" if code else type(error).__name__


def _first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).partition("\n")[0][:300]
