-- From now on a connector's signs of life are expected.
-- Parameters: slot (text), every_ms (bigint). No rows.
INSERT INTO rajada.heartbeats AS h (slot, every_ms)
VALUES (%(slot)s, %(every_ms)s)
ON CONFLICT (slot) DO UPDATE SET every_ms = excluded.every_ms;
