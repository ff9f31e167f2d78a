"""A polling drain: claims pending events, makes a job row of each or lets it ride on a waiting one.

Claimed events are `processing` until they are done, one after another, each step a transaction of its own
(b128): a drain that is killed leaves events `processing`, and perhaps a job whose event is not done yet. It
reaps what it left itself after a while (b131).
"""

from __future__ import annotations

import argparse
import signal
import threading
import time

import psycopg
from psycopg.types.json import Jsonb

REAP = """
UPDATE event_log SET status = 'pending', updated_at = now()
WHERE event_type = 'ai_agent.dispatch_requested' AND status = 'processing'
  AND %(name)s = ANY (consumed_by) AND updated_at < now() - %(reap_s)s * interval '1 second'
"""

CLAIM = """
UPDATE event_log
SET status = 'processing', attempts = attempts + 1, updated_at = now(),
    consumed_by = CASE WHEN %(name)s = ANY (consumed_by) THEN consumed_by
                       ELSE array_append(consumed_by, %(name)s) END
WHERE id IN (
    SELECT id FROM event_log
    WHERE event_type = 'ai_agent.dispatch_requested' AND status = 'pending'
      AND (next_attempt_at IS NULL OR next_attempt_at <= now())
    ORDER BY created_at
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
RETURNING id, organization_id, payload, created_at
"""

WAITING_JOB = """
SELECT id FROM job_queue
WHERE contact_id = %(contact)s AND kind = 'inbound_turn' AND status = 'pending' AND run_after > now()
  AND run_after < 'infinity' AND payload ->> 'conversation_id' = %(conversation)s
ORDER BY run_after LIMIT 1
FOR UPDATE SKIP LOCKED
"""

MAKE = """
INSERT INTO job_queue (organization_id, contact_id, kind, source_event_id, payload, run_after)
VALUES (%(organization)s, %(contact)s, 'inbound_turn', %(event)s, %(payload)s,
        now() + %(window_s)s * interval '1 second')
ON CONFLICT (organization_id, source_event_id) DO NOTHING
"""

HUMAN = "SELECT 1 FROM conversations WHERE id = %(conversation)s AND assignee_kind = 'user'"

SILENT = """
UPDATE event_log SET status = 'done', updated_at = now(),
    metadata = coalesce(metadata, '{}') || '{"why": "not_eligible:human_owner"}'
WHERE id = %(event)s AND status = 'processing'
"""

DONE = (
    "UPDATE event_log SET status = 'done', updated_at = now() WHERE id = %(event)s AND status = 'processing'"
)


def main() -> None:
    """Drain until SIGTERM; a batch in hand is finished first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--tick-s", type=float, default=0.1)
    parser.add_argument("--takes-s", type=float, default=0.005)
    parser.add_argument("--window-s", type=float, default=0.5)
    parser.add_argument("--reap-s", type=float, default=300)
    parser.add_argument(
        "--heeds", type=int, default=0, help="1: a conversation that a person has is none of its business"
    )
    options = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with psycopg.connect(options.url, autocommit=True) as connection:
        while not stop.is_set():
            connection.execute(REAP, {"name": options.name, "reap_s": options.reap_s})
            claimed = connection.execute(CLAIM, {"name": options.name, "batch": options.batch}).fetchall()
            # the update returns its rows in no order
            for event_id, organization, payload, _ in sorted(claimed, key=lambda row: row[3]):
                drain(connection, options, str(event_id), str(organization), payload)
            if not claimed:
                stop.wait(options.tick_s)


def drain(
    connection: psycopg.Connection, options: argparse.Namespace, event: str, organization: str, payload: dict
) -> None:
    """One event: rides on a job that waits for its window, or gets its own; then it is done."""
    time.sleep(options.takes_s)
    values = {
        "event": event,
        "organization": organization,
        "contact": payload["contact_id"],
        "conversation": payload["conversation_id"],
        "payload": Jsonb({**payload, "crm_event_id": event}),
        "window_s": options.window_s,
    }
    if options.heeds and connection.execute(HUMAN, values).fetchone():
        connection.execute(SILENT, values)
        return
    with connection.transaction():
        known = connection.execute(
            "SELECT 1 FROM job_queue WHERE source_event_id = %(event)s", values
        ).fetchone()
        found = None if known else connection.execute(WAITING_JOB, values).fetchone()
        if found is not None:
            connection.execute("INSERT INTO crm_rides VALUES (%s, %s)", [event, found[0]])
            connection.execute(DONE, values)
            return
    connection.execute(MAKE, values)
    connection.execute(DONE, values)


if __name__ == "__main__":
    main()
