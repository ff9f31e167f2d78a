-- Note ticks as skipped or missed, without firing. By compare-and-set: whoever was quicker has noted them.
-- Parameters: schedule text, version bigint (as it was seen), settled timestamptz (the newest of them),
-- skipped bigint, missed bigint. Rows: one if it was ours to note.
UPDATE connect.schedules s
SET version = s.version + 1,
    settled = %(settled)s,
    skipped = s.skipped + %(skipped)s,
    missed = s.missed + %(missed)s
WHERE s.name = %(schedule)s AND s.version = %(version)s
  AND (s.settled IS NULL OR s.settled < %(settled)s)
RETURNING s.version
