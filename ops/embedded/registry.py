"""The embedded schema registry: Apicurio's own application, on the same Java as the embedded Kafka.

Its schemas are in memory: for trials and tests. What is registered there is registered again in a moment.
"""

from __future__ import annotations

import os
import shutil
import signal
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

import httpx

from ops.embedded.folder import DataFolder
from ops.embedded.jars import explain, fetching
from ops.embedded.java import Java, JavaChoice, base_flags, environment, find_java
from ops.embedded.ports import HOST, is_open
from ops.embedded.server import Server
from ops.errors import CannotRunHere

VERSION: Final = "2.6.13.Final"
_GROUP: Final = "io.apicurio"
_ARTIFACT: Final = "apicurio-registry-app"
_ASK_TIMEOUT_S: Final = 2.0


class EmbeddedRegistry(Server):
    """One registry; `url` is what SCHEMA_REGISTRY_URL takes. `heap_mb` bounds its heap, MiB."""

    name: ClassVar[str] = "registry"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    died_signal = signal.SIGKILL

    def __init__(
        self, folder: DataFolder | Path | str, *, java: JavaChoice = "auto", heap_mb: int = 256
    ) -> None:
        super().__init__(folder)
        self._choice: JavaChoice = java
        self._java: Java | None = None
        self.heap_mb = heap_mb
        self._application = Path()

    @property
    def url(self) -> str:
        """Its interface that is Confluent's."""
        return f"http://{self.listens}/apis/ccompat/v7"

    @property
    def listens(self) -> str:
        """host:port of its HTTP listener."""
        return f"{HOST}:{self._port}"

    def command(self) -> Sequence[str]:
        """The JVM's command line."""
        assert self._java is not None, "prepare() comes first"
        return [
            str(self._java.executable),
            *base_flags(self._java.release, self.heap_mb),
            f"-Dquarkus.http.host={HOST}",
            f"-Dquarkus.http.port={self._port}",
            "-Dquarkus.log.level=WARN",
            "-jar",
            str(self._application),
        ]

    def environment(self) -> dict[str, str]:
        """Ours, without what would change the JVM's flags."""
        return environment(os.environ)

    def answers(self) -> bool:
        """Whether it tells its subjects."""
        if not is_open(self._port):
            return False
        try:
            told = httpx.get(f"{self.url}/subjects", timeout=_ASK_TIMEOUT_S, trust_env=False)
        except httpx.HTTPError:
            return False
        return told.is_success

    def _prepare(self) -> None:
        self._java = self._java or find_java(self._choice)
        self._application = application(self.folder)


def application(folder: DataFolder) -> Path:
    """The jar that is started, beside those that it needs; fetched once, unpacked once, then kept.

    Raises CannotRunHere.
    """
    try:
        with fetching(folder) as ours:
            place = ours / f"{_ARTIFACT}-{VERSION}"
            if not place.exists():
                draft = place.with_suffix(".new")
                shutil.rmtree(draft, ignore_errors=True)
                with zipfile.ZipFile(_fetched()) as packed:
                    packed.extractall(draft)
                draft.replace(place)
    except (OSError, zipfile.BadZipFile) as error:
        raise CannotRunHere(
            f"Apicurio's registry could not be unpacked: {error}. Free some space."
        ) from error
    return place / f"{_ARTIFACT}-{VERSION}-runner.jar"


def _fetched() -> Path:
    from jgo.maven import MavenContext

    try:
        version = MavenContext().project(_GROUP, _ARTIFACT).at_version(VERSION)
        return Path(version.artifact(classifier="all", packaging="zip").resolve())
    # jgo lets through whatever its HTTP client and its own checks raise
    except Exception as error:
        raise CannotRunHere(explain(f"{_GROUP}:{_ARTIFACT}:{VERSION}", error)) from error
