-- Leases: work that one process at a time may do, by the database's clock.
-- depends: rajada-0002-schema

CREATE TABLE IF NOT EXISTS rajada.leases (
    name text PRIMARY KEY,
    holder text NOT NULL,
    held_until timestamptz NOT NULL,
    rests_until timestamptz NOT NULL
);
COMMENT ON TABLE rajada.leases IS
    'Who may do what now; after rests_until the next round may begin, whoever makes it';
