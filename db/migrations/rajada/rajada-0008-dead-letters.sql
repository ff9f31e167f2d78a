-- What people did with dead letters, and what they ordered. The letters themselves stay in Kafka.
-- depends: rajada-0002-schema

CREATE TABLE IF NOT EXISTS rajada.closed_letters (
    topic_id text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    topic text NOT NULL,
    how text NOT NULL CHECK (how IN ('requeued', 'parked', 'dropped', 'erased')),
    replay bigint NOT NULL DEFAULT 0,
    about uuid,
    closed_by text,
    closed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition, "offset")
);
COMMENT ON TABLE rajada.closed_letters IS
    'Dead letters that are settled, by their place in Kafka; replay = the run that requeued or parked them';

-- How often an event or a job was requeued: the count towards parking.
CREATE INDEX IF NOT EXISTS closed_letters_about ON rajada.closed_letters (about)
    WHERE about IS NOT NULL AND how = 'requeued';

CREATE TABLE IF NOT EXISTS rajada.dropped (
    entry bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('event', 'job')),
    id uuid NOT NULL,
    organization_id uuid,
    replay bigint NOT NULL DEFAULT 0,
    reason text NOT NULL,
    dropped_by text,
    at timestamptz NOT NULL DEFAULT now(),
    topic text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL
);
COMMENT ON TABLE rajada.dropped IS
    'Who gave up which dead event or job, and why; replay = the one it died with (0 = the original)';

CREATE INDEX IF NOT EXISTS dropped_id ON rajada.dropped (id);

CREATE TABLE IF NOT EXISTS rajada.orders (
    id uuid PRIMARY KEY,
    action text NOT NULL,
    organization_id uuid,
    job_id uuid,
    reason text,
    ordered_by text,
    at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rajada.orders IS 'Who ordered what of jobs; the orders themselves are records of dispatch.control';

CREATE INDEX IF NOT EXISTS orders_job ON rajada.orders (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS orders_at ON rajada.orders (at);
