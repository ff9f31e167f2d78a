-- Forget what was published again long ago; an event that still waits comes up more often than that.
-- Parameters: keep_days (integer). No rows.
DELETE FROM rajada.swept WHERE last_swept_at < now() - make_interval(days => %(keep_days)s)
