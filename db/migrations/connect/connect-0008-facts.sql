-- What is true now and worth a notification: one row a fact, by its identity (spec/reconciler.md, step 2).
-- depends: connect-0006-views connect-0007-notifications

CREATE OR REPLACE VIEW connect.notification_facts AS
WITH facts AS (
    SELECT
        i.organization_id,
        CASE i.state WHEN 'provisioning_failed' THEN 'whatsapp_failed' ELSE 'whatsapp_stuck' END AS kind,
        'whatsapp_instance' AS subject_kind, i.id::text AS subject_id, i.state_since AS since
    FROM connect.whatsapp_instances i
    LEFT JOIN connect.whatsapp_states s ON s.state = i.state
    WHERE i.state IN ('provisioning', 'deprovisioning', 'provisioning_failed')
      AND (i.state = 'provisioning_failed' OR i.state_since <= clock_timestamp() - s.stuck_after)
    UNION ALL
    SELECT u.organization_id, 'whatsapp_state_unknown', 'whatsapp_state', u.state, u.since
    FROM connect.whatsapp_unknown_states u
    UNION ALL
    SELECT d.organization_id, 'dead_letters_open', 'dead_letters', '', d.since
    FROM connect.dead_letters d
    WHERE d.letters >= (SELECT l.value FROM connect.limits l WHERE l.name = 'dead_letters')
    UNION ALL
    SELECT j.organization_id, 'job_running_too_long', 'job', j.job_id::text, j.since
    FROM connect.oldest_running_jobs j
    WHERE j.since < clock_timestamp()
        - make_interval(secs => (SELECT l.value FROM connect.limits l WHERE l.name = 'running_job'))
    UNION ALL
    SELECT
        NULL::uuid,
        CASE WHEN c.wal_status IN ('absent', 'lost') THEN 'cdc_slot_lost' ELSE 'cdc_slot_lagging' END,
        'slot', c.slot, NULL::timestamptz
    FROM connect.cdc_slots c
    WHERE c.wal_status IN ('absent', 'lost', 'unreserved')
       OR c.lag_mib >= (SELECT l.value FROM connect.limits l WHERE l.name = 'slot_lag')
    UNION ALL
    SELECT NULL::uuid, 'no_heartbeat', 'process', h.process, h.alive_until
    FROM connect.heartbeats h
    WHERE h.alive_until < clock_timestamp()
        - make_interval(secs => (SELECT l.value FROM connect.limits l WHERE l.name = 'heartbeat'))
)
SELECT
    md5(coalesce(f.organization_id::text, '') || ':' || f.kind || ':' || f.subject_id)::uuid AS about,
    f.organization_id, f.kind, f.subject_kind, f.subject_id, f.since
FROM facts f;
COMMENT ON VIEW connect.notification_facts IS
    'What should be open now; about = organization, kind and subject in one. No limit row = that fact is never told';
