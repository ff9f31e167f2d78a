-- The database's clock, Unix ms.
SELECT extract(epoch FROM clock_timestamp()) * 1000
