-- What a publication says of a table. Parameters: name (text), table (text, found by the search path).
-- Rows: none when there is no such publication, else one of (inserts bool, has_table bool, row_filter text
-- or null, whole_rows bool: no column is left out).
SELECT
    p.pubinsert,
    t.tablename IS NOT NULL,
    t.rowfilter,
    coalesce(cardinality(t.attnames) >= (
        SELECT count(*) FROM pg_attribute a
        WHERE a.attrelid = to_regclass(%(table)s) AND a.attnum > 0 AND NOT a.attisdropped
          AND a.attgenerated = ''
    ), true)
FROM pg_publication p
LEFT JOIN pg_publication_tables t
    ON t.pubname = p.pubname
    -- by name: a role that may see little can't ask for every table of the view
    AND (t.schemaname, t.tablename) = (
        SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = to_regclass(%(table)s)
    )
WHERE p.pubname = %(name)s;
