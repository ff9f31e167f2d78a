-- The CRM's own tables: follow-up flows, their versions, and who is enrolled in them.
-- depends: crm-0001-conversations

CREATE TABLE IF NOT EXISTS followup_flow_pointers (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    status text NOT NULL DEFAULT 'draft',
    active_version_id uuid,
    trigger_config jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS followup_flow_pointers_active
    ON followup_flow_pointers (organization_id) WHERE status = 'active';

CREATE TABLE IF NOT EXISTS followup_flow_versions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    pointer_id uuid REFERENCES followup_flow_pointers (id) ON DELETE CASCADE,
    graph jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conname = 'followup_flow_pointers_active_version') THEN
        ALTER TABLE followup_flow_pointers ADD CONSTRAINT followup_flow_pointers_active_version
            FOREIGN KEY (active_version_id) REFERENCES followup_flow_versions (id) ON DELETE SET NULL;
    END IF;
END
$$;

CREATE TABLE IF NOT EXISTS followup_enrollments (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    pointer_id uuid NOT NULL REFERENCES followup_flow_pointers (id) ON DELETE CASCADE,
    version_id uuid REFERENCES followup_flow_versions (id) ON DELETE SET NULL,
    contact_id uuid NOT NULL REFERENCES contacts (id) ON DELETE CASCADE,
    conversation_id uuid REFERENCES conversations (id) ON DELETE CASCADE,
    status text NOT NULL DEFAULT 'active',
    started_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS followup_enrollments_contact ON followup_enrollments (organization_id, contact_id);
CREATE INDEX IF NOT EXISTS followup_enrollments_pointer ON followup_enrollments (pointer_id);

CREATE TABLE IF NOT EXISTS followup_enrollment_events (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    enrollment_id uuid NOT NULL REFERENCES followup_enrollments (id) ON DELETE CASCADE,
    event_type text NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS followup_enrollment_events_enrollment
    ON followup_enrollment_events (enrollment_id, event_type);
