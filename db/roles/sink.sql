-- The sink writes what became of events and jobs, alerts, and the trace. Of an event it changes what came of it, and
-- nothing that the CRM has written.
GRANT SELECT ON organizations, channel_sessions, contacts, event_log TO {role};
GRANT UPDATE (
    status, outcome, job_id, attempts, last_error, next_attempt_at, consumed_by, outcome_replay, outcome_seq, updated_at
) ON event_log TO {role};
GRANT SELECT, INSERT, UPDATE ON job_queue, agent_inbox_items TO {role};
GRANT USAGE ON SCHEMA rajada TO {role};
GRANT SELECT ON
    rajada.closed_letters, rajada.dropped, rajada.heartbeats, rajada.meta, rajada.orders, rajada.relay
TO {role};
GRANT UPDATE (slots_told) ON rajada.relay TO {role};
GRANT SELECT, INSERT ON rajada.trace TO {role};
GRANT SELECT, INSERT, UPDATE ON rajada.leases, rajada.sink_offsets TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON rajada.troubles TO {role};
GRANT EXECUTE ON FUNCTION
    rajada.make_trace_partitions(date, integer), rajada.drop_trace_partitions(integer)
TO {role};
DO $$
BEGIN
    IF to_regclass('group_link_dispatch_queue') IS NOT NULL THEN
        -- old ones are removed once they have ended (RAJADA_GROUP_LINKS_SENT_DAYS, _FAILED_DAYS)
        GRANT SELECT, UPDATE, DELETE ON group_link_dispatch_queue TO {role};
    END IF;
END
$$;
