-- Take a lease that nobody holds and whose rest is over, or that we hold already.
-- Parameters: name (text), holder (text), seconds (double), at_once (boolean: whatever rest is left).
-- Rows: now timestamptz, the database's clock; none when it is another's.
INSERT INTO rajada.leases AS l (name, holder, held_until, rests_until)
VALUES (
    %(name)s, %(holder)s, clock_timestamp() + make_interval(secs => %(seconds)s), clock_timestamp()
)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, held_until = excluded.held_until
WHERE (l.holder = excluded.holder AND l.held_until > clock_timestamp())
   OR (
       l.held_until <= clock_timestamp()
       AND (l.rests_until <= clock_timestamp() OR %(at_once)s OR l.holder = excluded.holder)
   )
RETURNING clock_timestamp() AS now
