-- Signs of life of Debezium's connectors. Each is a change in the log of changes, too, with which a connector
-- advances its slot although no event is written.
-- depends: rajada-0002-schema

CREATE TABLE IF NOT EXISTS rajada.heartbeats (
    slot text PRIMARY KEY,
    beats bigint NOT NULL DEFAULT 0,
    beat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    every_ms bigint NOT NULL
);
COMMENT ON TABLE rajada.heartbeats IS
    'Slots that a connector of ours reads, and when it last gave a sign of life; every_ms = how often it shall';
