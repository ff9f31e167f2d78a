-- What a publication publishes now.
-- Parameters: name (text), table (text, found by the search path).
-- Rows: none when there is no such publication, else one of (tables bigint, all_tables boolean,
-- comment text or null, has_table boolean).
SELECT
    (SELECT count(*) FROM pg_publication_rel r WHERE r.prpubid = p.oid) AS tables,
    p.puballtables AS all_tables,
    obj_description(p.oid, 'pg_publication') AS comment,
    EXISTS (
        SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = to_regclass(%(table)s)
    ) AS has_table
FROM pg_publication p
WHERE p.pubname = %(name)s;
