-- Note what was done with dead letters; one that was closed before is closed anew.
-- Parameters: topic_id, topic (text), how (text), replay (bigint), closed_by (text), rows (json): one object
--   a letter {partition, offset, about}. No rows.
INSERT INTO rajada.closed_letters (topic_id, topic, partition, "offset", how, replay, about, closed_by)
SELECT %(topic_id)s, %(topic)s, r.partition, r."offset", %(how)s, %(replay)s, r.about, %(closed_by)s
FROM json_to_recordset(%(rows)s::json) AS r (partition integer, "offset" bigint, about uuid)
ON CONFLICT (topic_id, partition, "offset") DO UPDATE
SET how = excluded.how, replay = excluded.replay, closed_by = excluded.closed_by, closed_at = now()
