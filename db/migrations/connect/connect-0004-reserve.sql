-- Leases on stuck instances, taken round robin over the organizations (spec/reconciler.md, step 1).
-- depends: connect-0003-instance-guard

CREATE OR REPLACE FUNCTION connect.reserve_whatsapp_reconciliation_lease(
    batch integer, owner text, lease interval
) RETURNS TABLE (
    id uuid, organization_id uuid, provider_ref text, state text, state_since timestamptz,
    locked_until timestamptz, fencing_token bigint
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    at_time CONSTANT timestamptz := clock_timestamp();
    ends CONSTANT timestamptz := at_time + lease;
    token CONSTANT bigint := nextval('connect.fencing_tokens');
    -- a state without a limit is never stuck
    provisioning_before CONSTANT timestamptz := coalesce(at_time - (
        SELECT s.stuck_after FROM connect.whatsapp_states s WHERE s.state = 'provisioning'), '-infinity');
    deprovisioning_before CONSTANT timestamptz := coalesce(at_time - (
        SELECT s.stuck_after FROM connect.whatsapp_states s WHERE s.state = 'deprovisioning'), '-infinity');
    stuck_before CONSTANT timestamptz := greatest(provisioning_before, deprovisioning_before);
    turn_is_ours boolean;
    turn uuid;
    share integer := 1;
    served integer;
    rest integer := batch;
    leased record;
BEGIN
    IF batch IS NULL OR batch < 1 OR coalesce(owner, '') = '' OR lease IS NULL OR lease <= interval '0' THEN
        RAISE EXCEPTION 'a lease needs a batch of at least 1, an owner, and a length above 0'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    -- Two that reserve at once don't wait for each other: the second begins anywhere.
    SELECT coalesce(t.organization_id, '00000000-0000-0000-0000-000000000000') INTO turn
    FROM connect.turns t WHERE t.work = 'whatsapp_instances' FOR UPDATE SKIP LOCKED;
    turn_is_ours := FOUND;
    IF NOT turn_is_ours THEN
        turn := gen_random_uuid();
    END IF;

    -- A lap goes once around, from behind the last one served: one instance of each organization in the first
    -- lap, an equal share of what is left in every further one.
    LOOP
        served := 0;
        FOR leased IN
            WITH RECURSIVE ahead AS (
                -- one look-up of the index an organization, however many instances it has
                (
                    SELECT i.organization_id
                    FROM connect.whatsapp_instances i
                    WHERE i.state IN ('provisioning', 'deprovisioning')
                      AND i.organization_id > turn
                      AND i.state_since <= CASE i.state
                          WHEN 'provisioning' THEN provisioning_before ELSE deprovisioning_before END
                      AND (i.locked_until IS NULL OR i.locked_until <= at_time)
                    ORDER BY i.organization_id, i.state_since, i.id
                    LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT i.organization_id
                    FROM connect.whatsapp_instances i
                    WHERE i.state IN ('provisioning', 'deprovisioning')
                      AND i.organization_id > a.organization_id
                      AND i.state_since <= CASE i.state
                          WHEN 'provisioning' THEN provisioning_before ELSE deprovisioning_before END
                      AND (i.locked_until IS NULL OR i.locked_until <= at_time)
                    ORDER BY i.organization_id, i.state_since, i.id
                    LIMIT 1
                )
                FROM ahead a
                WHERE a.organization_id IS NOT NULL
            ),
            behind AS (
                (
                    SELECT i.organization_id
                    FROM connect.whatsapp_instances i
                    WHERE i.state IN ('provisioning', 'deprovisioning')
                      AND i.organization_id <= turn
                      AND i.state_since <= CASE i.state
                          WHEN 'provisioning' THEN provisioning_before ELSE deprovisioning_before END
                      AND (i.locked_until IS NULL OR i.locked_until <= at_time)
                    ORDER BY i.organization_id, i.state_since, i.id
                    LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT i.organization_id
                    FROM connect.whatsapp_instances i
                    WHERE i.state IN ('provisioning', 'deprovisioning')
                      AND i.organization_id > b.organization_id AND i.organization_id <= turn
                      AND i.state_since <= CASE i.state
                          WHEN 'provisioning' THEN provisioning_before ELSE deprovisioning_before END
                      AND (i.locked_until IS NULL OR i.locked_until <= at_time)
                    ORDER BY i.organization_id, i.state_since, i.id
                    LIMIT 1
                )
                FROM behind b
                WHERE b.organization_id IS NOT NULL
            ),
            turns AS (
                SELECT o.organization_id, row_number() OVER () AS place
                FROM (SELECT * FROM ahead UNION ALL SELECT * FROM behind) o
                WHERE o.organization_id IS NOT NULL
                LIMIT rest
            ),
            picked AS (
                SELECT t.place, p.id, t.organization_id
                FROM turns t
                CROSS JOIN LATERAL (
                    SELECT i.id
                    FROM connect.whatsapp_instances i
                    WHERE i.organization_id = t.organization_id
                      AND i.state IN ('provisioning', 'deprovisioning')
                      AND i.state_since <= stuck_before
                      AND i.state_since <= CASE i.state
                          WHEN 'provisioning' THEN provisioning_before ELSE deprovisioning_before END
                      AND (i.locked_until IS NULL OR i.locked_until <= at_time)
                    ORDER BY i.state_since, i.id
                    LIMIT share
                    FOR UPDATE SKIP LOCKED
                ) p
                ORDER BY t.place
                LIMIT rest
            ),
            taken AS (
                UPDATE connect.whatsapp_instances i
                SET locked_until = ends, locked_by = owner, fencing_token = token
                FROM picked p
                WHERE i.id = p.id AND i.organization_id = p.organization_id
                RETURNING i.id, i.organization_id, i.provider_ref, i.state, i.state_since, p.place
            )
            SELECT * FROM taken ORDER BY place, state_since, id
        LOOP
            IF served = 0 OR turn <> leased.organization_id THEN
                served := served + 1;
                turn := leased.organization_id;
            END IF;
            rest := rest - 1;
            id := leased.id;
            organization_id := leased.organization_id;
            provider_ref := leased.provider_ref;
            state := leased.state;
            state_since := leased.state_since;
            locked_until := ends;
            fencing_token := token;
            RETURN NEXT;
        END LOOP;
        EXIT WHEN rest <= 0 OR served = 0;
        share := ceil(rest / served::numeric);
    END LOOP;

    IF turn_is_ours AND rest < batch THEN
        UPDATE connect.turns t SET organization_id = turn
        WHERE t.work = 'whatsapp_instances' AND t.organization_id IS DISTINCT FROM turn;
    END IF;
END
$$;

COMMENT ON FUNCTION connect.reserve_whatsapp_reconciliation_lease(integer, text, interval) IS
    'Leases up to `batch` stuck instances to `owner`, fairly over the organizations, oldest first; one token a call';
