-- Give leases back, so that others needn't wait for their end. Parameters, arrays of one length: ids,
-- organizations uuid[], tokens bigint[]. No rows.
UPDATE connect.whatsapp_instances i
SET locked_until = NULL, locked_by = NULL
FROM unnest(%(ids)s::uuid[], %(organizations)s::uuid[], %(tokens)s::bigint[]) AS a (id, organization_id, token)
WHERE i.id = a.id AND i.organization_id = a.organization_id AND i.fencing_token = a.token
