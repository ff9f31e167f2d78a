"""The hub: rebuilding twice is rebuilding once, from wherever, and what is open is what is true."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.reconcile.lab import ORGANIZATION, OTHER, Lab
from tests.integration.reconcile.random_facts import State, states

property_of = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@property_of
@given(st.lists(states, min_size=1, max_size=4))
def test_rebuilt_twice_is_rebuilt_once_and_what_is_open_is_what_is_true(
    bench: Lab, history: list[State]
) -> None:
    """Over random states one after the other, each reached with what the one before had left open."""
    for state in history:
        state.write(bench.connection)
        before = {row[0] for row in bench.rows("SELECT id FROM connect.active_notifications")}
        opened, resolved, more = bench.rebuild()
        assert set(bench.open()) == state.wanted() and more is False
        assert len(bench.open()) == len(state.wanted()), "and nothing twice"
        after = {row[0] for row in bench.rows("SELECT id FROM connect.active_notifications")}
        assert (opened, resolved) == (len(after - before), len(before - after))
        once = bench.hub()
        assert bench.rebuild() == (0, 0, False)
        assert bench.hub() == once, "byte for byte: ids, times and texts too"


@property_of
@given(states, states, st.integers(1, 3))
def test_in_pages_it_comes_to_the_same_and_may_stop_after_any_of_them(
    bench: Lab, first: State, second: State, page: int
) -> None:
    first.write(bench.connection)
    bench.rebuild()
    second.write(bench.connection)
    for _ in range(100):
        opened, resolved, more = bench.rebuild(page)
        assert int(str(opened)) <= page and int(str(resolved)) <= page
        if more is False:
            break
    assert set(bench.open()) == second.wanted()
    assert bench.rebuild() == (0, 0, False)


def test_from_many_sessions_at_once_nothing_comes_twice(bench: Lab) -> None:
    bench.instances(500, "provisioning_failed")
    bench.instances(500, "provisioning_failed", organization=OTHER)

    def rebuild(number: int) -> int:
        with psycopg.connect(bench.url, autocommit=True) as connection:
            done = 0
            for _ in range(5):
                page = 100 if number % 2 else None
                row = connection.execute(
                    "SELECT * FROM connect.rebuild_all_system_notifications(%s)", [page]
                ).fetchone()
                assert row is not None
                done += int(str(row[0]))
            return done

    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(rebuild, range(8)))
    assert sum(opened) == 1_000
    bench.connection.execute("UPDATE connect.whatsapp_instances SET state = 'connected'")
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(rebuild, range(8))) == 0
    assert bench.open() == [] and len(bench.hub()) == 1_000


def test_who_waits_for_another_session_sees_what_that_one_wrote(bench: Lab) -> None:
    """Nothing flaps: the second session judges by the time at which its turn came."""
    bench.connection.execute(
        "UPDATE connect.whatsapp_states SET stuck_after = '1 s' WHERE state = 'provisioning'"
    )
    bench.instance(age=timedelta(seconds=0.5))
    with psycopg.connect(bench.url) as first, ThreadPoolExecutor(1) as pool:
        first.execute("SELECT connect.rebuild_all_system_notifications()")
        other = Lab(bench.url)
        second = pool.submit(other.rebuild)
        first.execute("SELECT pg_sleep(1)")
        first.commit()
        assert second.result(10) == (1, 0, False), "in its own time the instance had become stuck"
        other.close()


def test_what_has_healed_and_comes_back_is_a_new_notification(bench: Lab) -> None:
    id_ = bench.instance("provisioning_failed")
    bench.rebuild()
    for state in ("connected", "provisioning_failed"):
        bench.connection.execute(
            "UPDATE connect.whatsapp_instances SET state = %s WHERE id = %s", [state, id_]
        )
        bench.rebuild()
    told = bench.rows("SELECT resolved_at IS NULL FROM connect.system_notifications ORDER BY id")
    assert told == [(False,), (True,)]


def test_a_flood_of_one_tenant_keeps_another_waiting_for_a_page_at_most(bench: Lab) -> None:
    bench.instances(5_000, "provisioning_failed")
    for _ in range(3):
        bench.instance("provisioning_failed", organization=OTHER, age=timedelta(minutes=1))
    bench.rebuild(100)
    order = [
        row[0] for row in bench.rows("SELECT organization_id FROM connect.system_notifications ORDER BY id")
    ]
    assert len(order) == 100 and order[:6] == [ORGANIZATION, OTHER] * 3
    bench.rebuild()
    bench.connection.execute("UPDATE connect.whatsapp_instances SET state = 'connected'")
    bench.rebuild(100)
    healed = bench.rows(
        "SELECT count(*) FROM connect.system_notifications"
        " WHERE resolved_at IS NOT NULL AND organization_id = %s",
        [OTHER],
    )
    assert healed == [(3,)], "in the first hundred of 5,003"


# -- what a person reads

KINDS = {
    *("whatsapp_stuck", "whatsapp_failed", "whatsapp_state_unknown", "dead_letters_open"),
    *("job_running_too_long", "cdc_slot_lagging", "cdc_slot_lost", "no_heartbeat"),
}


def test_every_kind_has_a_text_in_both_languages_and_none_has_a_number_in_it(bench: Lab) -> None:
    texts = bench.rows("SELECT kind, language, title || body FROM connect.notification_texts")
    assert {(kind, language) for kind, language, _ in texts} == {
        (kind, language) for kind in KINDS for language in ("pt-BR", "en")
    }
    assert not any(letter.isdigit() for _, _, text in texts for letter in str(text))


@pytest.mark.parametrize(
    ("language", "title"),
    [
        ("pt-BR", "Um WhatsApp não conseguiu conectar"),
        ("en", "A WhatsApp could not be connected"),
        ("fr", "Um WhatsApp não conseguiu conectar"),
        ("", "Um WhatsApp não conseguiu conectar"),
    ],
)
def test_texts_are_in_the_sessions_language_and_stay_as_they_were_told(
    bench: Lab, language: str, title: str
) -> None:
    bench.instance("provisioning_failed")
    bench.connection.execute("SELECT set_config('connect.language', %s, false)", [language])
    bench.rebuild()
    bench.connection.execute("SELECT set_config('connect.language', 'en', false)")
    assert bench.rebuild() == (0, 0, False), "another session's language rewrites nothing"
    assert bench.rows("SELECT title FROM connect.active_notifications") == [(title,)]


def test_a_kind_without_a_text_is_told_all_the_same(bench: Lab) -> None:
    bench.connection.execute("DELETE FROM connect.notification_texts")
    bench.instance("provisioning_failed")
    bench.rebuild()
    assert bench.rows("SELECT title, severity FROM connect.active_notifications") == [
        ("whatsapp_failed", "warn")
    ]


# -- facts from elsewhere


def test_a_slot_that_holds_too_much_wal_back_is_told_until_it_does_not(bench: Lab) -> None:
    slot = f"s{UUID(int=1).hex[:4]}{bench.connection.info.backend_pid}"
    bench.connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    try:
        assert bench.rebuild() == (0, 0, False)
        bench.connection.execute("CREATE TABLE filler AS SELECT n FROM generate_series(1, 50000) n")
        bench.connection.execute("UPDATE connect.limits SET value = 0.5 WHERE name = 'slot_lag'")
        bench.rebuild()
        assert bench.open() == [(None, "cdc_slot_lagging", slot)]
        bench.connection.execute("UPDATE connect.limits SET value = 100000 WHERE name = 'slot_lag'")
        bench.rebuild()
        assert bench.open() == []
    finally:
        bench.connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def test_a_reconciler_that_was_heard_of_and_is_silent_is_told_by_whoever_rebuilds(bench: Lab) -> None:
    bench.rebuild()
    assert bench.open() == [], "one that never ran is not missing"
    bench.connection.execute(
        "INSERT INTO connect.schedules (name, looked_at) VALUES ('x', now() - interval '1 hour')"
    )
    bench.rebuild()
    assert bench.open() == [(None, "no_heartbeat", "reconciler")]


async def test_who_has_just_woken_up_gives_the_others_time_to_be_heard(bench: Lab) -> None:
    """After a night in which nothing ran it is back first; the others have yet to take their leases."""
    bench.connection.execute(
        "INSERT INTO rajada.leases VALUES ('sweep', 'h', now() - interval '8 h', now() - interval '8 h')"
    )
    async with bench.worker() as worker:
        await worker.ledger.look()
        bench.rebuild()
        assert bench.open() == []
        # eleven minutes later, of which it was awake all the time
        bench.connection.execute("UPDATE connect.schedules SET awake_since = now() - interval '11 min'")
        await worker.ledger.look()
        bench.rebuild()
        assert bench.open() == [(None, "no_heartbeat", "worker")]
        # by hand, when the reconciler itself has fallen silent: both are told
        bench.connection.execute("UPDATE connect.schedules SET looked_at = now() - interval '11 min'")
        await worker.ledger.look(alive=False)
        bench.rebuild()
        assert [subject for _, _, subject in bench.open()] == ["reconciler", "worker"]


def test_a_fact_without_a_limit_is_never_told(bench: Lab) -> None:
    bench.connection.execute(
        "INSERT INTO rajada.leases VALUES ('sweep', 'h', now() - interval '1 day', now() - interval '1 day')"
    )
    bench.connection.execute("DELETE FROM connect.limits")
    assert bench.rebuild() == (0, 0, False)
