-- Access tokens of WhatsApp numbers are stored sealed, with a key that the database does not hold. Those that
-- stand there in plain text are read until `rajada migrate`, which has the key, or `rajada whatsapp reseal` seals
-- them; no further one can be stored so.
-- depends: rajada-0011-group-links

SET LOCAL lock_timeout = '10s';

DO $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_constraint
        WHERE conrelid = 'rajada.whatsapp_numbers'::regclass AND conname = 'whatsapp_numbers_sealed'
    ) THEN
        ALTER TABLE rajada.whatsapp_numbers
            ADD CONSTRAINT whatsapp_numbers_sealed CHECK (access_token LIKE 'fernet:%') NOT VALID;
    END IF;
END
$$;
COMMENT ON COLUMN rajada.whatsapp_numbers.access_token IS
    'Sealed with a key of RAJADA_SECRET_KEYS (fernet:…); the key is not in the database';
