-- Remove some group links that ended long ago; never one that an open alert is about. Those that somebody is
-- writing are passed over.
-- Parameters: sent_days, failed_days integer (0 = keep for ever), page integer.
-- No rows; the number of removed rows is the command's own.
WITH old AS MATERIALIZED (
    SELECT q.id
    FROM group_link_dispatch_queue q
    WHERE (
        (q.status = 'sent' AND %(sent_days)s > 0 AND q.updated_at < now() - make_interval(days => %(sent_days)s))
        OR (
            q.status = 'failed' AND %(failed_days)s > 0
            AND q.updated_at < now() - make_interval(days => %(failed_days)s)
        )
    )
    AND NOT EXISTS (
        SELECT FROM agent_inbox_items i
        WHERE i.ref_kind = 'job' AND i.ref_id = q.id AND i.status::text = 'open'
    )
    -- an alert names one example; the ledger knows all that it is about
    AND NOT EXISTS (
        SELECT FROM rajada.troubles t
        JOIN agent_inbox_items i ON i.organization_id IS NOT DISTINCT FROM t.organization_id
            AND i.kind = t.kind AND i.title = t.title
        WHERE t.about = 'job' AND t.id = q.id::text AND i.status::text = 'open'
    )
    ORDER BY q.updated_at
    LIMIT %(page)s
    FOR UPDATE OF q SKIP LOCKED
)
DELETE FROM group_link_dispatch_queue q USING old WHERE q.id = old.id
