"""Least privilege in Postgres: each role may all that its process does, and nothing beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from db import roles
from db.migrate import migrate
from db.queries import load, names
from db.replication import ensure_publication
from ops.clinic import Clinic

ROOT = Path(__file__).parents[2]
STATEMENT = re.compile(r"^(WITH|SELECT|INSERT|UPDATE|DELETE)", re.MULTILINE)
SOURCES = {
    "relay": ["db/relay.py", "db/backfill.py", "db/replication.py"],
    "worker": ["streams/*.py", "streams/handlers/*.py", "db/sweep_claims.py", "db/leases.py"],
    "sink": ["sinks/*.py", "db/leases.py"],
    "web": [
        "web/*.py", "web/pages/*.py", "db/group_links.py", "ops/pages/*.py", "ops/why/*.py", "ops/dlq/*.py",
        "ops/alerts.py", "ops/job_rows.py", "ops/orders.py", "db/closed_letters.py", "db/orders.py",
        "db/runs.py", "ops/shadow/*.py",
    ],
    "reconciler": ["streams/reconcile/*.py"],
    "operator": [
        "ops/*.py", "ops/commands/*.py", "ops/dlq/*.py", "ops/doctor/*.py", "ops/group_links/*.py",
        "ops/pages/*.py", "ops/whatsapp/*.py", "ops/why/*.py", "db/closed_letters.py", "db/forgetting.py",
        "db/leases.py", "db/orders.py", "db/runs.py", "db/sealing.py", "db/sweep_claims.py",
        "ops/shadow/*.py",
    ],
}  # fmt: skip
"""The modules whose statements a process runs."""
NOT_ITS = {
    "operator": {"clinic_contacts", "clinic_messages", "group_link_enqueue", "tables_present"},
    "web": {"page_tokens_add", "page_tokens_list", "page_tokens_revoke"},
}
"""Statements that those modules hold for others (the demo's CRM, the service), or of the catalogue alone."""


@pytest.fixture
def prefix_of_roles(database: str) -> Iterator[str]:
    """Roles of this test's own, with their rights in its database; they are dropped after it."""
    prefix = f"r{uuid4().hex[:10]}_"
    with psycopg.connect(database, autocommit=True) as connection:
        roles.apply(connection, prefix=prefix)
        roles.apply(connection, prefix=prefix)  # what is there already is no hindrance
        ensure_publication(connection, prefix)
        yield prefix
        for role in roles.ROLES:
            name = sql.Identifier(f"{prefix}{role}")
            connection.execute(sql.SQL("DROP OWNED BY {}").format(name))
            connection.execute(sql.SQL("DROP ROLE {}").format(name))


def as_role(database: str, prefix: str, role: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(make_conninfo(database, user=f"{prefix}{role}"), autocommit=True)


def statements_of(role: str) -> set[str]:
    files = [file for pattern in SOURCES[role] for file in ROOT.glob(pattern)]
    assert len(files) >= len(SOURCES[role])
    known = {name for name in names() if "_" in name}
    told = {name for file in files for name in re.findall(r'"([a-z_]+)"', file.read_text())}
    return (told & known) - NOT_ITS.get(role, set())


def test_each_role_may_run_every_statement_of_its_process(database: str, prefix_of_roles: str) -> None:
    """Postgres looks at rights when it makes ready to run a plan: EXPLAIN is enough to see them."""
    denied: list[str] = []
    for role in roles.ROLES:
        asked = statements_of(role)
        assert asked, role
        with as_role(database, prefix_of_roles, role) as connection:
            for name in sorted(asked):
                text = load(name)
                values = dict.fromkeys(re.findall(r"%\((\w+)\)s", text))
                if STATEMENT.search(text):
                    try:
                        connection.execute(f"EXPLAIN {text.rstrip().rstrip(';')}".encode(), values)
                    except psycopg.errors.InsufficientPrivilege as error:
                        denied.append(f"{role}: {name}: {error}")
                    except psycopg.errors.AmbiguousParameter:
                        assert (
                            name == "group_link_enqueue"
                        )  # its own tests run it, with values that have types
    assert not denied


FORBIDDEN = {
    "relay": [
        "UPDATE event_log SET status = 'done'", "INSERT INTO event_log (id) VALUES (gen_random_uuid())",
        "SELECT * FROM messages", "SELECT * FROM rajada.tokens", "DELETE FROM rajada.relay",
    ],
    "worker": [
        "UPDATE event_log SET status = 'done'", "UPDATE event_log SET payload = '{}'",
        "INSERT INTO job_queue (id) VALUES (gen_random_uuid())", "UPDATE job_queue SET status = 'done'",
        "UPDATE contacts SET is_blocked = true", "UPDATE rajada.sink_offsets SET next_offset = 0",
        "UPDATE rajada.whatsapp_numbers SET set_by = 'x'", "SELECT * FROM rajada.tokens",
        "SELECT * FROM connect.schedules",
    ],
    "sink": [
        "UPDATE event_log SET payload = '{}'", "UPDATE event_log SET organization_id = NULL",
        "DELETE FROM event_log", "DELETE FROM job_queue", "SELECT * FROM messages",
        "UPDATE contacts SET is_blocked = true", "SELECT * FROM rajada.whatsapp_numbers",
        "SELECT * FROM rajada.tokens", "UPDATE rajada.relay SET confirmed_lsn = NULL",
        "CREATE TABLE rajada.mine (a int)", "DROP TABLE rajada.trace_default",
    ],
    "web": [
        "UPDATE event_log SET status = 'done'", "DELETE FROM event_log",
        "UPDATE group_link_dispatch_queue SET status = 'sent'", "UPDATE job_queue SET status = 'done'",
        "UPDATE agent_inbox_items SET title = 'x'",
        "INSERT INTO agent_inbox_items (id) VALUES (gen_random_uuid())",
        "UPDATE rajada.tokens SET organization_id = gen_random_uuid()", "DELETE FROM rajada.tokens",
        "SELECT * FROM rajada.whatsapp_numbers", "SELECT * FROM messages", "SELECT content FROM messages",
        "SELECT name FROM contacts", "UPDATE rajada.page_tokens SET role = 'operator'",
        "INSERT INTO rajada.page_tokens (id) VALUES ('x')",
        "UPDATE connect.whatsapp_instances SET state = 'x'",
    ],
    "reconciler": [
        "SELECT * FROM event_log", "SELECT * FROM job_queue", "SELECT * FROM rajada.troubles",
        "SELECT * FROM rajada.meta", "UPDATE connect.whatsapp_states SET stuck_after = NULL",
        "DELETE FROM connect.whatsapp_instances", "CREATE TABLE connect.mine (a int)",
    ],
    "operator": [
        "UPDATE event_log SET status = 'done'", "DELETE FROM contacts",
        "UPDATE job_queue SET status = 'done'", "UPDATE rajada.sink_offsets SET next_offset = 0",
        "DELETE FROM rajada.trace",
    ],
}  # fmt: skip


def test_what_a_role_has_no_business_with_is_refused(database: str, prefix_of_roles: str) -> None:
    for role in roles.ROLES:
        with as_role(database, prefix_of_roles, role) as connection:
            for statement in FORBIDDEN[role]:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())
                    pytest.fail(f"{role} may: {statement}")


def test_web_adds_events_and_changes_a_status_and_a_revocation(database: str, prefix_of_roles: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        clinic = Clinic.found(connection)
    with as_role(database, prefix_of_roles, "web") as connection:
        connection.execute("UPDATE agent_inbox_items SET status = 'ack', resolved_at = NULL")
        connection.execute("UPDATE rajada.tokens SET revoked_by = 'x', revoked_at = now()")
        connection.execute(
            "INSERT INTO event_log (id, organization_id, event_type, entity_kind, payload)"
            " VALUES (gen_random_uuid(), %s, 'group_link.dispatch_requested', 'group_link', '{}')",
            [clinic.organization_id],
        )
        key = connection.execute("SELECT partition_key FROM event_log").fetchone()
        assert key is not None and str(key[0]).startswith(f"{clinic.organization_id}:")


def test_rights_given_beside_ours_do_not_outlast_the_next_time_and_only_owners_give_any(
    database: str, prefix_of_roles: str
) -> None:
    name = sql.Identifier(f"{prefix_of_roles}worker")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("GRANT DELETE ON event_log, rajada.trace TO {}").format(name))
        connection.execute(sql.SQL("GRANT UPDATE (payload) ON event_log TO {}").format(name))
        roles.apply(connection, ["worker"], prefix_of_roles)
    with as_role(database, prefix_of_roles, "worker") as connection:
        for statement in (
            b"DELETE FROM event_log",
            b"DELETE FROM rajada.trace",
            b"UPDATE event_log SET payload = '{}'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)

    with (
        as_role(database, prefix_of_roles, "operator") as connection,
        pytest.raises(roles.RolesRefused, match="owner of the CRM's tables"),
    ):
        roles.apply(connection, prefix="nobody_")


def test_the_grants_are_made_where_the_search_path_leads(empty_database: str) -> None:
    prefix = f"r{uuid4().hex[:10]}_"
    url = make_conninfo(empty_database, options="-csearch_path=tenant")
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA tenant")
        migrate(url, crm="ours")
        roles.apply(owner, ["worker"], prefix)
        try:
            with as_role(url, prefix, "worker") as connection:
                assert connection.execute("SELECT count(*) FROM tenant.event_log").fetchone() == (0,)
                assert connection.execute("SELECT count(*) FROM messages").fetchone() == (0,)
        finally:
            name = sql.Identifier(f"{prefix}worker")
            owner.execute(sql.SQL("DROP OWNED BY {}").format(name))
            owner.execute(sql.SQL("DROP ROLE {}").format(name))


def test_an_unknown_role_and_an_unprepared_database_are_told(empty_database: str) -> None:
    with pytest.raises(roles.NoSuchRole, match="relay, worker, sink"):
        roles.script("admin")
    with (
        psycopg.connect(empty_database, autocommit=True) as connection,
        pytest.raises(roles.RolesRefused, match="rajada migrate"),
    ):
        roles.apply(connection, ["worker"], "nobody_")
