-- Count up the newest open inbox item of an organization, kind and title, or open one. Acknowledged and
-- resolved items do not count. The caller holds the lock of sink_alert_lock.
-- Parameters: organization_id uuid (null = the platform), kind, title, body, ref_kind text, ref_id uuid,
-- occurrences bigint, since timestamptz (since when it lasts; null = now). No rows. All other times are the
-- transaction's, as that of the row that died with it.
WITH newest AS (
    SELECT i.id
    FROM agent_inbox_items i
    WHERE (i.organization_id = %(organization_id)s::uuid
           OR (%(organization_id)s::uuid IS NULL AND i.organization_id IS NULL))
      AND i.kind = %(kind)s
      AND i.title = %(title)s
      AND i.status = 'open'
    ORDER BY i.created_at DESC, i.id DESC
    LIMIT 1
),
counted AS (
    UPDATE agent_inbox_items i
    SET occurrences = i.occurrences + %(occurrences)s,
        last_seen_at = greatest(i.last_seen_at, now())
    FROM newest
    WHERE i.id = newest.id
    RETURNING i.id
)
INSERT INTO agent_inbox_items (
    id, organization_id, kind, severity, title, body, ref_kind, ref_id, status, occurrences, created_at,
    last_seen_at
)
SELECT
    gen_random_uuid(), %(organization_id)s::uuid, %(kind)s, 'critical', %(title)s, %(body)s, %(ref_kind)s,
    %(ref_id)s::uuid, 'open', %(occurrences)s, coalesce(%(since)s::timestamptz, now()), now()
WHERE NOT EXISTS (SELECT FROM counted)
