-- How many of our alerts are not resolved. Parameters: kinds (text[]: ours). Rows: kind, count bigint.
SELECT i.kind, count(*)
FROM agent_inbox_items i
WHERE i.kind = ANY (%(kinds)s::text[]) AND i.status IN ('open', 'ack')
GROUP BY i.kind
