-- What group links need besides their queue: who may ask for them, with whose number they are sent, and an
-- index for those that look as if they were still being sent.
-- depends: rajada-0002-schema

SET LOCAL lock_timeout = '10s';

CREATE TABLE IF NOT EXISTS rajada.tokens (
    id text PRIMARY KEY CHECK (id ~ '^[0-9a-z]{10,32}$'),
    organization_id uuid NOT NULL,
    name text NOT NULL DEFAULT '',
    secret_sha256 bytea NOT NULL CHECK (octet_length(secret_sha256) = 32),
    made_by text,
    made_at timestamptz NOT NULL DEFAULT now(),
    revoked_by text,
    revoked_at timestamptz
);
COMMENT ON TABLE rajada.tokens IS
    'Bearer tokens of the HTTP API, each of one organization; the secret itself is nowhere';

CREATE INDEX IF NOT EXISTS tokens_organization ON rajada.tokens (organization_id);

CREATE TABLE IF NOT EXISTS rajada.whatsapp_numbers (
    organization_id uuid PRIMARY KEY,
    phone_number_id text NOT NULL CHECK (phone_number_id ~ '^[0-9]{1,32}$'),
    access_token text NOT NULL CHECK (access_token ~ '^[!-~]+$'),
    set_by text,
    set_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rajada.whatsapp_numbers IS
    'With which WhatsApp number an organization sends; without a row the number of the settings is used';
REVOKE ALL ON rajada.whatsapp_numbers FROM PUBLIC;

DO $$
BEGIN
    IF to_regclass('group_link_dispatch_queue') IS NOT NULL THEN
        CREATE INDEX IF NOT EXISTS rajada_group_links_processing
            ON group_link_dispatch_queue (updated_at) WHERE status = 'processing';
    END IF;
END
$$;
