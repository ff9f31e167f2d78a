-- Let nobody else open or count the same alert until this transaction ends. A statement of its own: the
-- next one must see what the one who held the lock before has written.
-- Parameters: organization_id text (null = the platform), kind text, title text. Rows: one, ignored.
SELECT pg_advisory_xact_lock(
    hashtextextended(
        concat_ws('|', 'rajada.alert', coalesce(%(organization_id)s::text, ''), %(kind)s::text, %(title)s::text), 0
    )
)
