-- Which columns a publication's row filter may look at: those of built-in types (an enum is not).
-- Parameters: table (text), columns (text[]).
-- Rows: (name text), in no order.
SELECT attname::text
FROM pg_attribute
WHERE attrelid = to_regclass(%(table)s)
  AND attname = ANY (%(columns)s)
  AND NOT attisdropped
  AND atttypid < 16384;  -- FirstNormalObjectId: own types have higher oids
