-- Whether an event log can be seen, and whether the database holds any table or view that isn't ours.
SELECT to_regclass('event_log') IS NOT NULL AS has_log,
       EXISTS (
           SELECT 1
           FROM pg_class c
           JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
             AND n.nspname NOT IN ('information_schema', 'rajada', 'pg_catalog', 'pg_toast')
             AND n.nspname NOT LIKE 'pg\_temp\_%'
             -- views that an extension brought say nothing about a CRM
             AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
                             AND d.objid = c.oid AND d.deptype = 'e')
       ) AS has_any
