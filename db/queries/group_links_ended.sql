-- Which of these jobs have ended, as their rows in the queue of group links say, at this (replay, seq) or later.
-- Parameters: ids uuid[], replays bigint[], seqs bigint[] (same length).
-- Rows: id uuid, status text (done, dead).
SELECT a.id, CASE g.status WHEN 'sent' THEN 'done' ELSE 'dead' END
FROM unnest(%(ids)s::uuid[], %(replays)s::bigint[], %(seqs)s::bigint[]) AS a (id, replay, seq)
JOIN group_link_dispatch_queue g ON g.id = a.id
WHERE g.status IN ('sent', 'failed')
  AND (coalesce(g.outcome_replay, -1), coalesce(g.outcome_seq, -1)) >= (a.replay, a.seq)
