-- Writes rows of the event log in the order given; an id that is there already is left as it is.
-- Parameters, arrays of one length: ids uuid[], organizations uuid[], event_types text[], entity_kinds text[]
--   (or null), entity_ids uuid[] (or null), payloads text[] (JSON), metadata text[] (JSON).
-- No rows; the number of inserted rows is the command's own.
INSERT INTO event_log (id, organization_id, event_type, entity_kind, entity_id, payload, metadata)
SELECT id, organization_id, event_type, entity_kind, entity_id, payload::jsonb, metadata::jsonb
FROM unnest(
    %(ids)s::uuid[], %(organizations)s::uuid[], %(event_types)s::text[], %(entity_kinds)s::text[],
    %(entity_ids)s::uuid[], %(payloads)s::text[], %(metadata)s::text[]
) WITH ORDINALITY AS given (
    id, organization_id, event_type, entity_kind, entity_id, payload, metadata, number
)
ORDER BY number
ON CONFLICT (id) DO NOTHING
