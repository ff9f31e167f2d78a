-- How far the sink has written a topic: one row a partition, of the topic as it is now (its newest id).
-- Parameters: topic text. Rows: partition int, next_offset bigint.
SELECT DISTINCT ON (partition) partition, next_offset
FROM rajada.sink_offsets
WHERE topic = %(topic)s
ORDER BY partition, updated_at DESC
