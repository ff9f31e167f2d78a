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
    AND to_regclass(format('%%I.%%I', t.schemaname, t.tablename)) = to_regclass(%(table)s)
WHERE p.pubname = %(name)s;
