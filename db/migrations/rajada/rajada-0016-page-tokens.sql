-- Who may open the live page: tokens of people, apart from those of programs.
-- depends: rajada-0011-group-links

CREATE TABLE IF NOT EXISTS rajada.page_tokens (
    id text PRIMARY KEY CHECK (id ~ '^[0-9a-z]{10,32}$'),
    name text NOT NULL DEFAULT '',
    role text NOT NULL CHECK (role IN ('reader', 'operator')),
    sees_phones boolean NOT NULL DEFAULT false,
    organization_id uuid,
    secret_sha256 bytea NOT NULL CHECK (octet_length(secret_sha256) = 32),
    made_by text,
    made_at timestamptz NOT NULL DEFAULT now(),
    revoked_by text,
    revoked_at timestamptz
);
COMMENT ON TABLE rajada.page_tokens IS
    'Who may open the live page; organization_id null = sees all of them; the secret itself is nowhere';
