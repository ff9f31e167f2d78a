-- Who holds a lease now. Parameters: name (text). Rows: holder text, for_s double; none when nobody does.
SELECT holder, extract(epoch FROM held_until - clock_timestamp())::double precision AS for_s
FROM rajada.leases
WHERE name = %(name)s AND held_until > clock_timestamp()
