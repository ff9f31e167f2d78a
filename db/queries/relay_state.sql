-- What the relay of a slot left behind.
-- Parameters: slot (text).
-- Rows: none before its first start, else one of (backfill_since timestamptz or null: the table is still
-- to be read from there).
SELECT backfill_since FROM rajada.relay WHERE slot = %(slot)s;
