-- Move leased instances on: each only if its token and state are still those that were seen.
-- Parameters, arrays of one length: ids, organizations uuid[], tokens bigint[], seen, wanted, reasons text[];
-- firing uuid. Rows: id text of each that was moved.
WITH asked AS (
    SELECT *
    FROM unnest(
        %(ids)s::uuid[], %(organizations)s::uuid[], %(tokens)s::bigint[], %(seen)s::text[],
        %(wanted)s::text[], %(reasons)s::text[]
    ) AS a (id, organization_id, token, seen, wanted, reason)
),
moved AS (
    UPDATE connect.whatsapp_instances i
    SET state = a.wanted, state_since = clock_timestamp(), locked_until = NULL, locked_by = NULL,
        fencing_token = nextval('connect.fencing_tokens')
    FROM asked a
    WHERE i.id = a.id AND i.organization_id = a.organization_id
      AND i.fencing_token = a.token AND i.state = a.seen
    RETURNING a.*
)
INSERT INTO connect.whatsapp_moves (
    organization_id, instance_id, from_state, to_state, reason, firing, token
)
SELECT m.organization_id, m.id, m.seen, m.wanted, m.reason, %(firing)s, m.token
FROM moved m
RETURNING instance_id::text
