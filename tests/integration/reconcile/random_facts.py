"""Random states of all that notifications are about, written to Postgres, with what must be open for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid5

import psycopg
from hypothesis import strategies as st

ORGANIZATIONS = tuple(UUID(int=number) for number in range(1, 5))
KNOWN = ("provisioning", "connected", "provisioning_failed", "deprovisioning", "archived")
STATES = (*KNOWN, "migrating", "Provisioning", "")
LIMITS_MIN = {"provisioning": 15, "deprovisioning": 30}
JOB_LIMIT_MIN = 60
SILENCE_LIMIT_MIN = 10
LEASES = {"sweep": "worker", "alerts": "sink"}
_NAMES = UUID("3f0f5a5e-5a8e-4a53-b1a5-0d1c58c6a0f2")

Open = tuple[UUID | None, str, str]
"""Organization, kind, subject."""


@dataclass(frozen=True)
class Instance:
    number: int
    organization: UUID
    state: str
    minutes: int

    @property
    def id(self) -> UUID:
        return uuid5(_NAMES, f"instance {self.number}")


@dataclass(frozen=True)
class Job:
    number: int
    organization: UUID
    running: bool
    minutes: int

    @property
    def id(self) -> UUID:
        return uuid5(_NAMES, f"job {self.number}")


@dataclass(frozen=True)
class Letter:
    number: int
    organization: UUID | None
    kind: str


@dataclass(frozen=True)
class State:
    """Everything that is true at one moment; no age is near its limit, so that it stays true for a while."""

    instances: tuple[Instance, ...] = ()
    jobs: tuple[Job, ...] = ()
    letters: tuple[Letter, ...] = ()
    silent: tuple[tuple[str, int], ...] = ()
    """Lease and the minutes since when its holder has been silent."""
    slot_gone: bool = False

    def wanted(self) -> set[Open]:
        """What must be open, worked out from the rules and not by SQL."""
        found: set[Open] = set()
        for one in self.instances:
            if one.state == "provisioning_failed":
                found.add((one.organization, "whatsapp_failed", str(one.id)))
            elif one.minutes > LIMITS_MIN.get(one.state, 10**9):
                found.add((one.organization, "whatsapp_stuck", str(one.id)))
            elif one.state not in KNOWN:
                found.add((one.organization, "whatsapp_state_unknown", one.state))
        for organization in ORGANIZATIONS:
            running = [job for job in self.jobs if job.running and job.organization == organization]
            oldest = max(running, key=lambda job: job.minutes, default=None)
            if oldest is not None and oldest.minutes > JOB_LIMIT_MIN:
                found.add((organization, "job_running_too_long", str(oldest.id)))
        for letter in self.letters:
            if letter.kind in ("event_dead", "job_dead"):
                found.add((letter.organization, "dead_letters_open", ""))
        for lease, minutes in self.silent:
            if minutes > SILENCE_LIMIT_MIN:
                found.add((None, "no_heartbeat", LEASES[lease]))
        if self.slot_gone:
            found.add((None, "cdc_slot_lost", "s"))
        return found

    def write(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Make this the state; the notifications are left as they are."""
        with connection.transaction(), connection.cursor() as cursor:
            for table in ("connect.whatsapp_instances", "rajada.troubles", "rajada.leases", "rajada.relay"):
                cursor.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]  # one of these names
            cursor.execute("DELETE FROM job_queue")
            cursor.executemany(
                "INSERT INTO organizations (id) VALUES (%s) ON CONFLICT DO NOTHING",
                [(organization,) for organization in ORGANIZATIONS],
            )
            cursor.executemany(
                "INSERT INTO connect.whatsapp_instances (id, organization_id, state, state_since)"
                " VALUES (%s, %s, %s, now() - %s)",
                [(i.id, i.organization, i.state, timedelta(minutes=i.minutes)) for i in self.instances],
            )
            cursor.executemany(
                "INSERT INTO job_queue (id, organization_id, kind, status, locked_at)"
                " VALUES (%s, %s, 'inbound_turn', %s, now() - %s)",
                [
                    (j.id, j.organization, "running" if j.running else "done", timedelta(minutes=j.minutes))
                    for j in self.jobs
                ],
            )
            cursor.executemany(
                "INSERT INTO rajada.troubles (about, id, kind, title, organization_id, body, said_at)"
                " VALUES (%s, %s, %s, 't', %s, '', now())",
                [(_about(t), str(t.number), t.kind, t.organization) for t in self.letters],
            )
            cursor.executemany(
                "INSERT INTO rajada.leases (name, holder, held_until, rests_until)"
                " VALUES (%s, 'h', now() - %s, now() - %s)",
                [
                    (name, timedelta(minutes=minutes + 1), timedelta(minutes=minutes))
                    for name, minutes in self.silent
                ],
            )
            if self.slot_gone:
                cursor.execute("INSERT INTO rajada.relay (slot, slots_made) VALUES ('s', 1)")


def _about(letter: Letter) -> str:
    return "job" if letter.kind.startswith("job") else "event"


_ages = st.sampled_from([0, 5, 25, 50, 200])
_numbers = st.integers(0, 8)
_organizations = st.sampled_from(ORGANIZATIONS)


def _unique(of: st.SearchStrategy[object], most: int) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(of, max_size=most, unique_by=lambda one: one.number).map(tuple)  # type: ignore[attr-defined]  # each has one


def _different_ages(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Two jobs of one age would leave open which is the oldest."""
    return tuple(Job(j.number, j.organization, j.running, j.minutes + place) for place, j in enumerate(jobs))


states: st.SearchStrategy[State] = st.builds(
    State,
    instances=_unique(st.builds(Instance, _numbers, _organizations, st.sampled_from(STATES), _ages), 9),
    jobs=_unique(
        st.builds(Job, _numbers, _organizations, st.booleans(), st.sampled_from([0, 40, 90, 500])), 6
    ).map(_different_ages),  # type: ignore[arg-type]  # they are jobs
    letters=_unique(
        st.builds(
            Letter,
            _numbers,
            st.one_of(st.none(), _organizations),
            st.sampled_from(["event_dead", "job_dead", "job_unknown_outcome", "out_of_credit"]),
        ),
        5,
    ),
    silent=st.lists(
        st.tuples(st.sampled_from(sorted(LEASES)), st.sampled_from([-1, 3, 30])),
        max_size=2,
        unique_by=lambda one: one[0],
    ).map(tuple),
    slot_gone=st.booleans(),
)
