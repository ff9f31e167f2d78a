"""The embedded Kafka Connect with Debezium's connector, on the same Java as the embedded Kafka."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import httpx

from ops.cdc.files import WORKER, shipped
from ops.embedded.archive import archive_of
from ops.embedded.connect_config import LOGGING, replaced
from ops.embedded.folder import DataFolder
from ops.embedded.jars import connect_jars, debezium_jars
from ops.embedded.java import Java, JavaChoice, base_flags, environment, find_java, use_flags
from ops.embedded.kafka_config import escaped
from ops.embedded.ports import HOST, is_open
from ops.embedded.server import Server

_ASK_TIMEOUT_S = 1.0


class EmbeddedConnect(Server):
    """One worker of Kafka Connect; its state is in Kafka, so its part of the folder can be made again.

    `worker_environment` is asked at each start for what `deploy/connect/worker.properties` reads. `java`
    chooses whose Java (or is one that was found), `heap_mb` bounds its heap, MiB; `properties` replace lines
    of that file, `extra_flags` are for training (ops.embedded.training).
    """

    name: ClassVar[str] = "connect"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    died_signal = signal.SIGTERM

    def __init__(
        self,
        folder: DataFolder | Path | str,
        worker_environment: Callable[[], Mapping[str, str]],
        *,
        java: JavaChoice | Java = "auto",
        heap_mb: int = 384,
        properties: Mapping[str, str] | None = None,
        extra_flags: tuple[str, ...] = (),
    ) -> None:
        super().__init__(folder)
        self._worker_environment = worker_environment
        self._java = java
        self.heap_mb = heap_mb
        self._properties = dict(properties or {})
        self._extra_flags = extra_flags
        self._jars: tuple[Path, ...] = ()

    @property
    def java(self) -> Java:
        """The Java that runs it; known after `resolve`."""
        assert isinstance(self._java, Java), "resolve() comes first"
        return self._java

    @property
    def url(self) -> str:
        """Where its REST interface is."""
        return f"http://{HOST}:{self._port}"

    @property
    def listens(self) -> str:
        """The same: it is what its clients want to know."""
        return self.url

    @property
    def archive(self) -> Path:
        """Where the archive of this Java, these jars and these flags is, or will be once trained."""
        return archive_of(self.folder.cache, self.java, self._jars, self._flags(), self.name)

    def command(self) -> Sequence[str]:
        """The worker's command line, from its archive if there is one."""
        archive = self.archive
        flags = self._extra_flags
        if not flags and archive.exists():
            flags = use_flags(self.java.release, archive)
        path = os.pathsep.join(str(jar) for jar in self._jars)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        worker = str(self._file("worker.properties"))
        return [str(self.java.executable), *self._flags(), *flags, "-cp", path, main, worker]

    def environment(self) -> dict[str, str]:
        """Ours, without what would change the JVM's flags, with what the worker's file reads."""
        return environment({**os.environ, **self._worker_environment()})

    def answers(self) -> bool:
        """Whether the worker has started whole and takes requests."""
        if not is_open(self._port):
            return False
        try:
            return httpx.get(f"{self.url}/health", timeout=_ASK_TIMEOUT_S, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def resolve(self) -> None:
        """Find the Java and the jars; CannotRunHere when one of them can't be had."""
        if not isinstance(self._java, Java):
            self._java = find_java(self._java)
        self._jars = connect_jars(self.folder)

    def _prepare(self) -> None:
        worker = shipped(WORKER)
        self.resolve()
        plugins = self._plugins()
        self._file("log4j2.properties").write_text(LOGGING)
        ours = {"listeners": self.url, "plugin.path": escaped(plugins), **self._properties}
        self._file("worker.properties").write_text(replaced(worker, ours))

    def _plugins(self) -> Path:
        """A folder with Debezium's jars and nothing else, made anew: two versions must not meet."""
        plugins = self._file("plugins")
        shutil.rmtree(plugins, ignore_errors=True)
        debezium = plugins / "debezium"
        debezium.mkdir(parents=True)
        for jar in debezium_jars(self.folder):
            (debezium / jar.name).symlink_to(jar)
        return plugins

    def _flags(self) -> tuple[str, ...]:
        return (
            *base_flags(self.java.release, self.heap_mb),
            f"-Dlog4j2.configurationFile={self._file('log4j2.properties')}",
            "-Dlog4j2.disable.jmx=true",
        )

    def _file(self, name: str) -> Path:
        return self.folder.root / self.name / name
