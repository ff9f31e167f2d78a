-- How often events and jobs were requeued, each run counted once. Parameters: ids (uuid[]).
-- Rows: about text, replays bigint.
SELECT c.about::text, count(DISTINCT c.replay)
FROM rajada.closed_letters c
WHERE c.about = ANY (%(ids)s::uuid[]) AND c.how = 'requeued'
GROUP BY c.about
