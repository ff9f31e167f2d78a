-- Partitions of rajada.trace, one per UTC day: made ahead, dropped when old.
-- depends: rajada-0002-schema

CREATE OR REPLACE FUNCTION rajada.make_trace_partitions(first_day date, days integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    this_day date;
    name text;
    starts timestamptz;
    ends timestamptz;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('rajada.trace'));
    FOR step IN 0 .. days - 1 LOOP
        this_day := first_day + step;
        name := 'trace_' || to_char(this_day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('rajada.' || name) IS NOT NULL;
        starts := this_day::timestamp AT TIME ZONE 'UTC';
        ends := (this_day + 1)::timestamp AT TIME ZONE 'UTC';
        EXECUTE format('CREATE TABLE rajada.%I (LIKE rajada.trace INCLUDING DEFAULTS)', name);
        -- Rows of that day may lie in the default partition already: a partition can't be attached over them.
        LOCK TABLE rajada.trace_default IN ACCESS EXCLUSIVE MODE;
        EXECUTE format(
            'WITH moved AS (DELETE FROM rajada.trace_default WHERE at >= %L AND at < %L RETURNING *) '
            'INSERT INTO rajada.%I SELECT * FROM moved', starts, ends, name);
        EXECUTE format(
            'ALTER TABLE rajada.trace ATTACH PARTITION rajada.%I FOR VALUES FROM (%L) TO (%L)',
            name, starts, ends);
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

COMMENT ON FUNCTION rajada.make_trace_partitions(date, integer) IS
    'Makes the missing partitions of `days` UTC days from `first_day`; returns how many were made';

CREATE OR REPLACE FUNCTION rajada.drop_trace_partitions(keep_days integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    oldest date := (now() AT TIME ZONE 'UTC')::date - keep_days;
    name text;
    dropped integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('rajada.trace'));
    FOR name IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'rajada.trace'::regclass AND c.relname ~ '^trace_[0-9]{8}$'
          AND to_date(substr(c.relname, 7), 'YYYYMMDD') < oldest
    LOOP
        EXECUTE format('DROP TABLE rajada.%I', name);
        dropped := dropped + 1;
    END LOOP;
    DELETE FROM rajada.trace_default WHERE at < oldest::timestamp AT TIME ZONE 'UTC';
    RETURN dropped;
END
$$;

COMMENT ON FUNCTION rajada.drop_trace_partitions(integer) IS
    'Drops what is older than `keep_days` UTC days; returns how many partitions were dropped';

DO $$
BEGIN
    PERFORM rajada.make_trace_partitions((now() AT TIME ZONE 'UTC')::date - 1, 9);
END
$$;
