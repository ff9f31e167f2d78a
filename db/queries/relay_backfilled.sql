-- The rows before the slot are all published.
-- Parameters: slot (text). No rows.
UPDATE rajada.relay SET backfill_since = NULL, updated_at = now() WHERE slot = %(slot)s;
