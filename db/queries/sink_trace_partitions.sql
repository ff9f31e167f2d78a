-- Make the daily partitions of the trace ahead and drop the old ones.
-- Parameters: ahead int (days, today included), keep int (days). Rows: made int, dropped int.
SELECT
    rajada.make_trace_partitions((now() AT TIME ZONE 'UTC')::date, %(ahead)s::integer) AS made,
    rajada.drop_trace_partitions(%(keep)s::integer) AS dropped
