"""Whole runs on a real Postgres: what they do, what they leave alone, and what a crash leaves behind."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.reconcile.instances import Instance
from streams.reconcile.report import Report
from streams.reconcile.run import Repair, Runner, rebuild
from streams.reconcile.store import Rebuilt, Store
from tests.integration.reconcile.lab import OTHER, Lab, Worker, until
from tests.integration.reconcile.random_facts import State, states


async def test_a_run_moves_what_is_stuck_and_tells_what_failed(bench: Lab) -> None:
    failed, archived = bench.instance("provisioning"), bench.instance("deprovisioning")
    young, well = bench.instance(age=timedelta(minutes=1)), bench.instance("connected")
    async with bench.worker() as worker:
        end, counts = await worker.run()
        assert (end, counts) == (
            "done",
            {"reserved": 2, "moved": 2, "skipped": 0, "opened": 1, "resolved": 0},
        )
        found = [bench.state(one) for one in (failed, archived, young, well)]
        assert found == ["provisioning_failed", "archived", "provisioning", "connected"]
        assert [(kind, subject) for _, kind, subject in bench.open()] == [("whatsapp_failed", failed)]
        # somebody connects it again
        bench.connection.execute(
            "UPDATE connect.whatsapp_instances SET state = 'connected' WHERE id = %s", [failed]
        )
        end, counts = await worker.run()
        assert (end, counts["moved"], counts["resolved"]) == ("done", 0, 1)
    assert bench.open() == []
    moves = bench.rows(
        "SELECT instance_id::text, to_state, reason FROM connect.whatsapp_moves ORDER BY to_state"
    )
    assert moves == [
        (archived, "archived", "deprovisioning_took_too_long"),
        (failed, "provisioning_failed", "provisioning_took_too_long"),
    ]


async def test_br_57_an_old_reconciler_leaves_a_new_state_alone_and_reports_it(bench: Lab) -> None:
    """A rolling deployment: the CRM writes a state that this version doesn't know."""
    new = bench.instance("migrating", age=timedelta(days=3))
    before = bench.rows("SELECT i::text FROM connect.whatsapp_instances i")
    async with bench.worker() as worker:
        firing = await worker.take()
        assert firing is not None
        made = await worker.runner().make(firing)
    assert made.report.unknown == {"migrating": 1} and made.report.reserved == 0
    assert bench.rows("SELECT i::text FROM connect.whatsapp_instances i") == before
    assert [(kind, subject) for _, kind, subject in bench.open()] == [("whatsapp_state_unknown", "migrating")]
    assert bench.value("SELECT facts->'unknown'->>'migrating' FROM connect.firings") == "1"
    # a newer version brings the state
    bench.connection.execute("INSERT INTO connect.whatsapp_states (state) VALUES ('migrating')")
    bench.rebuild()
    assert bench.open() == [] and bench.state(new) == "migrating"


async def test_br_57_what_a_newer_function_hands_out_is_left_alone_too(bench: Lab) -> None:
    """The database is migrated before the process: the function may reserve states that it doesn't know."""

    class Newer(Store):
        calls = 0

        async def reserve(self, batch: int, owner: str, lease_s: float) -> list[Instance]:
            self.calls += 1
            return [Instance(str(uuid4()), str(OTHER), None, "migrating", 1)] if self.calls < 3 else []

        async def move(self, moves: object, firing: object) -> set[str]:
            raise AssertionError("nothing may be moved")

    async with bench.worker() as worker:
        report = Report()
        firing = await worker.take()
        assert firing is not None
        await Repair(Newer(worker.pool), worker.options).make(firing, report)
    assert report.skipped == {"unknown_state": 2} and report.moved == {}


async def test_an_instance_that_postgres_refuses_to_move_holds_no_other_one_up(bench: Lab) -> None:
    """A CRM's own rule may stand against one row; the batch is halved until that one stands alone."""
    bench.instances(99)
    poison = bench.instance(age=timedelta(hours=3))
    bench.connection.execute(
        f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = '{poison}' "
        "AND NEW.state <> OLD.state THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$"
    )
    bench.connection.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE ON connect.whatsapp_instances"
        " FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    async with bench.worker() as worker:
        end, counts = await worker.run()
        assert (end, counts["moved"], counts["skipped"]) == ("done", 99, 1)
        assert bench.state(poison) == "provisioning"
        reasons = bench.value("SELECT facts->'skipped' FROM connect.firings")
        assert reasons == {"refused_by_the_database": 1}
        assert ("whatsapp_stuck", poison) in [(kind, subject) for _, kind, subject in bench.open()]


async def test_a_short_lease_on_what_can_not_be_moved_makes_no_endless_run(bench: Lab) -> None:
    bench.instance()
    bench.connection.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.state <> OLD.state "
        "THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$"
    )
    bench.connection.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE ON connect.whatsapp_instances"
        " FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    async with bench.worker() as worker:
        firing = await worker.take()
        assert firing is not None
        report = Report()

        class Impatient(Store):
            async def reserve(self, batch: int, owner: str, lease_s: float) -> list[Instance]:
                return await super().reserve(batch, owner, 0.0001)

        async with asyncio.timeout(10):
            await Repair(Impatient(worker.pool), worker.options).make(firing, report)
    assert report.reserved == 1


