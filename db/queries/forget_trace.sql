-- Erase what the trace tells of a contact: facts and whose it was; that an event or a job ended so stays.
-- Parameters: id (uuid or null); events, jobs (uuid[]): its group links and dead letters, which name no contact.
-- No rows; the number of rows is what was erased.
WITH named AS MATERIALIZED (
    SELECT DISTINCT t.event_id, t.job_id FROM rajada.trace t WHERE t.contact_id = %(id)s::uuid
    UNION SELECT e.id, NULL FROM unnest(%(events)s::uuid[]) AS e (id)
    UNION SELECT NULL, j.id FROM unnest(%(jobs)s::uuid[]) AS j (id)
)
UPDATE rajada.trace t
SET facts = NULL, contact_id = NULL, conversation_id = NULL, message_id = NULL
WHERE (
    t.contact_id = %(id)s::uuid
    OR t.event_id IN (SELECT n.event_id FROM named n WHERE n.event_id IS NOT NULL)
    OR t.job_id IN (SELECT n.job_id FROM named n WHERE n.job_id IS NOT NULL)
) AND (t.facts IS NOT NULL OR t.contact_id IS NOT NULL OR t.message_id IS NOT NULL)
