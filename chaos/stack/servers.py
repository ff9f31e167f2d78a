"""The servers of a run: three brokers, Postgres behind a network that can be slow, and the stand-ins."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from chaos.stack.disks import SmallDisk
from chaos.stack.isolation import Netem, own_network
from chaos.stack.network import Network
from ops.embedded.folder import open_folder
from ops.embedded.jars import kafka_jars
from ops.embedded.java import find_java
from ops.embedded.kafka_cluster import SIZE, KafkaCluster
from ops.embedded.ports import HOST
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.server import Server
from ops.engine.serving import EngineBeside
from ops.errors import StartFailed
from ops.whatsapp.serving import WhatsAppBeside

DATABASE: Final = "chaos"
FULL_NODE: Final = SIZE
"""The broker whose disk can be filled: the other two are a majority."""
BROKER_DISK: Final = "1200m"
POSTGRES_DISK: Final = "1200m"
POSTGRES_OPTIONS: Final = {
    "max_connections": "200", "max_wal_size": "160MB", "min_wal_size": "80MB", "fsync": "off",
}  # fmt: skip
"""Small enough for its disk; a power failure is not among the faults."""
AGAIN_S: Final = 5.0
"""So long a server that ends at once is left alone."""
START_S: Final = 240.0
"""A busy machine is no failure."""
TOKEN: Final = "stand-in-token"


@dataclass(slots=True)
class Servers:
    """Everything that is not ours, running."""

    folder: Path
    cluster: KafkaCluster
    broker_disk: SmallDisk
    postgres: EmbeddedPostgres
    postgres_disk: SmallDisk
    network: Network
    engine: EngineBeside
    engine_network: Network
    whatsapp: WhatsAppBeside
    netem: Netem
    away: set[int] = field(default_factory=set)
    """Which of them may not be started now."""
    _again_at: dict[int, float] = field(default_factory=dict)

    @property
    def database_url(self) -> str:
        """The database, straight."""
        return self.postgres.url_of(DATABASE)

    @property
    def database_by_network(self) -> str:
        """The database, over the network that can be slow."""
        return f"postgresql://postgres@{HOST}:{self.network.port}/{DATABASE}"

    @property
    def engine_by_network(self) -> str:
        """The engine's turns, over a network that can be slow."""
        port = self.engine.url.rpartition(":")[2].partition("/")[0]
        return self.engine.url.replace(f":{port}/", f":{self.engine_network.port}/")

    def admin(self) -> AdminClient:
        """A client of the cluster, quiet."""
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A connection to the database, each statement its own transaction."""
        return psycopg.connect(self.database_url, autocommit=True, connect_timeout=5)

    def take(self, *servers: Server) -> None:
        """These are killed or stopped by us, and stay away until they are given back."""
        self.away |= {id(one) for one in servers}

    def give_back(self) -> None:
        """All are to run again; `keep_up` starts them."""
        self.away.clear()

    def keep_up(self) -> None:
        """Start what has ended and is to run; doesn't wait. They end with the thread that calls this."""
        for one in (*self.cluster.nodes, self.postgres):
            if (
                one.pid is None
                and id(one) not in self.away
                and time.monotonic() >= self._again_at.get(id(one), 0)
            ):
                self._again_at[id(one)] = time.monotonic() + AGAIN_S
                with contextlib.suppress(StartFailed, OSError):  # its disk may be the one that is full
                    one.prepare()
                    one.spawn()

    def up(self) -> bool:
        """Whether all servers answer."""
        return all(one.pid is not None and one.answers() for one in (*self.cluster.nodes, self.postgres))

    def leader_of(self, topic: str) -> int | None:
        """The broker that leads a topic's first partition; None: nobody, or nobody answers."""
        with contextlib.suppress(KafkaException, KeyError):
            admin = self.admin()
            leader = int(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)
            return leader if leader > 0 else None
        return None


@contextmanager
def serving(folder: Path, *, small_disks: bool = True, brokers: int = SIZE) -> Iterator[Servers]:
    """Run all servers with their data in `folder` (made, and readable for Postgres' user), then stop them.

    They get a network of their own if that is allowed; so this is called before any thread is started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    with ExitStack() as stack:
        root = open_folder(folder / "kafka")
        find_java("auto")
        kafka_jars(root)  # perhaps fetched, while there is a network
        netem = Netem(own_network())
        broker_disk = SmallDisk(root.root / f"node-{FULL_NODE}", BROKER_DISK if small_disks else None)
        stack.callback(broker_disk.remove)
        postgres_disk = SmallDisk(folder / "postgres", POSTGRES_DISK if small_disks else None)
        stack.callback(postgres_disk.remove)
        postgres = EmbeddedPostgres(folder / "postgres", options=POSTGRES_OPTIONS)
        stack.callback(postgres.destroy)
        postgres.start(START_S)
        postgres.ensure_database(DATABASE)
        cluster = KafkaCluster(root, size=brokers)
        stack.callback(cluster.stop)
        cluster.start(START_S)
        host, _, port = postgres.listens.rpartition(":")
        network = stack.enter_context(Network(host, int(port)))
        engine = stack.enter_context(EngineBeside())
        engine_port = engine.url.rpartition(":")[2].partition("/")[0]
        engine_network = stack.enter_context(Network(HOST, int(engine_port)))
        whatsapp = stack.enter_context(WhatsAppBeside(token=TOKEN))
        yield Servers(
            folder,
            cluster,
            broker_disk,
            postgres,
            postgres_disk,
            network,
            engine,
            engine_network,
            whatsapp,
            netem,
        )
