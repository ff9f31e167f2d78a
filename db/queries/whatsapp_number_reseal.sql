-- Store an access token sealed anew, unless it was changed meanwhile.
-- Parameters: organization_id uuid, was, access_token text. No rows.
UPDATE rajada.whatsapp_numbers n
SET access_token = %(access_token)s
WHERE n.organization_id = %(organization_id)s AND n.access_token = %(was)s
