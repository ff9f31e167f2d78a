-- Schema `connect`: WhatsApp instances that got stuck, the schedule of their reconciliation, and the hub of
-- notifications (spec/reconciler.md). What decides stands in rows, since the functions run from any session.
-- depends: rajada-0010-running-jobs

CREATE SCHEMA IF NOT EXISTS connect;

CREATE TABLE IF NOT EXISTS connect.whatsapp_states (
    state text PRIMARY KEY,
    stuck_after interval CHECK (stuck_after > interval '0'),
    CHECK (stuck_after IS NULL OR state IN ('provisioning', 'deprovisioning'))
);
COMMENT ON TABLE connect.whatsapp_states IS
    'The states that we know; any other is left alone and reported. stuck_after = how long it may take';

INSERT INTO connect.whatsapp_states (state, stuck_after)
VALUES
    ('provisioning', interval '15 minutes'),
    ('connected', NULL),
    ('provisioning_failed', NULL),
    ('deprovisioning', interval '30 minutes'),
    ('archived', NULL)
ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS connect.limits (
    name text PRIMARY KEY,
    value double precision NOT NULL CHECK (value > 0),
    unit text NOT NULL,
    meaning text NOT NULL
);
COMMENT ON TABLE connect.limits IS 'From where on a fact is worth a notification';

INSERT INTO connect.limits (name, value, unit, meaning)
VALUES
    ('dead_letters', 1, 'letters', 'open dead letters of an organization'),
    ('slot_lag', 1024, 'MiB', 'WAL that a replication slot holds back'),
    ('running_job', 3600, 's', 'how long a job has been running'),
    ('heartbeat', 600, 's', 'for how long a process has not been heard of')
ON CONFLICT DO NOTHING;

CREATE SEQUENCE IF NOT EXISTS connect.fencing_tokens;
COMMENT ON SEQUENCE connect.fencing_tokens IS 'Each lease has a greater token than all before it';

CREATE TABLE IF NOT EXISTS connect.turns (
    work text PRIMARY KEY,
    organization_id uuid
);
COMMENT ON TABLE connect.turns IS 'Whose turn was last; the next call begins behind it';

INSERT INTO connect.turns (work) VALUES ('whatsapp_instances') ON CONFLICT DO NOTHING;
