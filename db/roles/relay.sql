-- The relay reads the log and keeps notes of how far it is. That it may read the WAL is the attribute REPLICATION.
-- The publication is made by the log's owner (`rajada roles --apply`), so that the relay needs to own nothing.
-- attributes: REPLICATION
GRANT SELECT ON event_log TO {role};
GRANT USAGE ON SCHEMA rajada TO {role};
GRANT SELECT ON rajada.meta TO {role};
GRANT SELECT, INSERT, UPDATE ON rajada.relay TO {role};
