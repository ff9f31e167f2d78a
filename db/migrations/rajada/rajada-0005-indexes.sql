-- Indexes for stop 0, the sweep and the alert pass, built without blocking the CRM's writes.
-- A build that was interrupted leaves an invalid index behind: it is dropped first.
-- transactional: false
-- depends: rajada-0001-columns

DO $$
DECLARE
    broken regclass;
BEGIN
    FOR broken IN
        SELECT i.indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE NOT i.indisvalid AND c.relname LIKE 'rajada\_%'
    LOOP
        EXECUTE 'DROP INDEX ' || broken;
    END LOOP;
END
$$;

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_job_queue_event_ids
    ON job_queue USING gin ((payload -> 'event_ids'));

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_job_queue_source_event_id
    ON job_queue (source_event_id) WHERE source_event_id IS NOT NULL;

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_job_queue_dead
    ON job_queue (organization_id, created_at) WHERE status = 'dead';

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_event_log_open
    ON event_log (created_at, id) WHERE status IN ('pending', 'processing');

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_event_log_dead
    ON event_log (organization_id, updated_at) WHERE status = 'dead';