async def test_a_row_that_the_crm_holds_keeps_the_others_waiting_for_a_moment(bench: Lab) -> None:
    """It is locked between our lease and our write, by a transaction that doesn't end."""
    bench.instances(63)
    held = bench.instance(age=timedelta(hours=3))

    class Meanwhile(Store):
        locker: psycopg.Connection | None = None

        async def reserve(self, batch: int, owner: str, lease_s: float) -> list[Instance]:
            found = await super().reserve(batch, owner, lease_s)
            if self.locker is None:
                self.locker = psycopg.connect(bench.url)
                self.locker.execute("SELECT FROM connect.whatsapp_instances WHERE id = %s FOR UPDATE", [held])
            return found

    async with bench.worker() as worker:
        store, report = Meanwhile(worker.pool), Report()
        firing = await worker.take()
        assert firing is not None
        await Repair(store, worker.options).make(firing, report)
        assert store.locker is not None
        store.locker.close()
    assert report.moved.total() == 63 and report.skipped == {"refused_by_the_database": 1}
    assert bench.state(held) == "provisioning"


async def test_trouble_in_the_first_step_does_not_blind_the_hub(bench: Lab) -> None:
    stuck = bench.instance()
    bench.connection.execute("ALTER FUNCTION connect.reserve_whatsapp_reconciliation_lease RENAME TO away")
    async with bench.worker() as worker:
        end, counts = await worker.run()
    assert (end, counts["opened"]) == ("failed", 1)
    assert [(kind, subject) for _, kind, subject in bench.open()] == [("whatsapp_stuck", stuck)]
    assert bench.value("SELECT error FROM connect.firings") == "UndefinedFunction (42883)"


async def test_a_run_that_is_stopped_gives_everything_back_at_once(bench: Lab) -> None:
    bench.instances(50)
    leased = asyncio.Event()

    class Held(Store):
        async def move(self, moves: object, firing: object) -> set[str]:
            leased.set()
            await asyncio.sleep(60)
            return set()

    async with bench.worker() as worker, bench.worker() as other:
        firing = await worker.take()
        assert firing is not None
        runner = Runner(worker.ledger, Held(worker.pool), worker.options)
        making = asyncio.create_task(runner.make(firing))
        await leased.wait()
        assert await other.store.reserve(50, other.owner, 60) == []
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert bench.history() == [("once", "stopped", None)]
        end, counts = await other.run()
        assert (end, counts["moved"]) == ("done", 50)


async def test_a_database_that_goes_away_in_the_middle_fails_the_run_and_the_next_one_completes_it(
    bench: Lab,
) -> None:
    bench.instances(500)

    class Cut(Store):
        batches = 0

        async def move(self, moves: object, firing: object) -> set[str]:
            self.batches += 1
            if self.batches == 3:
                bench.connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            return await super().move(moves, firing)  # type: ignore[arg-type]  # as it was called

    async with bench.worker(batch=100, lease_s=1.0) as worker:
        firing = await worker.take()
        assert firing is not None
        made = await Runner(worker.ledger, Cut(worker.pool), worker.options).make(firing)
        assert made.end == "failed" and made.report.moved.total() == 200

    async with bench.worker() as worker:

        async def all_is_done() -> bool:
            return (
                await worker.take() is not None
                or bench.value("SELECT run_until < now() FROM connect.schedules") is True
            )

        await until(all_is_done)
        bench.connection.execute("UPDATE connect.schedules SET run_until = now()")
        await until(lambda: bench.value("SELECT max(locked_until) < now() FROM connect.whatsapp_instances"))
        end, counts = await worker.run()
    assert (end, counts["moved"], counts["opened"]) == ("done", 300, 500)


# -- a crash between the two steps


async def crash_between_the_steps(worker: Worker) -> None:
    """Step 1 is done, then the process dies: nobody ends its run."""
    firing = await worker.take()
    assert firing is not None
    await Repair(worker.store, worker.options).make(firing, Report())


def hub_without_names(bench: Lab) -> list[tuple[object, ...]]:
    """All that is told, without what differs between two histories of the same facts."""
    return bench.rows(
        "SELECT organization_id, kind, severity, title, body, subject_kind, subject_id"
        " FROM connect.active_notifications ORDER BY kind, subject_id, organization_id"
    )


