-- What an id is the id of. Parameters: id (uuid). Rows: kind text (event, job, message, contact).
SELECT 'event' AS kind FROM event_log WHERE id = %(id)s
UNION SELECT 'job' FROM job_queue WHERE id = %(id)s
UNION SELECT 'message' FROM messages WHERE id = %(id)s
UNION SELECT 'contact' FROM contacts WHERE id = %(id)s
-- What was produced by hand has no row of its own, and what was deleted has none any more.
UNION SELECT 'event' FROM rajada.trace WHERE event_id = %(id)s
UNION SELECT 'job' FROM rajada.trace WHERE job_id = %(id)s
UNION SELECT 'message' FROM rajada.trace WHERE message_id = %(id)s
UNION SELECT 'contact' FROM rajada.trace WHERE contact_id = %(id)s
