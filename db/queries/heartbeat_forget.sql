-- A connector is no more: nothing is expected of it, and what was noted of its slot is not asked for again.
-- Parameters: slot (text). No rows.
WITH silenced AS (DELETE FROM rajada.heartbeats WHERE slot = %(slot)s)
DELETE FROM rajada.relay WHERE slot = %(slot)s;
