-- A shadow (docs/shadow.md) reads what decisions are made of, and the old drain's jobs; it writes nothing, anywhere.
-- Made only when it is asked for by name.
GRANT SELECT ON
    organizations, channel_sessions, contacts, conversations, messages, ai_agents, ai_agent_versions, ai_routers,
    ai_router_members, followup_flow_pointers, followup_flow_versions, followup_enrollments,
    followup_enrollment_events, event_log, job_queue
TO {role};
GRANT USAGE ON SCHEMA rajada TO {role};
GRANT SELECT ON rajada.windows_settings TO {role};
