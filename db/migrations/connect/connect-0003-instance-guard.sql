-- Whoever changes an instance's state makes every token void that was given for the state before: a late write
-- must not hit an instance that has come into the same state anew.
-- depends: connect-0002-instances

CREATE OR REPLACE FUNCTION connect.note_instance_state() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.state_since IS NOT DISTINCT FROM OLD.state_since THEN
        NEW.state_since := clock_timestamp();
    END IF;
    NEW.fencing_token := nextval('connect.fencing_tokens');
    NEW.locked_until := NULL;
    NEW.locked_by := NULL;
    RETURN NEW;
END
$$;

COMMENT ON FUNCTION connect.note_instance_state() IS
    'Keeps state_since, and voids leases, when others change an instance; runs as its owner';

DO $$
BEGIN
    IF (SELECT c.relkind FROM pg_class c WHERE c.oid = 'connect.whatsapp_instances'::regclass) <> 'r' THEN
        RETURN;
    END IF;
    DROP TRIGGER IF EXISTS zz_connect_instance_state ON connect.whatsapp_instances;
    CREATE TRIGGER zz_connect_instance_state BEFORE UPDATE ON connect.whatsapp_instances
        FOR EACH ROW WHEN (
            (OLD.state IS DISTINCT FROM NEW.state OR OLD.state_since IS DISTINCT FROM NEW.state_since)
            AND OLD.fencing_token IS NOT DISTINCT FROM NEW.fencing_token  -- else it is one of ours
        )
        EXECUTE FUNCTION connect.note_instance_state();
END
$$;
