-- Forget conditions that a watch of the pass has seen before and sees no more.
-- Parameters: watch text (the start of their names), seen text[] (names). No rows.
DELETE FROM rajada.troubles
WHERE about = 'condition' AND starts_with(id, %(watch)s || '@') AND id <> ALL (%(seen)s::text[])
