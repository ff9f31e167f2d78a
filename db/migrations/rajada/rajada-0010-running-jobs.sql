-- Two small indexes for the sink: which job of a contact runs, and which one started while another seemed to.
-- A build that was interrupted leaves an invalid index behind: it is dropped first.
-- transactional: false
-- depends: rajada-0005-indexes

DO $$
DECLARE
    broken regclass;
BEGIN
    FOR broken IN
        SELECT i.indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE NOT i.indisvalid AND c.relname IN ('rajada_job_queue_running', 'rajada_job_queue_behind')
    LOOP
        EXECUTE 'DROP INDEX ' || broken;
    END LOOP;
END
$$;

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_job_queue_running
    ON job_queue (contact_id) WHERE status = 'running';

CREATE INDEX CONCURRENTLY IF NOT EXISTS rajada_job_queue_behind
    ON job_queue (contact_id) WHERE status = 'pending' AND locked_by IS NOT NULL;
