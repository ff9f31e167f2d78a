-- How far a topic was applied. Parameters: topic_id text, partitions int[].
-- Rows: partition int, next_offset bigint.
SELECT o.partition, o.next_offset
FROM rajada.sink_offsets o
WHERE o.topic_id = %(topic_id)s AND o.partition = ANY (%(partitions)s::integer[])
