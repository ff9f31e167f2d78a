-- The sink makes and drops the trace's partitions without owning the table: these two functions run as their owner,
-- and only for roles that were given them (db/roles/sink.sql).
-- depends: rajada-0003-trace-partitions

ALTER FUNCTION rajada.make_trace_partitions(date, integer) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION rajada.drop_trace_partitions(integer) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE EXECUTE ON FUNCTION rajada.make_trace_partitions(date, integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION rajada.drop_trace_partitions(integer) FROM PUBLIC;
