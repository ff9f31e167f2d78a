"""Migrations on a real Postgres: from nothing, on an existing CRM, twice, at once, after a crash."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from db.fitness import CONTRACT, UnfitDatabase
from db.migrate import migrate, pending
from db.plan import COLUMNS, CONNECT_TABLES, CRM_TABLES, INDEXES, OUR_TABLES, plan
from db.publisher import partition_key
from settings import Settings
from tests.integration.db.crm import AI, insert_event, make_existing_crm

CONTACT = "22222222-2222-4222-8222-22222222222a"


def tables_of(url: str, schema: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,))
        return {str(name) for (name,) in rows}


def test_an_empty_database_gets_everything_and_the_second_run_nothing(empty_database: str) -> None:
    told = pending(empty_database, crm="ours")
    assert migrate(empty_database, crm="ours") == told
    assert tables_of(empty_database, "public") == set(CRM_TABLES)
    assert set(OUR_TABLES) < tables_of(empty_database, "rajada")
    assert set(CONNECT_TABLES) == tables_of(empty_database, "connect")
    assert migrate(empty_database, crm="ours") == []
    assert migrate(empty_database, crm="existing") == []
    assert pending(empty_database, crm="ours") == []


def test_every_column_of_the_contract_is_there(database: str) -> None:
    with psycopg.connect(database) as connection:
        for table, columns in CONTRACT.items():
            connection.execute(f"SELECT {', '.join(columns.split())} FROM {table}")


def test_an_existing_crm_keeps_its_rows_and_gets_additions_only(empty_database: str) -> None:
    make_existing_crm(empty_database)
    with psycopg.connect(empty_database) as connection:
        event = insert_event(connection, contact=CONTACT)
        before = connection.execute("SELECT to_jsonb(e) FROM event_log e").fetchone()
    applied = migrate(empty_database, crm="existing")
    assert applied and all(id_.startswith(("rajada-", "connect-")) for id_ in applied)
    assert tables_of(empty_database, "public") == set(CRM_TABLES)  # the ledger is in our schema
    with psycopg.connect(empty_database) as connection:
        after = connection.execute(
            "SELECT to_jsonb(e) - %s::text[] FROM event_log e WHERE id = %s",
            (list(COLUMNS["event_log"]), event),
        ).fetchone()
        assert after == before


def test_a_crm_in_a_schema_of_its_own_is_found_by_the_urls_search_path(empty_database: str) -> None:
    make_existing_crm(empty_database, "crm")
    url = f"{empty_database}?options=-c%20search_path%3Dcrm"
    assert plan(url, crm="existing")
    migrate(url, crm="existing")
    assert plan(url, crm="existing") == []
    assert tables_of(empty_database, "public") == set()
    with psycopg.connect(url) as connection:
        insert_event(connection, contact=CONTACT)
        row = connection.execute("SELECT partition_key FROM crm.event_log").fetchone()
        assert row is not None and str(row[0]).endswith(CONTACT)


def test_a_crm_without_group_links_stays_without_them(empty_database: str) -> None:
    make_existing_crm(empty_database)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("DROP TABLE group_link_dispatch_queue")
    migrate(empty_database, crm="existing")
    assert "group_link_dispatch_queue" not in tables_of(empty_database, "public")
    assert plan(empty_database, crm="existing") == []


def test_what_an_existing_crm_lacks_is_named(empty_database: str) -> None:
    make_existing_crm(empty_database)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("ALTER TABLE contacts DROP COLUMN is_blocked")
        connection.execute("DROP TABLE ai_router_members")
    with pytest.raises(UnfitDatabase, match=r"lacks contacts\.is_blocked, ai_router_members"):
        migrate(empty_database, crm="existing")
    assert tables_of(empty_database, "rajada") == set()


def test_a_wrong_database_is_refused_untouched(empty_database: str) -> None:
    with pytest.raises(UnfitDatabase, match="event_log"):
        migrate(empty_database, crm="existing")
    with pytest.raises(UnfitDatabase, match="event_log"):
        plan(empty_database, crm="existing")


def test_many_at_once_apply_each_file_once(empty_database: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(lambda _: migrate(empty_database, crm="ours"), range(4)))
    assert sorted(id_ for ids in applied for id_ in ids) == sorted(set().union(*applied))
    assert plan(empty_database, crm="ours") == []


def test_a_run_that_died_before_its_ledger_entry_repeats_without_harm(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        event = insert_event(connection, contact=CONTACT)
        installed = connection.execute("SELECT installed_at FROM rajada.meta").fetchone()
        connection.execute("DELETE FROM rajada._yoyo_migration")
        connection.execute("INSERT INTO rajada.yoyo_lock (locked, ctime, pid) VALUES (1, now(), 1)")
    assert sorted(migrate(database, crm="ours")) == sorted(pending_all())
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT id::text FROM event_log").fetchall() == [(event,)]
        assert connection.execute("SELECT installed_at FROM rajada.meta").fetchone() == installed


def pending_all() -> list[str]:
    from db.migrate import FOLDER, GROUPS

    return [path.stem for group in GROUPS["ours"] for path in (FOLDER / group).glob("*.sql")]


def test_an_index_whose_build_broke_off_is_built_again(empty_database: str) -> None:
    migrate(empty_database, crm="ours")
    name = "rajada_job_queue_dead"
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (name,))
        connection.execute("DELETE FROM rajada._yoyo_migration WHERE migration_id = 'rajada-0005-indexes'")
    assert plan(empty_database, crm="ours") == [
        f"build the index {name} on job_queue without blocking writes"
    ]
    assert migrate(empty_database, crm="ours") == ["rajada-0005-indexes"]
    assert plan(empty_database, crm="ours") == []


def test_the_plan_says_all_that_will_be_done_and_then_nothing(empty_database: str) -> None:
    make_existing_crm(empty_database)
    settings = Settings(slot="planned", publication="planned")
    told = "\n".join(plan(empty_database, crm="existing", settings=settings))
    for word in ("partition_key", "occurrences", "rajada.trace", "zz_rajada_partition_key", *INDEXES):
        assert word in told
    assert "publication planned" in told and "replication slot planned" in told
    assert "create the CRM's tables" not in told
    migrate(empty_database, crm="existing")
    assert plan(empty_database, crm="existing") == []
    assert len(plan(empty_database, crm="existing", settings=settings)) == 2


def test_the_plan_for_an_empty_database_names_the_crms_tables(empty_database: str) -> None:
    assert "event_log" in plan(empty_database, crm="ours")[0]
    assert tables_of(empty_database, "rajada") == set()


KEYS = [
    (AI, {"contact_id": CONTACT}),
    (AI, {"contact_id": CONTACT.upper()}),
    ("ai_agent.else", {"contact_id": CONTACT}),
    (AI, {"contact_id": "abc"}),
    (AI, {"contact_id": 7}),
    (AI, {"contact_id": None}),
    (AI, {"contact_id": f" {CONTACT}"}),
    (AI, {"contact_id": f"{CONTACT}\n"}),
    (AI, {"contact_id": CONTACT.replace("-", "")}),
    (AI, {"contact_id": "{" + CONTACT + "}"}),
    (AI, {"contact_id": [CONTACT]}),
    (AI, {}),
    (AI, []),
    (AI, "text"),
    (AI, 1),
    (AI, {"contact_id": CONTACT, "n": 10**400}),
    ("group_link.dispatch_requested", {"phone": "+5511988887777"}),
    ("group_link.dispatch_requested", {"phone": "5511988887777"}),
    ("group_link.dispatch_requested", {"phone": "+0511988887777"}),
    ("group_link.dispatch_requested", {"phone": "+55 11 98888-7777"}),
    ("group_link.dispatch_requested", {"phone": "+5511988887777\n"}),
    ("group_link.dispatch_requested", {"phone": "+1234567890123456"}),
    ("group_link.dispatch_requested", {"contact_id": CONTACT}),
    ("message.received", {"contact_id": CONTACT, "phone": "+5511988887777"}),
    ("", {"contact_id": CONTACT}),
]


def test_the_trigger_gives_the_key_of_the_rule(database: str) -> None:
    organization = uuid4()
    with psycopg.connect(database) as connection:
        for event_type, payload in KEYS:
            event = insert_event(
                connection, organization=organization, event_type=event_type, payload=payload
            )
            row = connection.execute(
                "SELECT partition_key, payload::text FROM event_log WHERE id = %s", (event,)
            ).fetchone()
            assert row is not None
            # The publisher's own rule, for rows that the trigger never saw, is the same one.
            assert row[0] == partition_key(str(organization), event_type, event, row[1]), payload
            last = str(row[0]).removeprefix(f"{organization}:")
            assert last in (CONTACT, "+5511988887777", event)


def test_the_writer_can_not_choose_the_key(database: str) -> None:
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "INSERT INTO event_log (organization_id, event_type, payload, partition_key) "
            "VALUES (%s, %s, %s, 'mine') RETURNING partition_key",
            (UUID(int=1), AI, f'{{"contact_id": "{CONTACT}"}}'),
        ).fetchone()
        assert row == (f"{UUID(int=1)}:{CONTACT}",)


def test_the_key_is_made_after_the_crms_own_triggers(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE FUNCTION crm_fills() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"NEW.payload := jsonb_build_object('contact_id', '{CONTACT}'); RETURN NEW; END $$"
        )
        connection.execute(
            "CREATE TRIGGER crm_fills BEFORE INSERT ON event_log FOR EACH ROW EXECUTE FUNCTION crm_fills()"
        )
        insert_event(connection, payload={})
        row = connection.execute("SELECT partition_key FROM event_log").fetchone()
        assert row is not None and str(row[0]).endswith(f":{CONTACT}")


def test_a_role_without_any_right_on_our_schema_inserts_and_gets_a_key(database: str) -> None:
    role = f"crm_{uuid4().hex[:8]}"
    with psycopg.connect(database) as connection:
        connection.execute(f"CREATE ROLE {role}")
        connection.execute(f"GRANT INSERT, SELECT ON event_log TO {role}")
        connection.execute(f"SET LOCAL ROLE {role}")
        insert_event(connection, contact=CONTACT)
        row = connection.execute("SELECT partition_key FROM event_log").fetchone()
        assert row is not None and str(row[0]).endswith(f":{CONTACT}")
        connection.rollback()  # takes the role with it


@pytest.mark.parametrize(
    "damage",
    [
        "DROP FUNCTION rajada.partition_key",
        "ALTER TABLE event_log DROP COLUMN partition_key",
        "ALTER TABLE event_log ALTER COLUMN payload TYPE text",
        "ALTER TABLE event_log DROP COLUMN payload",
        "DROP SCHEMA rajada CASCADE",
    ],
)
def test_whatever_happens_to_us_the_crms_insert_succeeds(database: str, damage: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(damage)
        connection.execute(
            "INSERT INTO event_log (organization_id, event_type) VALUES (%s, %s)", (uuid4(), AI)
        )
        assert connection.execute("SELECT count(*) FROM event_log").fetchone() == (1,)


def test_a_text_payload_that_is_no_json_leaves_the_key_to_the_publisher(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE event_log ALTER COLUMN payload TYPE text")
        connection.execute(
            "INSERT INTO event_log (organization_id, event_type, payload) VALUES (%s, %s, 'no json')",
            (uuid4(), AI),
        )
        assert connection.execute("SELECT partition_key FROM event_log").fetchone() == (None,)


def test_trace_partitions_are_made_ahead_take_over_rows_and_go_when_old(database: str) -> None:
    def at(connection: psycopg.Connection[tuple[object, ...]], day: str) -> str:
        row = connection.execute(
            "INSERT INTO rajada.trace (at, stage) VALUES (%s, 'x') RETURNING tableoid::regclass::text", (day,)
        ).fetchone()
        assert row is not None
        return str(row[0])

    with psycopg.connect(database, autocommit=True) as connection:
        assert at(connection, "2031-05-01T12:00Z") == "rajada.trace_default"
        assert at(connection, "2031-05-03T00:00Z") == "rajada.trace_default"
        made = connection.execute("SELECT rajada.make_trace_partitions('2031-05-01', 2)").fetchone()
        assert made == (2,)
        assert connection.execute("SELECT rajada.make_trace_partitions('2031-05-01', 2)").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM rajada.trace_20310501").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM rajada.trace_default").fetchone() == (1,)
        assert at(connection, "2031-05-02T23:59:59.999Z") == "rajada.trace_20310502"
        assert at(connection, "2031-05-03T00:00Z") == "rajada.trace_default"

        connection.execute("SELECT rajada.make_trace_partitions('2001-01-01', 3)")
        at(connection, "2001-01-02T00:00Z")
        at(connection, "2000-01-01T00:00Z")
        assert connection.execute("SELECT rajada.drop_trace_partitions(30)").fetchone() == (3,)
        assert connection.execute("SELECT count(*) FROM rajada.trace WHERE at < '2002-01-01'").fetchone() == (
            0,
        )
        assert connection.execute("SELECT count(*) FROM rajada.trace").fetchone() == (4,)


def test_today_and_the_coming_week_have_partitions_from_the_start(database: str) -> None:
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "INSERT INTO rajada.trace (at, stage) VALUES (now() + interval '6 days', 'x') "
            "RETURNING tableoid::regclass::text"
        ).fetchone()
        assert row is not None and row[0] != "rajada.trace_default"


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (
            "SELECT FROM job_queue WHERE payload -> 'event_ids' ?| ARRAY['a', 'b']",
            "rajada_job_queue_event_ids",
        ),
        ("SELECT FROM job_queue WHERE source_event_id = ANY (ARRAY[%(id)s::uuid])", "source_event"),
        (
            "SELECT FROM event_log WHERE status = 'pending' AND created_at < now() ORDER BY created_at, id",
            "rajada_event_log_open",
        ),
        ("SELECT FROM rajada.trace WHERE event_id = %(id)s", "event_id"),
        ("SELECT FROM rajada.trace WHERE message_id = %(id)s", "message_id"),
    ],
)
def test_the_hot_look_ups_use_their_index(database: str, statement: str, index: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("SET enable_seqscan = off")
        rows = connection.execute(f"EXPLAIN {statement}", {"id": uuid4()}).fetchall()
        assert any("Index" in str(line) and index in str(line) for (line,) in rows), rows


def test_windows_settings_hold_one_row_per_scope(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        insert = (
            "INSERT INTO rajada.windows_settings (organization_id, agent_id, mode) VALUES (%s, %s, 'sliding')"
        )
        organization = uuid4()
        connection.execute(insert, (organization, None))
        connection.execute(insert, (organization, uuid4()))
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(insert, (organization, None))


def test_the_connection_string_may_be_key_value_pairs(empty_database: str) -> None:
    pairs = " ".join(f"{key}={value}" for key, value in conninfo_to_dict(empty_database).items())
    assert migrate(pairs, crm="ours")
    assert migrate(empty_database, crm="ours") == []
