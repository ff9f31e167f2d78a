-- Take a lock that goes with the connection. Parameters: name (text). Rows: taken boolean.
SELECT pg_try_advisory_lock(hashtextextended(%(name)s, 0))
