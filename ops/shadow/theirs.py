"""What the old drain did: read from the CRM's tables over a connection that can't change them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from db.pool import conninfo_for
from db.queries import load
from ops.asking import asking
from ops.shadow.compare import Ours, TheirEvent, TheirJob
from schemas.kinds import INBOUND_TURN
from schemas.topic_names import SOURCE

Connection = psycopg.Connection[tuple[Any, ...]]

BATCH: Final = 500
"""Windows whose rows are read at a time."""
BEFORE_MS: Final = 600_000
"""How long before a window its contact's jobs are looked at: they may have run during it."""


@contextmanager
def reading(url: str) -> Iterator[Connection]:
    """A connection on which the server refuses every change. Raises OpsError."""
    session = {"default_transaction_read_only": "on", "statement_timeout": "10000"}
    with asking(url), psycopg.connect(conninfo_for(url, "shadow-report", session), autocommit=True) as opened:
        yield opened


def rows_of(
    connection: Connection, windows: Sequence[Ours], reason: str
) -> tuple[dict[str, TheirEvent], dict[str, list[TheirJob]]]:
    """The rows of the windows' events by id, and the jobs by contact. Raises psycopg.Error."""
    ids = [one for window in windows for one in window.events]
    events = {
        str(id_): TheirEvent(
            status=status,
            created_ms=int(created_ms),
            decided_ms=int(decided_ms),
            reason=told,
            by_rajada=by_rajada,
        )
        for id_, status, created_ms, decided_ms, told, by_rajada in connection.execute(
            load("shadow_events"), {"ids": ids, "reason": reason}
        )
    }
    jobs: dict[str, list[TheirJob]] = defaultdict(list)
    contacts = sorted({one.contact_id for one in windows if one.contact_id is not None})
    since_s = (min(one.opened_ms for one in windows) - BEFORE_MS) / 1000
    asked = {"contacts": contacts, "since": since_s, "kinds": [INBOUND_TURN]}
    for id_, contact, source, named, conversation, created_ms, started_ms in connection.execute(
        load("shadow_jobs"), asked
    ):
        jobs[contact].append(
            TheirJob(
                id=id_,
                source=source,
                events=frozenset((source, *(named or ()))),
                conversation_id=conversation,
                created_ms=int(created_ms),
                started_ms=None if started_ms is None else int(started_ms),
            )
        )
    return events, jobs


def events_between(
    connection: Connection, since_ms: int, until_ms: int, most: int
) -> list[tuple[str, str, str | None, int]]:
    """Event, organization, contact and time (Unix ms) of what was written then. Raises psycopg.Error."""
    asked = {"event_type": SOURCE, "since": since_ms / 1000, "until": until_ms / 1000, "most": most}
    return [
        (id_, organization_id, contact_id, int(created_ms))
        for id_, organization_id, contact_id, created_ms in connection.execute(load("shadow_unseen"), asked)
    ]
