"""Reading the facts of due windows: three statements in one pipelined round trip.

Each statement is followed by its own sync, so that one that fails leaves the others' answers. Where one
fails it is asked again for halves of the batch until the window that breaks it stands alone: a failing
`decide_facts` costs that window an attempt, a failing follow-up or eligibility statement leaves that
window's question open (fail-open). Rules: spec/dispatch.md, step 4 and Failures in step 4.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar
from weakref import WeakSet

import psycopg
import structlog
from psycopg import AsyncConnection
from psycopg.pq import ExecStatus

from db.pool import AsyncPool, is_away
from db.queries import load
from streams.decide import DatabaseAway, Facts, Question, Unreadable
from streams.fact_rows import Row, eligibility_facts, facts_of, flows_by_organization, followup_facts
from streams.slow_windows import SlowWindows

__all__ = ["DatabaseAway", "FactReader", "ReadFailure"]

log = structlog.get_logger(__name__)

Statement = Literal["decide_facts", "decide_followup", "decide_eligibility"]
_STATEMENTS: Final[tuple[Statement, ...]] = ("decide_facts", "decide_followup", "decide_eligibility")
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


class FactReader:
    """Reads facts over connections of a pool in autocommit mode.

    Args:
        pool: its `statement_timeout` bounds each statement.
        answer_within_s: when a server that says nothing at all is given up, seconds; above the
            statement timeout.
    """

    def __init__(self, pool: AsyncPool, *, answer_within_s: float = 45.0) -> None:
        self._pool = pool
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
                    await self._bounded(connection, _set_up(connection))
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
        answers = await self._bounded(connection, _pipelined(connection, questions))
        base, followup, eligibility = [
            rows if rows is not None else await self._bisect(connection, statement, questions)
            for statement, rows in zip(_STATEMENTS, answers, strict=True)
        ]
        flows = flows_by_organization(questions, followup)
        read: list[Facts | ReadFailure] = []
        for question, row, followup_row, eligibility_row in zip(
            questions, base, followup, eligibility, strict=True
        ):
            if isinstance(row, psycopg.Error):
                read.append(self._failure(question, row))
                continue
            read.append(
                facts_of(
                    row,
                    Unreadable(_error_class(followup_row))
                    if isinstance(followup_row, psycopg.Error)
                    else followup_facts(followup_row, flows.get(question.organization_id, ())),
                    Unreadable(_error_class(eligibility_row))
                    if isinstance(eligibility_row, psycopg.Error)
                    else eligibility_facts(eligibility_row),
                )
            )
        self._slow.answered(
            sum(isinstance(one, Facts) for one in read),
            frozenset(
                _name(question)
                for question, one in zip(questions, read, strict=True)
                if isinstance(one, Facts)
            ),
        )
        return read

    def _failure(self, question: Question, error: psycopg.Error) -> ReadFailure:
        timed_out = error.sqlstate == _TIMEOUT
        spends = self._slow.timed_out(_name(question)) if timed_out else True
        return ReadFailure(_error_class(error), _first_line(error), spends)

    async def _bisect(
        self, connection: AsyncConnection[Row], statement: Statement, questions: Sequence[Question]
    ) -> list[Row | psycopg.Error]:
        """Each question's row of one statement, or the error that it makes when asked alone.

        Raises DatabaseAway when statements time out one after the other: then it isn't the windows.
        """
        answers: list[Row | psycopg.Error] = []
        patience = timeouts_left = 2 * len(questions).bit_length() + 2
        parts: list[Sequence[Question]] = [questions]
        while parts:
            part = parts.pop()
            try:
                answers += await self._bounded(connection, _alone(connection, statement, part))
                timeouts_left = patience
            except psycopg.Error as error:
                if is_away(error):
                    raise
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
            _cut(connection)
            with suppress(psycopg.Error):
                await task
            raise
        if not done:
            _cut(connection)
        return await task


async def _set_up(connection: AsyncConnection[Row]) -> None:
    """Plan each statement once, for index look-ups.

    Plans for the arrays at hand read whole tables into hashes, and testing each job against a batch's event
    ids takes a thousand times what its estimate says. Costs are overestimated for a full batch, so that the
    server would compile the statements first, which takes longer than they do.
    """
    for setting in ("plan_cache_mode = force_generic_plan", "enable_seqscan = off", "jit = off"):
        await connection.execute(f"SET {setting}")


async def _pipelined(
    connection: AsyncConnection[Row], questions: Sequence[Question]
) -> list[list[Row] | None]:
    """The rows of the three statements, None for one that failed; raises only what means "away"."""
    parameters = _parameters(questions)
    cursors = [connection.cursor() for _ in _STATEMENTS]
    try:
        async with connection.pipeline() as pipeline:
            for cursor, statement in zip(cursors, _STATEMENTS, strict=True):
                # An error that arrives here may be an earlier statement's: which one failed is read off
                # the cursors afterwards.
                with suppress(psycopg.Error):
                    await cursor.execute(load(statement), parameters, prepare=True)
                # The public `pipeline.sync()` also waits for all answers, which would make three round
                # trips of one.
                pipeline._enqueue_sync()
    except psycopg.Error as error:
        if is_away(error):
            raise
    if connection.broken:
        raise psycopg.OperationalError("the connection broke while the facts were read")
    return [await _rows(cursor, len(questions)) for cursor in cursors]


async def _rows(cursor: psycopg.AsyncCursor[Row], expected: int) -> list[Row] | None:
    result = cursor.pgresult
    if result is None or result.status != ExecStatus.TUPLES_OK or result.ntuples != expected:
        return None
    with suppress(psycopg.DataError):
        return await cursor.fetchall()
    return None


async def _alone(
    connection: AsyncConnection[Row], statement: Statement, questions: Sequence[Question]
) -> list[Row]:
    cursor = await connection.execute(load(statement), _parameters(questions), prepare=False)
    return await cursor.fetchall()


def _parameters(questions: Sequence[Question]) -> dict[str, str | list[str]]:
    """The parameters of all three statements, arrays; windows are numbered from 1."""
    events: list[str] = []
    messages: list[str] = []
    windows: list[str] = []
    for n, question in enumerate(questions, start=1):
        number = str(n)
        for event in question.events:
            events.append(event.event_id)
            messages.append(event.message_id)
            windows.append(number)
    of_events = _array(windows)
    return {
        "organizations": _array([question.organization_id for question in questions]),
        "conversations": _array([question.conversation_id for question in questions]),
        "contacts": _array([question.contact_id for question in questions]),
        "sessions": _array([question.channel_session_id for question in questions]),
        "event_windows": of_events,
        "events": _array(events),
        "message_windows": of_events,
        "messages": _array(messages),
    }


_PLAIN = re.compile(r"[0-9a-f-]+(?:,[0-9a-f-]+)*").fullmatch


def _array(items: list[str]) -> str | list[str]:
    """An array parameter: numbers and UUIDs need no quoting, so their literal is quickly made (a tenth of
    the time for a full batch); anything else is left to psycopg, and to the server to refuse."""
    literal = ",".join(items)
    if _PLAIN(literal) and literal.count(",") == len(items) - 1:
        return f"{{{literal}}}"
    return items


def _cut(connection: AsyncConnection[Row]) -> None:
    """End both directions of the connection's socket; libpq keeps the descriptor and notices."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def _name(question: Question) -> str:
    """A window's name: its first event."""
    return question.events[0].event_id


def _error_class(error: BaseException) -> str:
    code = error.sqlstate if isinstance(error, psycopg.Error) else None
    return f"sqlstate_{code}" if code else type(error).__name__


def _first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).partition("\n")[0][:300]
