"""The servers of a run: three brokers, Postgres behind a network that can be slow, and the stand-ins."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from chaos.stack.disks import SmallDisk
from chaos.stack.network import Network
from ops.embedded.folder import open_folder
from ops.embedded.kafka_cluster import SIZE, KafkaCluster
from ops.embedded.ports import HOST
from ops.embedded.postgres import EmbeddedPostgres
from ops.engine.serving import EngineBeside
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

    def answers(self) -> list[str]:
        """Names of the servers that run."""
        nodes = [f"broker {node.number}" for node in self.cluster.nodes if node.pid is not None]
        return [*nodes, *(["postgres"] if self.postgres.pid is not None else [])]

    def bring_back(self) -> list[str]:
        """Start every server that is away, and wait for it; the names of those that were."""
        back = []
        for node in self.cluster.nodes:
            if node.pid is None:
                node.prepare()
                node.spawn()
                back.append(f"broker {node.number}")
        for node in self.cluster.nodes:
            if f"broker {node.number}" in back:
                node.start()
        if self.postgres.pid is None or not self.postgres.answers():
            self.postgres.start()
            back.append("postgres")
        return back

    def leader_of(self, topic: str) -> int | None:
        """The broker that leads a topic's first partition; None: nobody, or nobody answers."""
        with contextlib.suppress(KafkaException, KeyError):
            admin = self.admin()
            leader = int(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)
            return leader if leader > 0 else None
        return None


@contextmanager
def serving(folder: Path, *, small_disks: bool = True) -> Iterator[Servers]:
    """Run all servers with their data in `folder` (made, and readable for Postgres' user), then stop them."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    with ExitStack() as stack:
        root = open_folder(folder / "kafka")
        broker_disk = SmallDisk(root.root / f"node-{FULL_NODE}", BROKER_DISK if small_disks else None)
        stack.callback(broker_disk.remove)
        postgres_disk = SmallDisk(folder / "postgres", POSTGRES_DISK if small_disks else None)
        stack.callback(postgres_disk.remove)
        postgres = EmbeddedPostgres(folder / "postgres", options=POSTGRES_OPTIONS)
        stack.callback(postgres.destroy)
        postgres.start()
        postgres.ensure_database(DATABASE)
        cluster = stack.enter_context(KafkaCluster(root))
        host, _, port = postgres.listens.rpartition(":")
        network = stack.enter_context(Network(host, int(port)))
        engine = stack.enter_context(EngineBeside())
        engine_port = engine.url.rpartition(":")[2].partition("/")[0]
        engine_network = stack.enter_context(Network(HOST, int(engine_port)))
        whatsapp = stack.enter_context(WhatsAppBeside(token=TOKEN))
        yield Servers(
            folder, cluster, broker_disk, postgres, postgres_disk, network, engine, engine_network, whatsapp
        )


def free_of(folder: Path) -> None:
    """Delete a run's folder, once its servers are gone."""
    shutil.rmtree(folder, ignore_errors=True)
