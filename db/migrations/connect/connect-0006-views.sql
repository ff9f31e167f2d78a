-- What the reconciler knows of the rest of the system: views, so that it reads nothing else of others.
-- Made again whenever this file changes; a CRM may put its own in their place.
-- depends: connect-0002-instances connect-0005-schedules

CREATE OR REPLACE VIEW connect.whatsapp_unknown_states AS
WITH RECURSIVE states AS (
    -- one look-up of the index a state, however many instances there are
    (SELECT i.state FROM connect.whatsapp_instances i ORDER BY i.state LIMIT 1)
    UNION ALL
    SELECT (
        SELECT i.state FROM connect.whatsapp_instances i WHERE i.state > s.state ORDER BY i.state LIMIT 1
    )
    FROM states s WHERE s.state IS NOT NULL
)
SELECT i.organization_id, i.state, count(*) AS instances, min(i.state_since) AS since
FROM states s
JOIN connect.whatsapp_instances i ON i.state = s.state
WHERE NOT EXISTS (SELECT FROM connect.whatsapp_states k WHERE k.state = s.state)
GROUP BY i.organization_id, i.state;
COMMENT ON VIEW connect.whatsapp_unknown_states IS 'Instances in a state that we do not know: left alone, reported';

CREATE OR REPLACE VIEW connect.dead_letters AS
SELECT t.organization_id, count(*) AS letters, min(t.said_at) AS since
FROM rajada.troubles t
WHERE t.about IN ('event', 'job') AND t.kind IN ('event_dead', 'job_dead')
GROUP BY t.organization_id;
COMMENT ON VIEW connect.dead_letters IS 'Events and jobs that died and that nobody has requeued or dropped yet';

CREATE OR REPLACE VIEW connect.cdc_slots AS
WITH slots AS (
    SELECT
        s.slot_name::text AS slot, coalesce(s.wal_status, 'reserved') AS wal_status,
        greatest(pg_current_wal_lsn() - s.restart_lsn, 0)::double precision / 1048576 AS lag_mib
    FROM pg_replication_slots s
    WHERE s.database = current_database() AND s.plugin = 'pgoutput'
)
SELECT slot, wal_status, lag_mib FROM slots
UNION ALL
-- the relay has made one, and now there is none
SELECT r.slot, 'absent', NULL
FROM rajada.relay r
WHERE r.slots_made > 0 AND NOT EXISTS (SELECT FROM slots);
COMMENT ON VIEW connect.cdc_slots IS 'The replication slots of this database, and how much WAL each holds back';

CREATE OR REPLACE VIEW connect.oldest_running_jobs AS
SELECT DISTINCT ON (j.organization_id) j.organization_id, j.id AS job_id, j.locked_at AS since
FROM job_queue j
WHERE j.status = 'running' AND j.locked_at IS NOT NULL
ORDER BY j.organization_id, j.locked_at, j.id;
COMMENT ON VIEW connect.oldest_running_jobs IS 'Of each organization, the job that has been running for longest';

CREATE OR REPLACE VIEW connect.heartbeats AS
SELECT p.process, greatest(l.held_until, l.rests_until) AS alive_until
FROM rajada.leases l
JOIN (VALUES ('sweep', 'worker'), ('alerts', 'sink')) AS p (lease, process) ON p.lease = l.name
UNION ALL
SELECT 'reconciler', max(s.looked_at) FROM connect.schedules s HAVING max(s.looked_at) IS NOT NULL;
COMMENT ON VIEW connect.heartbeats IS
    'Until when each process was surely alive, by what it does every minute; one that was never seen is not there';
