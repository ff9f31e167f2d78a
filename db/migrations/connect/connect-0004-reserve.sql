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
    provisioning_before timestamptz;
    deprovisioning_before timestamptz;
    stuck_before timestamptz;
    turn_is_ours boolean;
    turn uuid;
    candidate uuid;
    lap_begins uuid;
    wrapped boolean;
    share integer := 1;
    found_now integer;
    served integer;
    rest integer := batch;
BEGIN
    IF batch IS NULL OR batch < 1 OR coalesce(owner, '') = '' OR lease IS NULL OR lease <= interval '0' THEN
        RAISE EXCEPTION 'a lease needs a batch of at least 1, an owner, and a length above 0'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT at_time - s.stuck_after INTO provisioning_before
    FROM connect.whatsapp_states s WHERE s.state = 'provisioning';
    SELECT at_time - s.stuck_after INTO deprovisioning_before
    FROM connect.whatsapp_states s WHERE s.state = 'deprovisioning';
    -- a state without a limit is never stuck
    provisioning_before := coalesce(provisioning_before, '-infinity');
    deprovisioning_before := coalesce(deprovisioning_before, '-infinity');
    stuck_before := greatest(provisioning_before, deprovisioning_before);

    -- Two that reserve at once don't wait for each other: the second begins anywhere.
    SELECT t.organization_id INTO turn
    FROM connect.turns t WHERE t.work = 'whatsapp_instances' FOR UPDATE SKIP LOCKED;
    turn_is_ours := FOUND;
    IF NOT turn_is_ours THEN
        turn := gen_random_uuid();
    END IF;

    -- The first lap takes one instance of each organization, every further one an equal share of what is left.
    LOOP
        served := 0;
        lap_begins := turn;
        wrapped := turn IS NULL;
        WHILE rest > 0 LOOP
            IF turn IS NULL THEN
                SELECT i.organization_id INTO candidate
                FROM connect.whatsapp_instances i
                WHERE i.state IN ('provisioning', 'deprovisioning')
                  AND i.state_since <= CASE i.state
                      WHEN 'provisioning' THEN provisioning_before ELSE deprovisioning_before END
                  AND (i.locked_until IS NULL OR i.locked_until <= at_time)
                ORDER BY i.organization_id, i.state_since, i.id
                LIMIT 1;
            ELSE
                SELECT i.organization_id INTO candidate
                FROM connect.whatsapp_instances i
                WHERE i.state IN ('provisioning', 'deprovisioning')
                  AND i.organization_id > turn
                  AND i.state_since <= CASE i.state
                      WHEN 'provisioning' THEN provisioning_before ELSE deprovisioning_before END
                  AND (i.locked_until IS NULL OR i.locked_until <= at_time)
                ORDER BY i.organization_id, i.state_since, i.id
                LIMIT 1;
            END IF;
            IF NOT FOUND THEN
                EXIT WHEN wrapped;
                wrapped := true;
                turn := NULL;
                CONTINUE;
            END IF;
            EXIT WHEN wrapped AND candidate > lap_begins;
            turn := candidate;
            RETURN QUERY
                WITH picked AS (
                    SELECT i.id
                    FROM connect.whatsapp_instances i
                    WHERE i.organization_id = candidate
                      AND i.state IN ('provisioning', 'deprovisioning')
                      AND i.state_since <= stuck_before
                      AND i.state_since <= CASE i.state
                          WHEN 'provisioning' THEN provisioning_before ELSE deprovisioning_before END
                      AND (i.locked_until IS NULL OR i.locked_until <= at_time)
                    ORDER BY i.state_since, i.id
                    LIMIT least(share, rest)
                    FOR UPDATE SKIP LOCKED
                )
                UPDATE connect.whatsapp_instances i
                SET locked_until = ends, locked_by = owner, fencing_token = token
                FROM picked p
                WHERE i.id = p.id AND i.organization_id = candidate
                RETURNING i.id, i.organization_id, i.provider_ref, i.state, i.state_since, i.locked_until,
                    i.fencing_token;
            GET DIAGNOSTICS found_now = ROW_COUNT;
            rest := rest - found_now;
            served := served + (found_now > 0)::integer;
        END LOOP;
        EXIT WHEN rest = 0 OR served = 0;
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
