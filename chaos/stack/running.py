"""One installation on its servers, under load: what faults are done to and what the auditor reads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

import psycopg
from confluent_kafka import KafkaException

from chaos.stack.clock import Clocks
from chaos.stack.plan import PROCESSES
from chaos.stack.processes import Processes
from chaos.stack.reading import SourceLog
from chaos.stack.recorder import BURSTS, Recorder
from chaos.stack.servers import TOKEN, Servers
from db.migrate import migrate
from db.queries import load
from db.tokens import new_token
from ops.clinic import Clinic, Patient
from ops.engine.scenario import Scenario
from schemas.topic_names import SOURCE
from settings import Settings
from streams.topics import ensure_topics

PREFIX: Final = "chaos."
WINDOW_MS: Final = 1_000
PARTITIONS: Final = 6
SESSION_S: Final = 10.0
"""A record has 0.8 of it to be durable: more than the cluster needs to notice a dead broker (3 s)."""
NORMAL: Final = Scenario(delay_ms=60)
REFUSED_ONE_IN: Final = 40
"""So many contacts' turns can never be answered: their jobs die, with a letter and an alert."""
RATED_ONE_IN: Final = 15
"""So many contacts' turns are answered `429` once."""

ENVIRONMENT: Final = {
    "RAJADA_TOPIC_PREFIX": PREFIX,
    "RAJADA_SLOT": "chaos",
    "RAJADA_PUBLICATION": "chaos",
    "RAJADA_LOG_FORMAT": "json",
    "RAJADA_PARTITIONS": str(PARTITIONS),
    "RAJADA_SESSION_TIMEOUT_S": str(SESSION_S),
    "RAJADA_PERSON_SPACING_MS": "0",
    "RAJADA_CHANNEL_RATE_PER_S": "0",
    "RAJADA_STOP_GRACE_S": "1",
    "RAJADA_HANDOVER_GRACE_S": "0.2",
    "RAJADA_SWEEP_EVERY_S": "3",
    "EVENT_REAP_MS": "15000",
    "RAJADA_ALERTS_EVERY_S": "3",
    "AGENT_ENGINE_READ_TIMEOUT_S": "12",
    "AGENT_ENGINE_TIMEOUT_S": "15",
    "WHATSAPP_PHONE_NUMBER_ID": "1055",
    "WHATSAPP_ACCESS_TOKEN": TOKEN,
    "RAJADA_WHATSAPP_RATE_PER_S": "100000",
    "GROUP_LINK_RETRY_DELAY_MS": "1000",
    "RAJADA_WEB_PORT": "0",
    "RAJADA_WEB_RATE_PER_S": "0",
}


@dataclass(slots=True)
class Running:
    """Servers, processes, load."""

    servers: Servers
    processes: Processes
    recorder: Recorder
    source: SourceLog
    clocks: Clocks
    group: str
    restored: bool = False
    hung: list[str] = field(default_factory=list)
    """Processes that did not get ready in minutes, though all servers answered."""
    prefix: str = PREFIX

    def wait(self, seconds: float) -> None:
        """Let time pass, and start again what dies meanwhile."""
        self.until(lambda: False, seconds)

    def until(self, condition: Callable[[], bool], seconds: float, every: float = 0.1) -> bool:
        """Wait until something holds, starting again what dies; False: it didn't in time.

        A condition that can't be asked, since a server is away, doesn't hold.
        """
        deadline = time.monotonic() + seconds
        while True:
            self.servers.keep_up()
            self.processes.supervise()
            with contextlib.suppress(psycopg.Error, KafkaException, TimeoutError):
                if condition():
                    return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(every, max(0.0, deadline - time.monotonic())))

    def count(self, query: str, *parameters: object) -> int:
        """The number that a query gives."""
        with self.servers.connect() as connection:
            row = connection.execute(query, parameters or None).fetchone()
            return int(str(row[0])) if row is not None and row[0] is not None else 0


