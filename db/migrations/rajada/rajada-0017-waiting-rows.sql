-- Small indexes for what is asked every few seconds: which jobs are due for longest, what others work on, and which
-- alerts are not resolved. But for the first they are as good as empty where nobody else works on our rows.
-- A build that was interrupted leaves an invalid index behind: it is dropped first.
-- transactional: false
-- depends: rajada-0010-running-jobs

DO $$
DECLARE
    broken regclass;
BEGIN
    FOR broken IN
        SELECT i.indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE NOT i.indisvalid AND c.relname IN (
            'rajada_job_queue_waiting', 'rajada_job_queue_foreign', 'rajada_event_log_processing',
            'rajada_inbox_unresolved'
        )
    LOOP
        EXECUTE 'DROP INDEX ' || broken;
    END LOOP;
END
$$;

-- The CRM's own begins with the priority: by it, everything that is due would be sorted.
CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_job_queue_waiting
    ON job_queue (run_after, id) WHERE status = 'pending';

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_job_queue_foreign
    ON job_queue (kind) WHERE status = 'pending' AND outcome_seq IS NULL AND source_event_id IS NOT NULL;

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_event_log_processing
    ON event_log (event_type) WHERE status = 'processing';

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_inbox_unresolved
    ON agent_inbox_items (kind, title, organization_id) WHERE status IN ('open', 'ack');
