-- How many connections there are, how many there may be, how many of those only superusers may make, and how
-- many are Rajada's (as far as the role may see others'). One row: used, most, reserved, ours.
SELECT
    (SELECT coalesce(sum(numbackends), 0)::integer FROM pg_stat_database),
    current_setting('max_connections')::integer,
    current_setting('superuser_reserved_connections')::integer
        + coalesce(current_setting('reserved_connections', true)::integer, 0),
    (SELECT count(*)::integer FROM pg_stat_activity WHERE starts_with(application_name, 'rajada-'))
