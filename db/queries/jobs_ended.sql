-- Which of these jobs have ended, as their rows say, at this (replay, seq) or later.
-- Parameters: ids uuid[], replays bigint[], seqs bigint[] (same length).
-- Rows: id uuid, status text (done, failed, dead).
SELECT a.id, q.status
FROM unnest(%(ids)s::uuid[], %(replays)s::bigint[], %(seqs)s::bigint[]) AS a (id, replay, seq)
JOIN job_queue q ON q.id = a.id
WHERE q.status IN ('done', 'failed', 'dead')
  AND (coalesce(q.outcome_replay, -1), coalesce(q.outcome_seq, -1)) >= (a.replay, a.seq)
