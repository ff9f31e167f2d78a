-- How many of a topic's dead letters that are still there were dealt with.
-- Parameters: topic_id text, partitions int[], begins bigint[] (same length): the first offset of each.
-- Rows: one, (closed bigint).
SELECT count(*)
FROM unnest(%(partitions)s::integer[], %(begins)s::bigint[]) AS p (partition, begin)
JOIN rajada.closed_letters c
  ON c.topic_id = %(topic_id)s AND c.partition = p.partition AND c."offset" >= p.begin
