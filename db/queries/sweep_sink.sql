-- How far the sink has written a topic. Parameters: topic_id (text).
-- Rows: partition int, next_offset bigint.
SELECT o.partition, o.next_offset FROM rajada.sink_offsets o WHERE o.topic_id = %(topic_id)s
