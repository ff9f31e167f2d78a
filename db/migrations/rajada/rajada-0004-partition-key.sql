-- partition_key: by which key an event travels (spec/dispatch.md, step 1). A real column filled by a
-- trigger, since a generated column is not in the replication stream of Postgres 15.
-- depends: rajada-0001-columns rajada-0002-schema

CREATE OR REPLACE FUNCTION rajada.partition_key(
    organization text, event_type text, event text, payload jsonb
) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT lower(coalesce(organization, '')) || ':' || CASE
        WHEN starts_with(event_type, 'ai_agent.')
             AND payload ->> 'contact_id' ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
            THEN lower(payload ->> 'contact_id')
        WHEN starts_with(event_type, 'group_link.') AND payload ->> 'phone' ~ '^\+[1-9][0-9]{6,14}$'
            THEN payload ->> 'phone'
        ELSE lower(coalesce(event, ''))
    END
$$;

COMMENT ON FUNCTION rajada.partition_key(text, text, text, jsonb) IS
    'ai_agent.*: organization:contact; group_link.*: organization:phone (E.164); else organization:event';

CREATE OR REPLACE FUNCTION rajada.fill_partition_key() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.partition_key := NULL;
    NEW.partition_key := rajada.partition_key(
        NEW.organization_id::text, NEW.event_type::text, NEW.id::text, NEW.payload::jsonb);
    RETURN NEW;
EXCEPTION WHEN OTHERS THEN
    -- The CRM's INSERT must never fail for us: the publisher computes the missing key itself.
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION rajada.fill_partition_key() IS
    'Runs as its owner, since the role that inserts has no rights in schema rajada';

DROP TRIGGER IF EXISTS zz_rajada_partition_key ON event_log;

-- Triggers fire in the order of their names: after the CRM's own that may still change the row.
CREATE TRIGGER zz_rajada_partition_key BEFORE INSERT ON event_log
    FOR EACH ROW EXECUTE FUNCTION rajada.fill_partition_key();
