-- What alerts are about and that is not over yet (docs/adr/alerts-have-a-ledger.md).
-- depends: rajada-0001-columns rajada-0002-schema rajada-0008-dead-letters

CREATE TABLE IF NOT EXISTS rajada.troubles (
    about text NOT NULL CHECK (about IN ('event', 'job', 'condition')),
    id text NOT NULL,
    kind text NOT NULL,
    title text NOT NULL,
    organization_id uuid,
    body text NOT NULL,
    ref_kind text,
    ref_id uuid,
    replay bigint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    said_at timestamptz NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    ends_at timestamptz,
    PRIMARY KEY (about, id, kind)
);
COMMENT ON TABLE rajada.troubles IS
    'What alerts are about, until it has healed: dead events and jobs, jobs that wait, conditions of the machine room. at = the clock of the inbox items, said_at = that of who told it; ends_at = over unless told again';

CREATE INDEX IF NOT EXISTS troubles_family ON rajada.troubles (kind, title, organization_id, at);

ALTER TABLE rajada.relay ADD COLUMN IF NOT EXISTS slots_told integer;
COMMENT ON COLUMN rajada.relay.slots_told IS 'Of slots_made, those whose gap an alert has told of';

UPDATE rajada.relay SET slots_told = slots_made WHERE slots_told IS NULL;

-- What died before this table was: its alerts are open, and must not be taken for healed.
INSERT INTO rajada.troubles (
    about, id, kind, title, organization_id, body, ref_kind, ref_id, replay, seq, said_at, at
)
SELECT
    'event', e.id::text, 'event_dead',
    CASE WHEN e.event_type::text LIKE 'group\_link.%'
        THEN 'Um link de grupo deixou de ser enviado'
        ELSE 'A IA deixou de responder uma mensagem de cliente'
    END,
    e.organization_id, coalesce(e.last_error, ''), 'event_log', e.id,
    coalesce(e.outcome_replay, 0), coalesce(e.outcome_seq, 0), e.updated_at, e.updated_at
FROM event_log e
WHERE e.status = 'dead'
  AND e.event_type::text IN ('ai_agent.dispatch_requested', 'group_link.dispatch_requested')
ON CONFLICT DO NOTHING;
