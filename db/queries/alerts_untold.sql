-- Families of troubles that no alert covers: none of any status was opened or counted up since. One row a family,
-- in the order in which alerts are locked, with the text of the oldest.
-- No parameters. Rows: organization_id text or null, kind text, title text, body text, ref_kind text or null,
-- ref_id text or null, occurrences bigint, since timestamptz.
WITH families AS (
    SELECT f.organization_id, f.kind, f.title, (
        SELECT max(coalesce(i.last_seen_at, i.created_at))
        FROM agent_inbox_items i
        WHERE (i.organization_id = f.organization_id
               OR (f.organization_id IS NULL AND i.organization_id IS NULL))
          AND i.kind = f.kind
          AND i.title = f.title
    ) AS covered
    FROM (SELECT DISTINCT t.organization_id, t.kind, t.title FROM rajada.troubles t) f
)
SELECT
    f.organization_id::text, f.kind, f.title,
    (array_agg(t.body ORDER BY t.at, t.id))[1],
    (array_agg(t.ref_kind ORDER BY t.at, t.id))[1],
    (array_agg(t.ref_id ORDER BY t.at, t.id))[1]::text,
    count(*), min(t.at)
FROM families f
JOIN rajada.troubles t
  ON t.kind = f.kind AND t.title = f.title AND t.organization_id IS NOT DISTINCT FROM f.organization_id
WHERE t.at > coalesce(f.covered, '-infinity')
GROUP BY f.organization_id, f.kind, f.title
ORDER BY coalesce(f.organization_id::text, ''), f.kind, f.title
