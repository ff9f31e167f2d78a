-- What was done with the letters of one event or job, for `rajada why`.
-- depends: rajada-0008-dead-letters

CREATE INDEX IF NOT EXISTS closed_letters_settled ON rajada.closed_letters (about)
    WHERE about IS NOT NULL AND how <> 'dropped';
