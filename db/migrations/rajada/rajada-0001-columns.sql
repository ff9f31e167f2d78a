-- Our own columns on the CRM's tables (spec/dispatch.md, tables). All of them are nullable or have a
-- constant default, so no table is rewritten and the lock is held for a moment only.

SET LOCAL lock_timeout = '10s';

ALTER TABLE event_log
    ADD COLUMN IF NOT EXISTS partition_key text,
    ADD COLUMN IF NOT EXISTS outcome text,
    ADD COLUMN IF NOT EXISTS job_id uuid,
    ADD COLUMN IF NOT EXISTS outcome_replay bigint,
    ADD COLUMN IF NOT EXISTS outcome_seq bigint;

ALTER TABLE job_queue
    ADD COLUMN IF NOT EXISTS outcome_replay bigint,
    ADD COLUMN IF NOT EXISTS outcome_seq bigint;

ALTER TABLE IF EXISTS group_link_dispatch_queue
    ADD COLUMN IF NOT EXISTS outcome_replay bigint,
    ADD COLUMN IF NOT EXISTS outcome_seq bigint;

ALTER TABLE agent_inbox_items
    ADD COLUMN IF NOT EXISTS occurrences bigint NOT NULL DEFAULT 1,
    ADD COLUMN IF NOT EXISTS last_seen_at timestamptz;
