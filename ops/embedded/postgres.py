"""The embedded Postgres: an installed server or the wheel's, with logical decoding on, on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ops.embedded.folder import DataFolder
from ops.embedded.ports import HOST, is_open
from ops.embedded.postgres_place import Place, find_place, give, remove_place
from ops.embedded.postgres_programs import ENVIRONMENT, PostgresChoice, Programs, find_programs, run_as
from ops.embedded.server import Server
from ops.errors import CannotRunHere

USER = "postgres"
_CONNECT_TIMEOUT_S = 2
_STRAY_PATIENCE_S = 5.0

_SERVER_OPTIONS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    # a slot that nobody reads must not fill the disk; the relay says so and back-fills
    "max_slot_wal_keep_size": "4GB",
}
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres(Server):
    """One Postgres in a data folder; user `postgres`, no password, on loopback alone.

    `choice` says whose programs, `options` are server settings that go before ours. `durable=False` is for
    tests: no safety against a power failure, and the data are deleted when its `with` block ends.
    """

    name: ClassVar[str] = "postgres"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT
    died_signal = signal.SIGINT

    def __init__(
        self,
        folder: DataFolder | Path | str,
        *,
        choice: PostgresChoice = "auto",
        durable: bool = True,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder)
        self._choice: PostgresChoice = choice
        self._durable = durable
        self._options = {**_SERVER_OPTIONS, **({} if durable else _NOT_DURABLE), **(options or {})}
        self._place: Place | None = None
        self._programs: Programs | None = None

    @property
    def url(self) -> str:
        """libpq URL of the superuser on the database `postgres`."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """libpq URL of the superuser on `database`."""
        return f"postgresql://{USER}@{self.listens}/{database}"

    @property
    def listens(self) -> str:
        """host:port of the server."""
        return f"{HOST}:{self._port}"

    @property
    def programs(self) -> Programs:
        """The programs that are run; known after `prepare`."""
        assert self._programs is not None, "prepare() comes first"
        return self._programs

    @property
    def data(self) -> Path:
        """Postgres' own data folder; known after `prepare`."""
        assert self._place is not None, "prepare() comes first"
        return self._place.data

    def ensure_database(self, name: str) -> str:
        """The URL of the database `name`, which is made if absent."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            if found is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url_of(name)

    def command(self) -> Sequence[str]:
        """The server's command line."""
        options = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        return [str(self.programs.postgres), "-D", str(self.data), "-p", str(self._port), *options]

    def environment(self) -> dict[str, str]:
        """A fixed one: no locale, no PG… variable of ours may change what the server does."""
        return ENVIRONMENT

    def answers(self) -> bool:
        """Whether the server on our port takes a statement, and is the one of our data."""
        if not is_open(self._port):
            return False
        import psycopg

        try:
            with psycopg.connect(self.url, connect_timeout=_CONNECT_TIMEOUT_S) as connection:
                found = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return found is not None and found[0] == str(self.data)

    def destroy(self) -> None:
        """Stop it and delete its data, also where the data stands outside of the data folder."""
        self.stop()
        remove_place(self.folder.postgres)

    def __exit__(self, *error: object) -> None:
        if self._durable:
            self.stop()
        else:
            self.destroy()

    # -- before the process
    def _prepare(self) -> None:
        self._place = find_place(self.folder.postgres)
        self.identity = self._place.identity
        if self._programs is None:
            self._programs = find_programs(
                self._choice, self.identity, self._place.folder / "programs", _major_of(self.data)
            )
        if not (self.data / "PG_VERSION").exists():
            self._initialise(self._place)
        elif self.pid is None:
            _clear_strays(self.data)

    def _initialise(self, place: Place) -> None:
        """initdb; under another name first, so that half a database is never taken for one."""
        draft = place.folder / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        give(draft, place.identity)
        options = ["-U", USER, "--auth=trust", "-E", "UTF8", "--locale=C", "-N"]
        done = run_as(place.identity, [str(self.programs.initdb), "-D", str(draft), *options])
        if done is None or done.returncode != 0:
            told = "it could not be run" if done is None else (done.stdout + done.stderr)[-1500:]
            raise CannotRunHere(f"Postgres {self.programs.major} could not make its data in {draft}:\n{told}")
        draft.replace(place.data)


def _major_of(data: Path) -> int | None:
    """The major version that made `data`; None when there is none."""
    try:
        return int((data / "PG_VERSION").read_text())
    except (OSError, ValueError):
        return None


def _clear_strays(data: Path) -> None:
    """End what still works in `data` (Linux), then drop the pid file that a killed server left.

    Backends of a killed server end by themselves within milliseconds, but a new one won't start before. The
    pid in the file may by now be another process': Postgres would refuse to start because of it.
    """
    if not Path("/proc/self/cwd").exists():
        return
    deadline = time.monotonic() + _STRAY_PATIENCE_S
    while strays := _working_in(data.resolve()):
        if time.monotonic() > deadline:
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            deadline += _STRAY_PATIENCE_S
        time.sleep(0.02)
    (data / "postmaster.pid").unlink(missing_ok=True)


def _working_in(data: Path) -> list[int]:
    """Postgres' processes of `data`: all of them have it as their working folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                ours = (entry / "cwd").readlink() == data
                if ours and (entry / "comm").read_text().startswith("postgres"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
