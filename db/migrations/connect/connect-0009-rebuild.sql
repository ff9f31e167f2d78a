-- The open notifications are made to be what is true (spec/reconciler.md, step 2). What is open and still true is
-- not touched at all, so that doing it twice is doing it once.
-- depends: connect-0008-facts

CREATE OR REPLACE FUNCTION connect.rebuild_all_system_notifications(most integer DEFAULT NULL)
RETURNS TABLE (opened bigint, resolved bigint, more boolean)
LANGUAGE plpgsql SET work_mem = '64MB' AS $$
#variable_conflict use_column
DECLARE
    page CONSTANT bigint := coalesce(most, 2147483647);
    at_time timestamptz;
BEGIN
    -- One at a time; who waited here sees what the one before wrote.
    PERFORM pg_advisory_xact_lock(hashtext('connect.system_notifications'));
    at_time := clock_timestamp();

    -- Both in rounds over the organizations: the first of each, then the second of each, and so on.
    RETURN QUERY
    WITH facts AS MATERIALIZED (
        SELECT * FROM connect.notification_facts
    ),
    healed AS MATERIALIZED (
        SELECT
            n.id, n.organization_id,
            row_number() OVER (PARTITION BY n.organization_id ORDER BY n.id) AS turn
        FROM connect.system_notifications n
        WHERE n.resolved_at IS NULL AND NOT EXISTS (SELECT FROM facts f WHERE f.about = n.about)
        ORDER BY turn, n.organization_id
        LIMIT page + 1
    ),
    closed AS (
        UPDATE connect.system_notifications n
        SET resolved_at = at_time
        FROM (SELECT * FROM healed ORDER BY turn, organization_id LIMIT page) h
        WHERE n.id = h.id AND n.organization_id IS NOT DISTINCT FROM h.organization_id
        RETURNING 1
    ),
    fresh AS MATERIALIZED (
        SELECT
            f.*, row_number() OVER (PARTITION BY f.organization_id ORDER BY f.since, f.subject_id) AS turn
        FROM facts f
        WHERE NOT EXISTS (
            SELECT FROM connect.system_notifications n WHERE n.about = f.about AND n.resolved_at IS NULL
        )
        ORDER BY turn, f.organization_id
        LIMIT page + 1
    ),
    texts AS (
        SELECT DISTINCT ON (x.kind) x.kind, x.severity, x.title, x.body
        FROM connect.notification_texts x
        ORDER BY x.kind, x.language = current_setting('connect.language', true) DESC NULLS LAST,
            x.language = 'pt-BR' DESC, x.language
    ),
    made AS (
        INSERT INTO connect.system_notifications (
            about, organization_id, kind, severity, title, body, subject_kind, subject_id, since, first_seen_at
        )
        SELECT
            f.about, f.organization_id, f.kind,
            -- a kind that nobody has written a text for is told all the same
            coalesce(t.severity, 'warn'), coalesce(t.title, f.kind), coalesce(t.body, ''),
            f.subject_kind, f.subject_id, f.since, at_time
        FROM fresh f
        LEFT JOIN texts t ON t.kind = f.kind
        ORDER BY f.turn, f.organization_id
        LIMIT page
        ON CONFLICT (about) WHERE resolved_at IS NULL DO NOTHING
        RETURNING 1
    )
    SELECT
        (SELECT count(*) FROM made), (SELECT count(*) FROM closed),
        (SELECT count(*) FROM fresh) > page OR (SELECT count(*) FROM healed) > page;
END
$$;

COMMENT ON FUNCTION connect.rebuild_all_system_notifications(integer) IS
    'Opens what is true, resolves what has healed, leaves the rest; at most `most` of each, then `more` says whether to call again. Texts in the language of the session''s connect.language';
