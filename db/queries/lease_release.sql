-- Give a lease back; others may take it once it has rested, counted from now.
-- Parameters: name (text), holder (text), rest_s (double). No rows.
UPDATE rajada.leases
SET held_until = clock_timestamp(), rests_until = clock_timestamp() + make_interval(secs => %(rest_s)s)
WHERE name = %(name)s AND holder = %(holder)s AND held_until > clock_timestamp()
