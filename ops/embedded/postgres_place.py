"""As whom Postgres runs, and where its data is then.

Postgres refuses to run as root. So root hands it to `postgres` or `nobody`, who must be able to reach the
data: not under a home of mode 0700. Then the data stands elsewhere and the data folder keeps a note of it.
Whoever may connect to Postgres on loopback can do what its user can: one more reason not to be root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from ops.embedded.folder import read_json, write_json
from ops.embedded.postgres_programs import run_as
from ops.embedded.process import OURSELVES, Identity
from ops.errors import CannotRunHere

log = structlog.get_logger(__name__)

_USERS = ("postgres", "nobody")
_ELSEWHERE = (Path("/var/lib/rajada"), Path("/var/tmp"))  # noqa: S108 - the folder made there has a random name
_IN_ITS_OWN_NAMESPACE = Identity(prefix=("unshare", "--user", "--map-user=1000", "--map-group=1000"))
"""Root of a container that may not change its user can still look like one to Postgres."""


@dataclass(frozen=True, slots=True)
class Place:
    """As whom Postgres runs, and the folder that holds `data` (and copied programs)."""

    identity: Identity
    folder: Path

    @property
    def data(self) -> Path:
        """Postgres' data folder, mode 0700, owned by the identity."""
        return self.folder / "data"


def find_place(home: Path) -> Place:
    """Where the Postgres of the part `home` of a data folder keeps its data, and as whom it runs.

    Data that is there already keeps its owner and place. Raises CannotRunHere when root can't step down.
    """
    note = home / "place.json"
    noted = read_json(note).get("folder")
    folder = Path(noted) if isinstance(noted, str) else home
    if (folder / "data").exists():
        return Place(_owner(folder / "data"), folder)
    if folder != home:
        log.warning("postgres_data_gone", folder=str(folder), what="a new, empty database is made")
    for identity in _identities():
        for base in _bases(home, identity):
            place = _try(identity, base, home)
            if place is not None:
                write_json(note, {"folder": str(place.folder)})
                return place
    raise CannotRunHere(
        "Postgres does not run as root, and this root may neither become another user nor make a user "
        "namespace. Run Rajada as an ordinary user, or set DATABASE_URL to a Postgres that runs already."
    )


def remove_place(home: Path) -> None:
    """Delete the data and, if it stands elsewhere, the folder made for it."""
    noted = read_json(home / "place.json").get("folder")
    folder = Path(noted) if isinstance(noted, str) else home
    shutil.rmtree(folder / "data", ignore_errors=True)
    # only what find_place made: it writes the name of its home into such a folder
    if folder != home and _belongs(folder, home):
        shutil.rmtree(folder, ignore_errors=True)
    (home / "place.json").unlink(missing_ok=True)


def give(path: Path, identity: Identity) -> None:
    """Make `path` the identity's own."""
    if identity.uid is not None and identity.gid is not None:
        os.chown(path, identity.uid, identity.gid)


def _owner(data: Path) -> Identity:
    """As whom data that exists is run: its owner."""
    if os.geteuid() != 0:
        return OURSELVES
    found = data.stat()
    return _IN_ITS_OWN_NAMESPACE if found.st_uid == 0 else Identity(found.st_uid, found.st_gid)


def _identities() -> Iterator[Identity]:
    if os.geteuid() != 0:
        yield OURSELVES
        return
    for name in _USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        identity = Identity(entry.pw_uid, entry.pw_gid)
        if _works(identity):
            yield identity
    if _works(_IN_ITS_OWN_NAMESPACE):
        yield _IN_ITS_OWN_NAMESPACE


def _works(identity: Identity) -> bool:
    done = run_as(identity, ["/bin/true"])
    return done is not None and done.returncode == 0


def _bases(home: Path, identity: Identity) -> Iterator[Path]:
    yield home
    if identity.uid is not None:
        yield from _ELSEWHERE
        yield Path(tempfile.gettempdir())


def _try(identity: Identity, base: Path, home: Path) -> Place | None:
    """A place under `base` that `identity` can really write, or None."""
    try:
        if base == home:
            folder = home
        else:
            base.mkdir(mode=0o755, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=base))
            folder.chmod(0o755)
            (folder / "home").write_text(f"{home}\n")
        probe = folder / "probe"
        probe.mkdir(mode=0o700, exist_ok=True)
        give(probe, identity)
    except OSError:
        return None
    done = run_as(identity, ["/bin/sh", "-c", 'cd "$0" && : > written && rm written', str(probe)])
    probe.rmdir()
    if done is not None and done.returncode == 0:
        return Place(identity, folder)
    if folder != home:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _belongs(folder: Path, home: Path) -> bool:
    try:
        return (folder / "home").read_text().strip() == str(home)
    except OSError:
        return False
