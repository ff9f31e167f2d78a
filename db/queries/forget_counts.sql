-- What our tables and the CRM's hold of a contact. Parameters: id (uuid).
-- Rows: traces, events, jobs, open_jobs bigint, last_at timestamptz (the last that happened), one row.
SELECT
    (SELECT count(*) FROM rajada.trace t WHERE t.contact_id = %(id)s),
    (SELECT count(DISTINCT t.event_id) FROM rajada.trace t WHERE t.contact_id = %(id)s),
    (SELECT count(*) FROM job_queue j WHERE j.contact_id = %(id)s),
    (SELECT count(*) FROM job_queue j WHERE j.contact_id = %(id)s AND j.status IN ('pending', 'running')),
    (SELECT max(t.at) FROM rajada.trace t WHERE t.contact_id = %(id)s)
