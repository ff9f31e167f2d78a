-- Stop 0 asks the index of job_queue's event ids for every batch of windows. With a pending list each look-up
-- reads the whole list, up to 4 MB of unsorted entries: a batch took 1.4 s instead of 0.07 s.
-- depends: rajada-0005-indexes

ALTER INDEX rajada_job_queue_event_ids SET (fastupdate = off);

DO $$
BEGIN
    PERFORM gin_clean_pending_list('rajada_job_queue_event_ids');
END
$$;
