-- Contacts with one conversation each on a channel session, for the demo, benchmarks and tests.
-- Parameters: organization uuid, session uuid, contacts uuid[], conversations uuid[], names text[],
--   phones text[], is_group boolean[].
WITH people AS (
    SELECT *
    FROM unnest(
        %(contacts)s::uuid[], %(conversations)s::uuid[], %(names)s::text[], %(phones)s::text[], %(is_group)s::boolean[]
    ) AS p (contact_id, conversation_id, name, phone, is_group)
), added AS (
    INSERT INTO contacts (id, organization_id, name, phone_number)
    SELECT contact_id, %(organization)s, name, phone FROM people
)
INSERT INTO conversations (id, organization_id, contact_id, channel_session_id, is_group)
SELECT conversation_id, %(organization)s, contact_id, %(session)s, is_group FROM people
