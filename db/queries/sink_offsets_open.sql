-- Make the rows that say how far a topic was applied, from its beginning, where there are none yet.
-- Parameters: topic_id text, topic text, partitions int[]. No rows.
INSERT INTO rajada.sink_offsets (topic_id, topic, partition, next_offset)
SELECT %(topic_id)s, %(topic)s, p.partition, 0
FROM unnest(%(partitions)s::integer[]) AS p (partition)
ON CONFLICT (topic_id, partition) DO NOTHING
