-- Forget conditions that are over. Parameters: ids text[]. No rows.
DELETE FROM rajada.troubles WHERE about = 'condition' AND id = ANY (%(ids)s::text[])