async def test_after_a_crash_between_the_two_steps_the_next_run_completes_the_state(bench: Lab) -> None:
    failed = bench.instance()
    async with bench.worker(lease_s=1.0) as dead:
        await crash_between_the_steps(dead)
    assert bench.state(failed) == "provisioning_failed" and bench.open() == []
    async with bench.worker() as worker:
        await until(lambda: bench.value("SELECT run_until < now() FROM connect.schedules"))
        end, counts = await worker.run()
    assert (end, counts["moved"], counts["opened"]) == ("done", 0, 1)
    assert [row[1] for row in bench.history()] == ["lost", "done"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(states, states, st.integers(0, 4))
def test_wherever_a_run_is_cut_the_next_one_comes_to_the_same_state(
    bench: Lab, before: State, state: State, steps: int
) -> None:
    """Random states: a run that dies after some batches or pages, then a whole one, beside one that lives."""

    class Dies(Exception):
        pass

    class Mortal(Store):
        left = steps

        async def move(self, moves: object, firing: object) -> set[str]:
            self.step()
            return await super().move(moves, firing)  # type: ignore[arg-type]  # as it was called

        async def rebuild(self, most: int) -> Rebuilt:
            self.step()
            return await super().rebuild(2)

        def step(self) -> None:
            if self.left == 0:
                raise Dies
            self.left -= 1

    async def live(dies: bool) -> list[tuple[object, ...]]:
        bench.connection.execute("TRUNCATE connect.system_notifications")
        bench.connection.execute("DELETE FROM connect.schedules")
        before.write(bench.connection)
        bench.rebuild()
        state.write(bench.connection)
        async with bench.worker(batch=2) as worker:
            if dies:
                try:
                    await Repair(Mortal(worker.pool), worker.options).make(
                        (await worker.take()) or pytest.fail("no firing"), Report()
                    )
                    await rebuild(Mortal(worker.pool), Report(), 2)
                except Dies:
                    pass
                bench.connection.execute("UPDATE connect.whatsapp_instances SET locked_until = now()")
                bench.connection.execute("UPDATE connect.schedules SET run_until = now()")
            end, _ = await worker.run()
            assert end == "done"
            once = bench.hub()
            assert (await worker.run())[1]["opened"] == 0
            assert bench.hub() == once
        return [*hub_without_names(bench), tuple(sorted(map(str, bench.states().items())))]

    assert asyncio.run(live(dies=True)) == asyncio.run(live(dies=False))


# -- a CRM that keeps the instances in a table of its own


def test_a_crms_own_table_can_stand_in_the_place_of_ours_as_a_view(empty_database: str) -> None:
    """docs/reconciler.md tells how; the view is there before the migration."""
    from db.migrate import migrate

    with psycopg.connect(empty_database, autocommit=True) as crm:
        crm.execute(
            "CREATE TABLE wa_numbers (id uuid PRIMARY KEY, org uuid NOT NULL, evolution_name text,"
            " status text NOT NULL, status_at timestamptz NOT NULL DEFAULT now(), made timestamptz)"
        )
        crm.execute("CREATE SCHEMA connect")
        crm.execute(
            "ALTER TABLE wa_numbers ADD COLUMN locked_until timestamptz, ADD COLUMN locked_by text,"
            " ADD COLUMN fencing_token bigint NOT NULL DEFAULT 0"
        )
        crm.execute(
            "CREATE VIEW connect.whatsapp_instances AS SELECT id, org AS organization_id, evolution_name AS"
            " provider_ref, status AS state, status_at AS state_since, locked_until, locked_by,"
            " fencing_token, made AS created_at FROM wa_numbers"
        )
    assert migrate(empty_database, crm="ours")
    bench = Lab(empty_database)
    bench.connection.execute(
        "INSERT INTO wa_numbers (id, org, status, status_at) SELECT gen_random_uuid(), %s, s,"
        " now() - interval '1 day' FROM unnest(ARRAY['provisioning', 'deprovisioning', 'connected']) s",
        [OTHER],
    )

    async def run() -> tuple[str, dict[str, int]]:
        async with bench.worker() as worker:
            return await worker.run()

    end, counts = asyncio.run(run())
    assert (end, counts["moved"], counts["opened"]) == ("done", 2, 1)
    assert dict(bench.rows("SELECT status, count(*) FROM wa_numbers GROUP BY status")) == {  # type: ignore[arg-type]  # pairs
        "provisioning_failed": 1,
        "archived": 1,
        "connected": 1,
    }
    bench.close()


def test_old_rows_are_forgotten_and_open_ones_never(bench: Lab) -> None:
    bench.instance("provisioning_failed")
    bench.rebuild()
    bench.connection.execute(
        "UPDATE connect.system_notifications SET first_seen_at = now() - interval '1 year'"
    )
    bench.connection.execute(
        "INSERT INTO connect.firings (id, schedule, kind, owner, began_at, state)"
        " SELECT gen_random_uuid(), 's', 'once', 'o', now() - days * interval '1 day', 'done'"
        " FROM unnest(ARRAY[1, 89, 91, 400]) days"
    )
    bench.connection.execute(
        "INSERT INTO connect.system_notifications (about, kind, severity, title, body, subject_kind,"
        " subject_id, first_seen_at, resolved_at)"
        " SELECT gen_random_uuid(), 'k', 'warn', '', '', '', '', now(), now() - days * interval '1 day'"
        " FROM unnest(ARRAY[1, 91]) days"
    )

    async def forget() -> int:
        async with bench.worker() as worker:
            return await worker.store.forget()

    assert asyncio.run(forget()) == 3
    assert len(bench.history()) == 2 and len(bench.hub()) == 2 and len(bench.open()) == 1
