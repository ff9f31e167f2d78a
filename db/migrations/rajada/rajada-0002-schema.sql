-- Schema `rajada`: what happened to each event and job, sweeps, replays, the sink's offsets, settings.

CREATE SCHEMA IF NOT EXISTS rajada;

CREATE TABLE IF NOT EXISTS rajada.meta (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    installed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE rajada.meta IS 'One row: since when this database is served; the sweep takes no older rows';

INSERT INTO rajada.meta DEFAULT VALUES ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS rajada.trace (
    at timestamptz NOT NULL,
    organization_id uuid,
    contact_id uuid,
    conversation_id uuid,
    message_id uuid,
    event_id uuid,
    job_id uuid,
    replay bigint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    stage text NOT NULL,
    status text,
    outcome text,
    facts jsonb
) PARTITION BY RANGE (at);
COMMENT ON TABLE rajada.trace IS 'What happened to each event and job; partitioned by UTC day, kept 30 days';

CREATE TABLE IF NOT EXISTS rajada.trace_default PARTITION OF rajada.trace DEFAULT;

CREATE INDEX IF NOT EXISTS trace_event ON rajada.trace (event_id, at) WHERE event_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS trace_job ON rajada.trace (job_id, at) WHERE job_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS trace_message ON rajada.trace (message_id, at) WHERE message_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS trace_contact ON rajada.trace (contact_id, at) WHERE contact_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS rajada.swept (
    event_id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    sweeps integer NOT NULL DEFAULT 1,
    first_swept_at timestamptz NOT NULL DEFAULT now(),
    last_swept_at timestamptz NOT NULL DEFAULT now(),
    next_sweep_at timestamptz NOT NULL
);
COMMENT ON TABLE rajada.swept IS 'Events that the sweep published again; backoff 5 min doubling to 6 h';

CREATE INDEX IF NOT EXISTS swept_next ON rajada.swept (next_sweep_at);

CREATE TABLE IF NOT EXISTS rajada.replays (
    replay bigint PRIMARY KEY,
    command text NOT NULL,
    selection jsonb NOT NULL DEFAULT '{}',
    progress jsonb NOT NULL DEFAULT '{}',
    started_by text,
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);
COMMENT ON TABLE rajada.replays IS 'Runs of replay and requeue; the number is stored before the first record';

CREATE TABLE IF NOT EXISTS rajada.sink_offsets (
    topic_id text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition)
);
COMMENT ON TABLE rajada.sink_offsets IS 'How far the sink applied dispatch.outcomes; advanced by compare-and-set';

CREATE TABLE IF NOT EXISTS rajada.windows_settings (
    organization_id uuid NOT NULL,
    agent_id uuid,
    mode text CHECK (mode IN ('fixed', 'sliding')),
    max_wait_ms integer CHECK (max_wait_ms BETWEEN 1000 AND 3600000),
    max_events integer CHECK (max_events >= 1),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT windows_settings_scope UNIQUE NULLS NOT DISTINCT (organization_id, agent_id)
);
COMMENT ON TABLE rajada.windows_settings IS 'Per organization (agent_id null) or agent; null = the installation default';

CREATE TABLE IF NOT EXISTS rajada.relay (
    slot text PRIMARY KEY,
    confirmed_lsn pg_lsn,
    confirmed_commit_at timestamptz,
    backfill_since timestamptz,
    slots_made integer NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rajada.relay IS 'How far the relay came; backfill_since is set while rows before the slot are still to be published';
