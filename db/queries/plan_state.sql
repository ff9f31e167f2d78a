-- What of our additions a database has already.
-- Parameters: tables (text[], found by the search path).
-- Rows: (kind text, name text): `table` name; `column` table.column; `trigger` name; `index` name;
-- `ours` table of schema rajada; `connect` table (or a CRM's view in its place) of schema connect; `setting`
-- name=value.
WITH there AS (
    SELECT t.name, to_regclass(t.name) AS oid FROM unnest(%(tables)s::text[]) AS t (name)
)
SELECT 'table', name FROM there WHERE oid IS NOT NULL
UNION ALL
SELECT 'column', there.name || '.' || a.attname
FROM there JOIN pg_attribute a ON a.attrelid = there.oid
WHERE a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'trigger', g.tgname FROM there JOIN pg_trigger g ON g.tgrelid = there.oid
UNION ALL
SELECT 'index', c.relname
FROM there JOIN pg_index i ON i.indrelid = there.oid JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indisvalid
UNION ALL
SELECT 'ours', c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'rajada' AND c.relkind IN ('r', 'p')
UNION ALL
SELECT 'connect', c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'connect' AND c.relkind IN ('r', 'p', 'v')
UNION ALL
SELECT 'setting', name || '=' || setting
FROM pg_settings WHERE name IN ('wal_level', 'max_slot_wal_keep_size');
