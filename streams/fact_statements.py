"""The three statements that read facts, and how they go over a connection.

Each ends with a sync of its own: in a pipeline an error skips what follows it up to the next sync.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import ExecStatus

from db.pool import is_away
from db.queries import load
from streams.fact_rows import Row
from streams.question import Question

Statement = Literal["decide_facts", "decide_followup", "decide_eligibility"]
STATEMENTS: Final[tuple[Statement, ...]] = ("decide_facts", "decide_followup", "decide_eligibility")


async def set_up(connection: AsyncConnection[Row], statement_timeout_ms: int) -> None:
    """Plan each statement once, for index look-ups.

    Plans for the arrays at hand read whole tables into hashes, and testing each job against a batch's event
    ids takes a thousand times what its estimate says. Costs are overestimated for a full batch, so that the
    server would compile the statements first, which takes longer than they do.
    """
    for name, value in (
        ("statement_timeout", str(statement_timeout_ms)),
        ("plan_cache_mode", "force_generic_plan"),
        ("enable_seqscan", "off"),
        ("jit", "off"),
    ):
        await connection.execute("SELECT set_config(%s, %s, false)", (name, value))


async def pipelined(
    connection: AsyncConnection[Row], questions: Sequence[Question]
) -> list[list[Row] | None]:
    """The rows of the three statements, None for one that failed; raises only what means "away"."""
    asked = parameters(questions)
    cursors = [connection.cursor() for _ in STATEMENTS]
    try:
        async with connection.pipeline() as pipeline:
            for cursor, statement in zip(cursors, STATEMENTS, strict=True):
                # An error that arrives here may be an earlier statement's: which one failed is read off
                # the cursors afterwards.
                with suppress(psycopg.Error):
                    await cursor.execute(load(statement), asked, prepare=True)
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


async def alone(
    connection: AsyncConnection[Row], statement: Statement, questions: Sequence[Question]
) -> list[Row]:
    """The rows of one statement in a round trip of its own; raises what the server says."""
    cursor = await connection.execute(load(statement), parameters(questions), prepare=False)
    return await cursor.fetchall()


def parameters(questions: Sequence[Question]) -> dict[str, str | list[str]]:
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
    return {
        "organizations": _array([question.organization_id for question in questions]),
        "conversations": _array([question.conversation_id for question in questions]),
        "contacts": _array([question.contact_id for question in questions]),
        "sessions": _array([question.channel_session_id for question in questions]),
        "events": _array(events),
        "message_windows": _array(windows),
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


def cut(connection: AsyncConnection[Row]) -> None:
    """End both directions of the connection's socket; libpq keeps the descriptor and notices."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)
