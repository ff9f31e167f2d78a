-- Who has just woken up can't tell how long others have been silent: after an outage of everything they are given
-- the time to be heard of. And what a rebuild may wait for another one is longer than for a row.
-- depends: connect-0006-views connect-0009-rebuild

ALTER TABLE connect.schedules ADD COLUMN IF NOT EXISTS awake_since timestamptz;
COMMENT ON COLUMN connect.schedules.awake_since IS 'Since when some reconciler has looked at it without a pause';

CREATE OR REPLACE VIEW connect.heartbeats AS
SELECT
    p.process,
    greatest(l.held_until, l.rests_until, (SELECT max(s.awake_since) FROM connect.schedules s)) AS alive_until
FROM rajada.leases l
JOIN (VALUES ('sweep', 'worker'), ('alerts', 'sink')) AS p (lease, process) ON p.lease = l.name
UNION ALL
SELECT 'reconciler', max(s.looked_at) FROM connect.schedules s HAVING max(s.looked_at) IS NOT NULL;
COMMENT ON VIEW connect.heartbeats IS
    'Until when each process was surely alive, by what it does every minute, or could not be heard; one that was never seen is not there';

ALTER FUNCTION connect.rebuild_all_system_notifications(integer) SET lock_timeout = '30s';
