-- What was done with the letters of a stretch of one partition.
-- Parameters: topic_id (text), partition (integer), first, below (bigint).
-- Rows: offset bigint, how text, replay bigint, closed_by text, closed_at timestamptz.
SELECT c."offset", c.how, c.replay, c.closed_by, c.closed_at
FROM rajada.closed_letters c
WHERE c.topic_id = %(topic_id)s AND c.partition = %(partition)s
  AND c."offset" >= %(first)s AND c."offset" < %(below)s
