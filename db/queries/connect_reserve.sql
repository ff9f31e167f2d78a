-- Lease stuck instances, fairly over the organizations (spec/reconciler.md, step 1).
-- Parameters: batch int, owner text, lease_s double precision. Rows: id text, organization_id text,
-- provider_ref text or null, state text, fencing_token bigint; in the order in which they were taken.
SELECT r.id::text, r.organization_id::text, r.provider_ref, r.state, r.fencing_token
FROM connect.reserve_whatsapp_reconciliation_lease(
    %(batch)s::integer, %(owner)s, make_interval(secs => %(lease_s)s)
) r
