-- Which of these organizations there are. Parameters: ids uuid[]. Rows: id text.
SELECT g.id::text FROM organizations g WHERE g.id = ANY (%(ids)s::uuid[])