@contextmanager
def under_load(
    servers: Servers,
    *,
    rate: float,
    contacts: int,
    seed: int,
    links: bool = True,
    clocks: bool = False,
    remember: bool = True,
    bursts: Sequence[int] = BURSTS,
    settings: Mapping[str, str] = {},
) -> Iterator[Running]:
    """Migrate, make topics, start all processes and begin to write; ends all of it.

    Args:
        servers: where it runs.
        rate: messages a second.
        contacts: so many contacts, each with a conversation.
        seed: whose turn it is comes from it.
        links: ask for group links, too.
        remember: the recorder knows each event, not only how many.
        bursts: how many messages a contact writes in one go, each as often as it stands here.
        clocks: processes' clocks can be set.
        settings: further ones for all processes, or in place of these here.
    """
    migrate(servers.database_url, crm="ours")
    replicas = len(servers.cluster.nodes)
    environment = {
        **ENVIRONMENT,
        "RAJADA_REPLICATION_FACTOR": str(replicas),
        "KAFKA_BOOTSTRAP_SERVERS": servers.cluster.bootstrap,
        "DATABASE_URL": servers.database_by_network,
        "AGENT_ENGINE_URL": servers.engine_by_network,
        "WHATSAPP_API_URL": servers.whatsapp.url,
        **settings,
    }
    ensure_topics(
        servers.cluster.bootstrap,
        Settings(topic_prefix=PREFIX, replication_factor=replicas, partitions=PARTITIONS),
    )
    dials = Clocks(servers.folder / "clocks")
    if clocks:
        dials.use()
    processes = Processes(servers.folder / "processes", environment)
    clinic, patients, token, school = found(servers, contacts)
    treat_contacts(servers, patients)
    source = SourceLog(servers.cluster.bootstrap, f"{PREFIX}{SOURCE}")
    recorder = Recorder(servers.connect, clinic, patients, rate, seed, bursts, remember)
    running = Running(servers, processes, recorder, source, dials, f"{PREFIX}rajada-dispatch")
    try:
        for name in PROCESSES:
            processes.own[name] = dials.environment(name)
        processes.start(*PROCESSES)
        if late := processes.wait_ready(*PROCESSES):
            raise TimeoutError(f"{late[0]} did not get ready:\n{processes.tail(late[0])}")
        recorder.start()
        if links:
            recorder.enrol(lambda: processes.told("web"), token, school)
        yield running
    finally:
        recorder.stop()
        processes.stop()


def found(servers: Servers, contacts: int) -> tuple[Clinic, Sequence[Patient], str, str]:
    """A clinic with its contacts, and a school with a token: clinic, contacts, token, school."""
    with servers.connect() as connection:
        clinic = Clinic.found(connection, name="chaos", debounce_ms=WINDOW_MS)
        patients = clinic.register(connection, [f"p{number}" for number in range(contacts)])
        school, token = uuid4(), new_token()
        connection.execute(
            "INSERT INTO organizations (id, name, status) VALUES (%s, 'school', 'active')", [school]
        )
        values = {"id": token.id, "organization_id": school, "name": "", "made_by": None}
        connection.execute(load("tokens_add"), {**values, "secret_sha256": token.digest})
    return clinic, patients, token.text, str(school)


def treat_contacts(servers: Servers, patients: Sequence[Patient]) -> None:
    """Most are answered, some are never, some at the second try."""
    servers.engine.treat(NORMAL)
    for patient in patients[::REFUSED_ONE_IN]:
        servers.engine.treat(Scenario(mode="fail", status=422), patient.contact_id)
    for patient in patients[1::RATED_ONE_IN]:
        servers.engine.treat(Scenario(mode="rate", retry_after="1", times=1, delay_ms=20), patient.contact_id)


def room_for(folder: Path) -> Path:
    """A folder for a run that Postgres' user may reach."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    return folder
