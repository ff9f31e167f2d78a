"""Three embedded brokers that are one cluster: what one keeps, two others can give when it is gone.

For tests of failover, and to try an installation with replicas on one machine; one process each, about as
much memory as three embedded brokers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

from ops.embedded.folder import DataFolder, open_folder, read_json, write_json
from ops.embedded.java import JavaChoice
from ops.embedded.kafka import EmbeddedKafka
from ops.embedded.kafka_config import new_cluster_id, properties
from ops.embedded.ports import HOST, ports_for
from ops.embedded.server import START_TIMEOUT_S
from ops.errors import StartFailed

SIZE: Final = 3
"""The least number of which one may be gone: the two that are left are a majority."""
_HEAP_MB: Final = 320
_POLL_S: Final = 0.05
STOP_DEADLINE_S: Final = 8.0


class ClusterNode(EmbeddedKafka):
    """One broker and controller of a cluster. `start` brings a killed one back; the others must run.

    Args:
        cluster: whose node.
        number: its id, from 1.
    """

    def __init__(self, cluster: KafkaCluster, number: int, *, java: JavaChoice = "auto") -> None:
        super().__init__(cluster.folder.root / f"node-{number}", java=java, heap_mb=_HEAP_MB)
        self._cluster = cluster
        self.number = number

    @property
    def data(self) -> Path:
        """Where its log is."""
        return self._file("data")

    def _ports(self) -> tuple[int, int]:
        ports = self._cluster.ports()
        return ports[f"kafka_{self.number}"], ports[f"kafka_controller_{self.number}"]

    def _properties(self, data: Path) -> str:
        controllers = self._cluster.controllers()
        return properties(self._port, self._controller_port, data, node=self.number, controllers=controllers)

    def _layout(self) -> list[str]:
        return self._cluster.layout()


class KafkaCluster:
    """A cluster in one data folder, a sub-folder for each node; a `with` block runs it.

    `folder` is as of an embedded broker, `java` chooses whose Java, `size` is the number of nodes: with less
    than three none may be gone.
    """

    def __init__(
        self, folder: DataFolder | Path | str, *, java: JavaChoice = "auto", size: int = SIZE
    ) -> None:
        self.folder = folder if isinstance(folder, DataFolder) else open_folder(folder)
        self._chosen: dict[str, int] = {}
        self.nodes: tuple[ClusterNode, ...] = tuple(
            ClusterNode(self, number, java=java) for number in range(1, size + 1)
        )

    @property
    def bootstrap(self) -> str:
        """What clients take as bootstrap.servers: all nodes, whichever of them are up."""
        return ",".join(node.bootstrap for node in self.nodes)

    def node(self, number: int) -> ClusterNode:
        """The node with this id."""
        return self.nodes[number - 1]

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Run all nodes and wait until each answers. Raises StartFailed, and what `prepare` raises."""
        self._name()
        self.ports()
        self.nodes[0].resolve()  # Java and the jars: one looks and fetches, the others find
        with ThreadPoolExecutor(len(self.nodes)) as pool:  # laying out the data takes seconds of a JVM each
            list(pool.map(ClusterNode.prepare, self.nodes))
        for node in self.nodes:
            node.spawn()
        deadline = time.monotonic() + timeout_s
        for node in self.nodes:
            while not node.answers():
                if node.pid is None or time.monotonic() > deadline:
                    what = f"node {node.number} did not answer within {timeout_s:.0f} s, or ended"
                    told = node.failure(what)
                    self.stop()
                    raise StartFailed(told)
                time.sleep(_POLL_S)
        return self

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Stop all nodes at once, then by force: without a majority the last one can't hand on what it leads.

        What was acknowledged is in their logs either way.
        """
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.stop(deadline_s), self.nodes))

    def controller(self) -> ClusterNode:
        """The node whose controller leads the quorum, as the nodes themselves have written it down."""
        told = [read_json(node.data / "__cluster_metadata-0" / "quorum-state") for node in self.nodes]
        known = [(int(str(one["leaderEpoch"])), int(str(one["leaderId"]))) for one in told if one]
        leaders = [(epoch, leader) for epoch, leader in known if leader > 0]
        if not leaders:
            raise StartFailed("The cluster has no controller: its nodes have not found a majority.")
        return self.node(max(leaders)[1])

    # -- what its nodes ask
    def ports(self) -> dict[str, int]:
        """Every node's two ports, chosen at the first start and kept while this object lives."""
        if not self._chosen:
            names = tuple(
                f"{kind}_{number}"
                for kind in ("kafka", "kafka_controller")
                for number in range(1, len(self.nodes) + 1)
            )
            self._chosen = ports_for(names, self.folder.ports)
        return self._chosen

    def controllers(self) -> Sequence[int]:
        """The ports of the controllers, in the order of the nodes."""
        return [self.ports()[f"kafka_controller_{number}"] for number in range(1, len(self.nodes) + 1)]

    def layout(self) -> list[str]:
        """The cluster's id and its first controllers with the ids of their data, in StorageTool's words."""
        ids = read_json(self._note)
        places = enumerate(self.controllers(), start=1)
        voters = ",".join(f"{number}@{HOST}:{port}:{ids[f'node_{number}']}" for number, port in places)
        return [f"--cluster-id={ids['cluster']}", f"--initial-controllers={voters}"]

    def _name(self) -> None:
        """Give the cluster and its nodes their ids, at the first start."""
        if not read_json(self._note):
            names = ("cluster", *(f"node_{number}" for number in range(1, len(self.nodes) + 1)))
            write_json(self._note, {name: new_cluster_id() for name in names})

    @property
    def _note(self) -> Path:
        return self.folder.root / "cluster.json"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
