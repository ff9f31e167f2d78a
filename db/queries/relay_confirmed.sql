-- How far the relay came, for the back-fill if the slot is ever lost.
-- Parameters: slot (text), lsn (bigint), commit_ms (bigint, Unix milliseconds). No rows.
INSERT INTO rajada.relay AS r (slot, confirmed_lsn, confirmed_commit_at)
VALUES (%(slot)s, '0/0'::pg_lsn + %(lsn)s::numeric, to_timestamp(%(commit_ms)s / 1000.0))
ON CONFLICT (slot) DO UPDATE SET
    confirmed_lsn = excluded.confirmed_lsn,
    confirmed_commit_at = greatest(r.confirmed_commit_at, excluded.confirmed_commit_at),
    updated_at = now();
