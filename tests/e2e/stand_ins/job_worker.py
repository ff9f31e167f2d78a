"""A worker of the CRM's job queue: claims due rows with SKIP LOCKED, runs them, completes or fails them.

One contact's jobs one after another (b161); attempts rise at the claim (b165); a lease is only finished by
who holds it (b166); failures wait, doubling, and the fifth is death (b168, b169).
"""

from __future__ import annotations

import argparse
import signal
import threading

import psycopg
from psycopg.types.json import Jsonb

CLAIM = """
UPDATE job_queue SET status = 'running', attempts = attempts + 1, locked_by = %(name)s, locked_at = now()
WHERE id IN (
    SELECT j.id FROM job_queue j
    WHERE j.status = 'pending' AND j.run_after <= now() AND j.kind = 'inbound_turn'
      AND NOT EXISTS (SELECT FROM job_queue r WHERE r.contact_id = j.contact_id AND r.status = 'running')
      AND NOT EXISTS (
          SELECT FROM job_queue e
          WHERE e.contact_id = j.contact_id AND e.status = 'pending' AND e.run_after <= now()
            AND (e.priority, e.run_after, e.id) < (j.priority, j.run_after, j.id)
      )
    ORDER BY j.priority, j.run_after
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
)
RETURNING id, contact_id, attempts, max_attempts, payload, source_event_id
"""

ANSWER = """
INSERT INTO crm_answers (job_id, event_id, worker)
SELECT %(id)s, e.id::uuid, %(name)s
FROM jsonb_array_elements_text(
    coalesce(%(payload)s::jsonb -> 'event_ids', jsonb_build_array(%(source)s::text))
) AS e (id)
"""

FINISH = (
    "UPDATE job_queue SET status = 'done' WHERE id = %(id)s AND status = 'running' AND locked_by = %(name)s"
)

FAIL = """
UPDATE job_queue
SET status = CASE WHEN attempts >= max_attempts THEN 'dead' ELSE 'pending' END,
    run_after = now() + %(backoff_s)s * power(2, attempts - 1) * interval '1 second',
    last_error = 'HTTP 503', locked_by = NULL, locked_at = NULL
WHERE id = %(id)s AND status = 'running' AND locked_by = %(name)s
"""


HAND_OVER = "UPDATE conversations SET assignee_kind = 'user' WHERE id = %s"


def main() -> None:
    """Work until SIGTERM; a job in hand is finished first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("--batch", type=int, default=3)
    parser.add_argument("--takes-s", type=float, default=0.02)
    parser.add_argument("--backoff-s", type=float, default=0.2)
    parser.add_argument("--idle-s", type=float, default=0.05)
    parser.add_argument(
        "--hands-over", type=int, default=0, help="1: a job gives its conversation to a person"
    )
    options = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with psycopg.connect(options.url, autocommit=True) as connection:
        while not stop.is_set():
            try:
                claimed = connection.execute(CLAIM, {"name": options.name, "batch": options.batch}).fetchall()
            except psycopg.errors.UniqueViolation:
                continue  # another worker took a job of the same contact in this moment
            for row in claimed:
                run(connection, options, row)
            if not claimed:
                stop.wait(options.idle_s)


def run(connection: psycopg.Connection, options: argparse.Namespace, row: tuple) -> None:
    """One attempt of one job."""
    id_, contact_id, attempts, _, payload, source = row
    connection.execute("INSERT INTO crm_runs VALUES (%s, %s, %s)", [id_, attempts, options.name])
    connection.execute("SELECT pg_sleep(%s)", [options.takes_s])
    if options.hands_over:
        connection.execute(HAND_OVER, [payload["conversation_id"]])
    script = connection.execute(
        "SELECT failures FROM crm_script WHERE contact_id = %s", [contact_id]
    ).fetchone()
    values = {"id": id_, "name": options.name, "backoff_s": options.backoff_s}
    if script is not None and attempts <= script[0]:
        connection.execute(FAIL, values)
        return
    with connection.transaction():
        if connection.execute(FINISH, values).rowcount != 1:
            raise SystemExit(f"lost the lease of {id_}")
        answer = {**values, "payload": Jsonb(payload), "source": str(source)}
        connection.execute(ANSWER, answer)


if __name__ == "__main__":
    main()
