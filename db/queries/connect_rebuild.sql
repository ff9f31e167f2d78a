-- Make the open notifications what is true. Parameters: most int (changes of each sort in this transaction).
-- Rows: one, (opened bigint, resolved bigint, more boolean: call again).
SELECT b.opened, b.resolved, b.more FROM connect.rebuild_all_system_notifications(%(most)s::integer) b
