-- Ask for a run; asked twice with one id it is one request.
-- Parameters: request uuid, schedule text. No rows.
INSERT INTO connect.requests (id, schedule) VALUES (%(request)s, %(schedule)s) ON CONFLICT (id) DO NOTHING
