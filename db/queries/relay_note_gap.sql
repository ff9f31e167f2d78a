-- Notes, before a slot is made, from which moment rows must be read from the table: what was committed
-- before the slot is not in its stream. An older note that was not worked off stays.
-- Rows may carry an older created_at (start of the transaction) than their commit: hence the margin.
-- Parameters: slot (text), margin (interval).
-- Rows: one, (backfill_since timestamptz).
INSERT INTO rajada.relay AS r (slot, backfill_since, slots_made)
SELECT %(slot)s, installed_at, 1 FROM rajada.meta
ON CONFLICT (slot) DO UPDATE SET
    backfill_since = least(
        r.backfill_since,
        greatest(
            coalesce(r.confirmed_commit_at - %(margin)s::interval, excluded.backfill_since),
            excluded.backfill_since
        )
    ),
    slots_made = r.slots_made + 1,
    updated_at = now()
RETURNING backfill_since;
