-- The open notifications are made to be what is true (spec/reconciler.md, step 2). What is open and still true is
-- not touched at all, so that doing it twice is doing it once.
-- depends: connect-0008-facts

CREATE OR REPLACE FUNCTION connect.rebuild_all_system_notifications(most integer DEFAULT NULL)
RETURNS TABLE (opened bigint, resolved bigint, more boolean)
LANGUAGE plpgsql SET work_mem = '64MB' AS $$
#variable_conflict use_column
DECLARE
    at_time timestamptz;
    closed bigint;
    made bigint;
BEGIN
    -- One at a time; who waited here sees what the one before wrote.
    PERFORM pg_advisory_xact_lock(hashtext('connect.system_notifications'));
    at_time := clock_timestamp();

    -- Both in rounds over the organizations: the first of each, then the second of each, and so on.
    WITH healed AS (
        SELECT n.id, n.organization_id
        FROM connect.system_notifications n
        WHERE n.resolved_at IS NULL
          AND NOT EXISTS (SELECT FROM connect.notification_facts f WHERE f.about = n.about)
        ORDER BY row_number() OVER (PARTITION BY n.organization_id ORDER BY n.id), n.organization_id
        LIMIT most
    )
    UPDATE connect.system_notifications n
    SET resolved_at = at_time
    FROM healed h
    WHERE n.id = h.id AND n.organization_id IS NOT DISTINCT FROM h.organization_id;
    GET DIAGNOSTICS closed = ROW_COUNT;

    WITH texts AS (
        SELECT DISTINCT ON (x.kind) x.kind, x.severity, x.title, x.body
        FROM connect.notification_texts x
        ORDER BY x.kind, x.language = current_setting('connect.language', true) DESC NULLS LAST,
            x.language = 'pt-BR' DESC, x.language
    )
    INSERT INTO connect.system_notifications (
        about, organization_id, kind, severity, title, body, subject_kind, subject_id, since, first_seen_at
    )
    SELECT
        f.about, f.organization_id, f.kind,
        -- a kind that nobody has written a text for is told all the same
        coalesce(t.severity, 'warn'), coalesce(t.title, f.kind), coalesce(t.body, ''),
        f.subject_kind, f.subject_id, f.since, at_time
    FROM connect.notification_facts f
    LEFT JOIN texts t ON t.kind = f.kind
    WHERE NOT EXISTS (
        SELECT FROM connect.system_notifications n WHERE n.about = f.about AND n.resolved_at IS NULL
    )
    ORDER BY row_number() OVER (PARTITION BY f.organization_id ORDER BY f.since, f.subject_id), f.organization_id
    LIMIT most
    ON CONFLICT (about) WHERE resolved_at IS NULL DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;

    RETURN QUERY SELECT made, closed, coalesce(made = most OR closed = most, false);
END
$$;

COMMENT ON FUNCTION connect.rebuild_all_system_notifications(integer) IS
    'Opens what is true, resolves what has healed, leaves the rest; at most `most` of each, then `more` says whether to call again. Texts in the language of the session''s connect.language';
