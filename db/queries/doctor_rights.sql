-- Which of the rights that a role should have it has not; what they are on may be missing, which others tell.
-- Parameters: role text; kinds, names, privileges, columns text[], as db.roles.rights.Right has them.
-- Rows: (kind text, name text, privilege text, "column" text).
SELECT r.kind, r.name, r.privilege, r."column"
FROM unnest(%(kinds)s::text[], %(names)s::text[], %(privileges)s::text[], %(columns)s::text[])
    AS r (kind, name, privilege, "column")
WHERE NOT CASE r.kind
    WHEN 'table' THEN to_regclass(r.name) IS NULL OR CASE r."column"
        WHEN '' THEN has_table_privilege(%(role)s, to_regclass(r.name), r.privilege)
        ELSE has_column_privilege(%(role)s, to_regclass(r.name), r."column", r.privilege)
    END
    WHEN 'tables' THEN NOT EXISTS (
        SELECT FROM pg_class c
        WHERE c.relnamespace = to_regnamespace(r.name) AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
          AND NOT has_table_privilege(%(role)s, c.oid, r.privilege)
    )
    WHEN 'schema' THEN
        to_regnamespace(r.name) IS NULL OR has_schema_privilege(%(role)s, to_regnamespace(r.name)::oid, r.privilege)
    WHEN 'sequence' THEN
        to_regclass(r.name) IS NULL OR has_sequence_privilege(%(role)s, to_regclass(r.name), r.privilege)
    ELSE
        to_regprocedure(r.name) IS NULL
        OR has_function_privilege(%(role)s, to_regprocedure(r.name)::oid, r.privilege)
END;
