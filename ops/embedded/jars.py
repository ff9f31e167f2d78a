"""Jars of Kafka, Kafka Connect and Debezium, fetched once by jgo and remembered; then no network needed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ops.embedded.folder import DataFolder, read_json, write_json
from ops.errors import CannotRunHere

KAFKA_VERSION = "4.1.1"
KAFKA = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
CONNECT = f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}"
"""Kafka's own tools, among which Kafka Connect is."""
DEBEZIUM_VERSION = "3.6.1.Final"
DEBEZIUM = f"io.debezium:debezium-connector-postgres:{DEBEZIUM_VERSION}"
LOGGING = "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"
_LOGGING_JAR = "log4j-slf4j-impl-"


def kafka_jars(folder: DataFolder) -> tuple[Path, ...]:
    """The class path of the broker; resolved on the first call, then read from the folder's cache.

    Raises CannotRunHere when something has to be fetched and can't be.
    """
    return _remembered(folder, f"kafka-{KAFKA_VERSION}", KAFKA, bridge=True)


def connect_jars(folder: DataFolder) -> tuple[Path, ...]:
    """The class path of Kafka Connect; otherwise as `kafka_jars`."""
    return _remembered(folder, f"connect-{KAFKA_VERSION}", CONNECT, bridge=True)


def debezium_jars(folder: DataFolder) -> tuple[Path, ...]:
    """What stands in the plugin folder of Debezium's connector; otherwise as `kafka_jars`."""
    return _remembered(folder, f"debezium-{DEBEZIUM_VERSION}", DEBEZIUM, bridge=False)


def _remembered(folder: DataFolder, name: str, coordinate: str, *, bridge: bool) -> tuple[Path, ...]:
    """The jars of a coordinate, with the bridge to the log if asked for; `name`: of the note in the cache."""
    note = folder.cache / f"{name}-jars.json"
    known = read_json(note).get("jars")
    if isinstance(known, list):
        jars = tuple(Path(str(jar)) for jar in known)
        if jars and all(jar.is_file() for jar in jars):
            return jars
    # one coordinate at a time: resolved together, the versions of shared dependencies change and the broker
    # dies with NoSuchMethodError; of the second only the bridge itself is wanted
    try:
        with fetching(folder) as ours:
            logging = [jar for jar in _fetch(LOGGING) if jar.name.startswith(_LOGGING_JAR)] if bridge else []
            kept = [_kept(jar, ours) for jar in logging]
            jars = (*(_kept(jar, ours / name) for jar in _fetch(coordinate)), *kept)
    except OSError as error:
        raise CannotRunHere(explain(coordinate, error)) from error
    write_json(note, {"jars": [str(jar) for jar in jars]})
    return jars


def _kept(jar: Path, ours: Path) -> Path:
    """The jar in a folder of ours: jgo empties an environment with modules, as the bridge's and Connect's,
    whenever it is asked for it, and a Java that is just starting out of it finds nothing any more."""
    kept, jar = ours / jar.name, jar.resolve()
    if not kept.is_file() or kept.stat().st_size != jar.stat().st_size:
        ours.mkdir(exist_ok=True)
        draft = kept.with_suffix(".new")
        draft.unlink(missing_ok=True)
        try:
            draft.hardlink_to(jar)
        except OSError:  # another file system, or one without links
            shutil.copyfile(jar, draft)
        draft.replace(kept)
    return kept


@contextlib.contextmanager
def _alone() -> Iterator[Path]:
    """Only one process fetches at a time, since jgo makes its environments in place; gives a folder of ours.

    It is beside jgo's and not in the data folder: a Java in an ASCII locale finds no jar under a name with
    accents.
    """
    ours = Path(os.environ.get("JGO_CACHE_DIR") or _home() / ".cache" / "jgo") / "rajada"
    ours.mkdir(parents=True, exist_ok=True)
    with (ours / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield ours


@contextlib.contextmanager
def fetching(folder: DataFolder) -> Iterator[Path]:
    """Fetch within the block: alone, into caches that can be written; gives a folder of ours beside them."""
    with _places(folder), _alone() as ours:
        yield ours


def _fetch(coordinate: str) -> list[Path]:
    import jgo

    try:
        return [Path(jar) for jar in jgo.build(coordinate).all_jars]
    # jgo lets through whatever its HTTP client, its XML reader and its own checks raise
    except Exception as error:
        raise CannotRunHere(explain(coordinate, error)) from error


def explain(coordinate: str, error: BaseException) -> str:
    """Why `coordinate` could not be fetched, and what helps."""
    told = f"{type(error).__name__}: {error}"
    # an HTTP client wraps its errors several times, what really happened stands last
    cause = told.rpartition("Caused by ")[2]
    message = f"{coordinate} could not be fetched ({cause[:200]}). "
    if "CERTIFICATE" in told.upper() or "SSL" in told.upper():
        return message + (
            "The server's certificate isn't trusted here: behind a proxy with its own authority set "
            "REQUESTS_CA_BUNDLE to the file with that authority's certificate."
        )
    if isinstance(error, OSError) and "No space" in told:
        return message + "The disk of the home folder is full: free some space and start again."
    return message + (
        "The first start needs a network to download Kafka (45 MB, kept in ~/.cache/jgo and ~/.m2); check it "
        "and HTTPS_PROXY, or set KAFKA_BOOTSTRAP_SERVERS to a Kafka that runs already. Debezium and Kafka "
        "Connect are needed only by `rajada up --with-debezium`."
    )


@contextlib.contextmanager
def _places(folder: DataFolder) -> Iterator[None]:
    """Let jgo use the user's shared caches, or the data folder where there is no home to write to."""
    wanted = {}
    if not _can_keep(_home() / ".cache") or not _can_keep(_home() / ".m2"):
        wanted = {"JGO_CACHE_DIR": str(folder.cache / "jgo"), "M2_REPO": str(folder.cache / "m2")}
    authority = os.environ.get("SSL_CERT_FILE")
    if authority and "REQUESTS_CA_BUNDLE" not in os.environ:
        wanted["REQUESTS_CA_BUNDLE"] = authority  # the one variable that jgo's HTTP client looks at
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises for a user without an entry


def _can_keep(folder: Path) -> bool:
    """Whether we can write `folder`, or make it."""
    nearest = next((each for each in (folder, *folder.parents) if each.exists()), Path("/"))
    return os.access(nearest, os.W_OK | os.X_OK)
