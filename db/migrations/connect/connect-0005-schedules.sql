-- Who fires when: one row a schedule, which is also the lease of the run under way, and one row a firing.
-- depends: connect-0001-schema

CREATE TABLE IF NOT EXISTS connect.schedules (
    name text PRIMARY KEY,
    seed uuid NOT NULL DEFAULT gen_random_uuid(),
    version bigint NOT NULL DEFAULT 0,
    settled timestamptz,
    firing uuid,
    run_until timestamptz NOT NULL DEFAULT '-infinity',
    fired bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    missed bigint NOT NULL DEFAULT 0,
    looked_at timestamptz
);
COMMENT ON TABLE connect.schedules IS
    'settled = the newest tick that was fired, skipped (a run was going on) or missed (nobody was there). run_until = the lease of the run under way, or when the last one ended. version = for compare-and-set. seed = of the jitter';

CREATE TABLE IF NOT EXISTS connect.firings (
    id uuid PRIMARY KEY,
    schedule text NOT NULL,
    tick timestamptz,
    kind text NOT NULL CHECK (kind IN ('tick', 'late', 'asked', 'once')),
    owner text NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    state text NOT NULL DEFAULT 'running'
        CHECK (state IN ('running', 'done', 'failed', 'stopped', 'lost')),
    reserved bigint NOT NULL DEFAULT 0,
    moved bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    opened bigint NOT NULL DEFAULT 0,
    resolved bigint NOT NULL DEFAULT 0,
    facts jsonb NOT NULL DEFAULT '{}',
    error text,
    CONSTRAINT firings_tick UNIQUE (schedule, tick)
);
COMMENT ON TABLE connect.firings IS
    'Every run, by the tick that it was fired for (null: somebody asked for it), and what it did; kept 90 days';

CREATE INDEX IF NOT EXISTS firings_began ON connect.firings (schedule, began_at);
CREATE INDEX IF NOT EXISTS firings_running ON connect.firings (schedule) WHERE state = 'running';

CREATE TABLE IF NOT EXISTS connect.requests (
    id uuid PRIMARY KEY,
    schedule text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    firing uuid
);
COMMENT ON TABLE connect.requests IS 'Runs that were asked for by hand; one firing serves all that wait; kept 90 days';

CREATE INDEX IF NOT EXISTS requests_waiting ON connect.requests (schedule) WHERE firing IS NULL;
