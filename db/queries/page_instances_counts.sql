-- How many WhatsApp instances there are in each state.
-- Parameters: organization_id uuid (null = of all). Rows: state text, instances bigint.
SELECT i.state, count(*)
FROM connect.whatsapp_instances i
WHERE %(organization_id)s::uuid IS NULL OR i.organization_id = %(organization_id)s
GROUP BY 1
ORDER BY 1
