-- The CRM's own tables: versions of AI agents, and routers over them.
-- depends: crm-0001-conversations

CREATE TABLE IF NOT EXISTS ai_agent_versions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    agent_id uuid NOT NULL REFERENCES ai_agents (id) ON DELETE CASCADE,
    channel_session_id uuid REFERENCES channel_sessions (id) ON DELETE SET NULL,
    status text NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'published', 'superseded')),
    inbound_debounce_ms integer,
    followup jsonb,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS ai_agent_versions_agent ON ai_agent_versions (agent_id);
CREATE INDEX IF NOT EXISTS ai_agent_versions_session
    ON ai_agent_versions (channel_session_id) WHERE status = 'published';

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conname = 'ai_agents_published_version') THEN
        ALTER TABLE ai_agents ADD CONSTRAINT ai_agents_published_version
            FOREIGN KEY (published_version_id) REFERENCES ai_agent_versions (id) ON DELETE SET NULL;
    END IF;
END
$$;

CREATE TABLE IF NOT EXISTS ai_routers (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    channel_session_id uuid REFERENCES channel_sessions (id) ON DELETE SET NULL,
    is_active boolean NOT NULL DEFAULT true,
    fallback_agent_id uuid REFERENCES ai_agents (id) ON DELETE SET NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS ai_routers_session ON ai_routers (channel_session_id) WHERE is_active;

CREATE TABLE IF NOT EXISTS ai_router_members (
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    router_id uuid NOT NULL REFERENCES ai_routers (id) ON DELETE CASCADE,
    agent_id uuid NOT NULL REFERENCES ai_agents (id) ON DELETE CASCADE,
    PRIMARY KEY (router_id, agent_id)
);

CREATE INDEX IF NOT EXISTS ai_router_members_agent ON ai_router_members (agent_id);
