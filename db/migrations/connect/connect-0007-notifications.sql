-- The hub: notifications that are open as long as the fact behind them is true.
-- depends: connect-0001-schema

CREATE TABLE IF NOT EXISTS connect.notification_texts (
    kind text NOT NULL CHECK (kind ~ '^[a-z_]+$'),
    language text NOT NULL,
    severity text NOT NULL CHECK (severity IN ('info', 'warn', 'critical')),
    title text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (kind, language)
);
COMMENT ON TABLE connect.notification_texts IS 'What a person reads: what is wrong, then what to do. No live numbers';

CREATE TABLE IF NOT EXISTS connect.system_notifications (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    about uuid NOT NULL,
    organization_id uuid,
    kind text NOT NULL,
    severity text NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    subject_kind text NOT NULL,
    subject_id text NOT NULL,
    since timestamptz,
    first_seen_at timestamptz NOT NULL,
    resolved_at timestamptz
);
COMMENT ON TABLE connect.system_notifications IS
    'about = the identity of the fact: at most one open row each. organization_id null = the platform''s. since = of the fact when it was first seen; id = in which order they were opened. Nothing of an open row ever changes';

CREATE UNIQUE INDEX IF NOT EXISTS system_notifications_open
    ON connect.system_notifications (about) WHERE resolved_at IS NULL;
CREATE INDEX IF NOT EXISTS system_notifications_organization
    ON connect.system_notifications (organization_id, first_seen_at) WHERE resolved_at IS NULL;
CREATE INDEX IF NOT EXISTS system_notifications_resolved
    ON connect.system_notifications (resolved_at) WHERE resolved_at IS NOT NULL;

CREATE OR REPLACE VIEW connect.active_notifications AS
SELECT id, organization_id, kind, severity, title, body, subject_kind, subject_id, since, first_seen_at
FROM connect.system_notifications
WHERE resolved_at IS NULL;
COMMENT ON VIEW connect.active_notifications IS 'What is open now; for the CRM''s screens';

INSERT INTO connect.notification_texts (kind, language, severity, title, body)
VALUES
    ('whatsapp_stuck', 'pt-BR', 'warn', 'Um WhatsApp está parado no meio da conexão',
     'Ele não termina de conectar ou de ser desligado. Espere a próxima verificação; se continuar, peça ao suporte que veja `rajada reconcile --history`.'),
    ('whatsapp_stuck', 'en', 'warn', 'A WhatsApp is stuck half way',
     'It finishes neither connecting nor being shut down. Wait for the next check; if it stays, ask support to look at `rajada reconcile --history`.'),
    ('whatsapp_failed', 'pt-BR', 'critical', 'Um WhatsApp não conseguiu conectar',
     'Clientes deste número não são atendidos. Conecte o número de novo; se falhar outra vez, remova-o e peça ajuda ao suporte.'),
    ('whatsapp_failed', 'en', 'critical', 'A WhatsApp could not be connected',
     'Customers of this number get no answer. Connect the number again; if it fails once more, remove it and ask support for help.'),
    ('whatsapp_state_unknown', 'pt-BR', 'warn', 'Um WhatsApp está em um estado desconhecido',
     'Nada foi mudado nele. Peça ao suporte que atualize o Rajada, ou que cadastre o estado em connect.whatsapp_states.'),
    ('whatsapp_state_unknown', 'en', 'warn', 'A WhatsApp is in an unknown state',
     'Nothing was changed about it. Ask support to update Rajada, or to add the state to connect.whatsapp_states.'),
    ('dead_letters_open', 'pt-BR', 'critical', 'Há mensagens que não puderam ser atendidas',
     'Clientes esperam por uma resposta que não virá sozinha. Abra os avisos da caixa de entrada e responda, depois peça ao suporte que veja `rajada dlq ls`.'),
    ('dead_letters_open', 'en', 'critical', 'There are messages that could not be dealt with',
     'Customers wait for an answer that won''t come by itself. Open the inbox'' alerts and answer, then ask support to look at `rajada dlq ls`.'),
    ('job_running_too_long', 'pt-BR', 'warn', 'Uma tarefa está em execução há tempo demais',
     'Um cliente pode estar esperando. Veja a tarefa com `rajada why`; se quem a executa morreu, libere-a.'),
    ('job_running_too_long', 'en', 'warn', 'A job has been running for too long',
     'A customer may be waiting. Look at the job with `rajada why`; release it if whoever runs it has died.'),
    ('cdc_slot_lagging', 'pt-BR', 'critical', 'O slot de replicação está muito atrasado',
     'O disco do banco pode encher. Veja com `rajada doctor` se quem publica os eventos está ligado.'),
    ('cdc_slot_lagging', 'en', 'critical', 'The replication slot is far behind',
     'The database''s disk may fill up. See with `rajada doctor` whether the publisher runs.'),
    ('cdc_slot_lost', 'pt-BR', 'critical', 'O slot de replicação se perdeu',
     'Mensagens novas só são atendidas com minutos de atraso. Veja `rajada doctor` e reinicie o relay.'),
    ('cdc_slot_lost', 'en', 'critical', 'The replication slot is lost',
     'New messages are answered minutes late. See `rajada doctor` and restart the relay.'),
    ('no_heartbeat', 'pt-BR', 'critical', 'Um processo do Rajada não dá sinal de vida',
     'O que ele faz está parado. Veja `rajada status` e ligue o que falta.'),
    ('no_heartbeat', 'en', 'critical', 'A process of Rajada gives no sign of life',
     'What it does stands still. See `rajada status` and start what is missing.')
ON CONFLICT (kind, language) DO UPDATE
SET severity = excluded.severity, title = excluded.title, body = excluded.body;
