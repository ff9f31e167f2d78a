-- Slots that were made anew since the last look: what was written between the old one and the new one is read
-- from the table. Each is returned once. No parameters. Rows: slot text, slots_made int, since text.
UPDATE rajada.relay r
SET slots_told = r.slots_made
WHERE r.slots_made > coalesce(r.slots_told, 1)
RETURNING r.slot, r.slots_made,
    coalesce(to_char(coalesce(r.backfill_since, r.confirmed_commit_at) AT TIME ZONE 'UTC',
                     'YYYY-MM-DD HH24:MI:SS "UTC"'), '?')
