-- The instances. Where a CRM keeps its own, this may be a view over its table, made before this file runs
-- (docs/reconciler.md): then indexes and triggers are the table's business.
-- depends: connect-0001-schema

CREATE TABLE IF NOT EXISTS connect.whatsapp_instances (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL,
    provider_ref text,
    state text NOT NULL DEFAULT 'provisioning',
    state_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    locked_until timestamptz,
    locked_by text,
    fencing_token bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS connect.whatsapp_moves (
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    organization_id uuid NOT NULL,
    instance_id uuid NOT NULL,
    from_state text NOT NULL,
    to_state text NOT NULL,
    reason text NOT NULL,
    firing uuid NOT NULL,
    token bigint NOT NULL,
    PRIMARY KEY (instance_id, token)
);
COMMENT ON TABLE connect.whatsapp_moves IS
    'Every move that the reconciler made, and why: one by each lease at most; kept 90 days';

-- a log is written in the order of its time
CREATE INDEX IF NOT EXISTS whatsapp_moves_at ON connect.whatsapp_moves USING brin (at);

DO $$
BEGIN
    IF (SELECT c.relkind FROM pg_class c WHERE c.oid = 'connect.whatsapp_instances'::regclass) <> 'r' THEN
        RETURN;
    END IF;
    COMMENT ON TABLE connect.whatsapp_instances IS
        'One row an instance. state_since = when it came into its state; a lease = locked_until, locked_by, token';
    -- a lease changes no index, so it can stay on its page, if there is room for it
    ALTER TABLE connect.whatsapp_instances SET (fillfactor = 50);
    -- whose turn it is, and of each the oldest first
    CREATE INDEX IF NOT EXISTS whatsapp_instances_under_way
        ON connect.whatsapp_instances (organization_id, state_since, id)
        WHERE state IN ('provisioning', 'deprovisioning');
    CREATE INDEX IF NOT EXISTS whatsapp_instances_state
        ON connect.whatsapp_instances (state, organization_id);
END
$$;
