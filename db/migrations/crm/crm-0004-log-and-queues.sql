-- The CRM's own tables: the event log, the job queue, the inbox of alerts, the queue of group links.
-- The log has no foreign keys: it outlives what it tells of.
-- depends: crm-0001-conversations

CREATE TABLE IF NOT EXISTS event_log (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL,
    event_type text NOT NULL,
    entity_kind text,
    entity_id uuid,
    payload jsonb NOT NULL DEFAULT '{}',
    metadata jsonb NOT NULL DEFAULT '{}',
    consumed_by text[] NOT NULL DEFAULT '{}',
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    next_attempt_at timestamptz,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'done', 'dead')),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS event_log_due ON event_log (event_type, created_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS event_log_entity ON event_log (organization_id, entity_kind, entity_id);

CREATE TABLE IF NOT EXISTS job_queue (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    contact_id uuid REFERENCES contacts (id) ON DELETE CASCADE,
    kind text NOT NULL,
    source_event_id uuid,
    payload jsonb NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'done', 'failed', 'dead')),
    priority integer NOT NULL DEFAULT 100,
    run_after timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 5,
    last_error text,
    locked_by text,
    locked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT job_queue_source_event UNIQUE (organization_id, source_event_id)
);

CREATE INDEX IF NOT EXISTS job_queue_due ON job_queue (priority, run_after) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS job_queue_contact ON job_queue (contact_id);
-- The reference system has this belt; whoever writes `running` must cope with it.
CREATE UNIQUE INDEX IF NOT EXISTS job_queue_one_running_per_contact
    ON job_queue (contact_id) WHERE status = 'running';

CREATE TABLE IF NOT EXISTS agent_inbox_items (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid REFERENCES organizations (id) ON DELETE CASCADE,
    kind text NOT NULL,
    severity text NOT NULL DEFAULT 'info' CHECK (severity IN ('info', 'warn', 'critical')),
    title text NOT NULL,
    body text,
    ref_kind text,
    ref_id uuid,
    status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'ack', 'resolved')),
    created_at timestamptz NOT NULL DEFAULT now(),
    resolved_at timestamptz
);

CREATE INDEX IF NOT EXISTS agent_inbox_items_open
    ON agent_inbox_items (organization_id, kind, title, created_at DESC);

CREATE TABLE IF NOT EXISTS group_link_dispatch_queue (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    enrolment_id text NOT NULL,
    flow text NOT NULL CHECK (flow IN ('personal', 'business')),
    student_name text NOT NULL DEFAULT '',
    phone text NOT NULL,
    group_link text NOT NULL,
    template_name text NOT NULL,
    template_language text NOT NULL,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'sent', 'failed')),
    attempts integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 5 CHECK (max_attempts >= 1),
    delay_ms bigint NOT NULL DEFAULT 0 CHECK (delay_ms >= 0),
    available_at timestamptz NOT NULL DEFAULT now(),
    provider_message_id text,
    last_error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT group_link_dispatch_queue_enrolment UNIQUE (organization_id, enrolment_id)
);

CREATE INDEX IF NOT EXISTS group_link_dispatch_queue_due
    ON group_link_dispatch_queue (available_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS group_link_dispatch_queue_ended
    ON group_link_dispatch_queue (updated_at) WHERE status IN ('sent', 'failed');
