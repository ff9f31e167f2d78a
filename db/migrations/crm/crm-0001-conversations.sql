-- The CRM's own tables: tenants, channels, contacts, conversations, messages.
-- Only for the embedded default and the tests; an existing CRM brings its own (spec/dispatch.md, tables).

CREATE TABLE IF NOT EXISTS organizations (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'active',
    settings jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS channel_sessions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'WORKING',
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS channel_sessions_organization ON channel_sessions (organization_id);

CREATE TABLE IF NOT EXISTS contacts (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name text,
    phone_number text,
    force_human boolean NOT NULL DEFAULT false,
    is_blocked boolean NOT NULL DEFAULT false,
    tags text[] NOT NULL DEFAULT '{}',
    ai_authorized_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS contacts_organization_phone ON contacts (organization_id, phone_number);

CREATE TABLE IF NOT EXISTS ai_agents (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name text NOT NULL DEFAULT '',
    priority integer NOT NULL DEFAULT 0,
    operation_mode text NOT NULL DEFAULT 'automatic' CHECK (operation_mode IN ('automatic', 'assisted')),
    archived_at timestamptz,
    paused_at timestamptz,
    published_version_id uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS ai_agents_organization ON ai_agents (organization_id) WHERE archived_at IS NULL;

CREATE TABLE IF NOT EXISTS conversations (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    contact_id uuid REFERENCES contacts (id) ON DELETE CASCADE,
    channel_session_id uuid REFERENCES channel_sessions (id) ON DELETE CASCADE,
    is_group boolean DEFAULT false,
    assignee_kind text,
    bot_silenced_until timestamptz,
    active_ai_agent_id uuid REFERENCES ai_agents (id) ON DELETE SET NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS conversations_contact ON conversations (organization_id, contact_id);
CREATE INDEX IF NOT EXISTS conversations_session ON conversations (channel_session_id);

CREATE TABLE IF NOT EXISTS messages (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    conversation_id uuid NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    channel_session_id uuid REFERENCES channel_sessions (id) ON DELETE SET NULL,
    contact_id uuid REFERENCES contacts (id) ON DELETE SET NULL,
    type text NOT NULL DEFAULT 'text',
    direction text NOT NULL CHECK (direction IN ('inbound', 'outbound')),
    content text,
    media_url text,
    media_derived_status text
        CHECK (media_derived_status IN ('pending', 'processing', 'ready', 'failed', 'skipped')),
    sent_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS messages_conversation
    ON messages (organization_id, conversation_id, (coalesce(sent_at, created_at)) DESC, created_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS messages_media ON messages (conversation_id, created_at DESC)
    WHERE direction = 'inbound' AND media_url IS NOT NULL;
CREATE INDEX IF NOT EXISTS messages_contact ON messages (contact_id, (coalesce(sent_at, created_at)) DESC)
    WHERE direction = 'inbound';
