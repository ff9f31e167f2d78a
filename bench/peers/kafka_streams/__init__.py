"""Kafka Streams: the Java program beside this file, compiled and run without a JDK.

Kafka Streams and the Eclipse compiler come from Maven Central by jgo, Java as the embedded broker's does. The
program is compiled anew when it changed, into the folder of jars that the broker's are kept in.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.peer import Unavailable
from bench.peers.program import Command
from ops.embedded.jars import explain
from ops.embedded.java import Java, environment, find_java
from ops.errors import CannotRunHere

VERSION = "4.1.1"
STREAMS = f"org.apache.kafka:kafka-streams:{VERSION}"
COMPILER = "org.eclipse.jdt:ecj:3.43.0"
LOGGING = "org.slf4j:slf4j-simple:1.7.36"
SOURCES = tuple(sorted(Path(__file__).parent.glob("*.java")))
MAIN = "WindowApp"
HEAP_MB = 512
_FETCH_HELP = "needs a network once to fetch 95 MB from Maven Central; see HTTPS_PROXY and ~/.m2"


def version() -> str:
    """Its name and number; raises Unavailable when there is no Java for it."""
    return f"Kafka Streams {VERSION}, Java {_java().release}"


def command(*, exactly_once: bool, tuned: bool) -> Command:
    """How the program is started; raises Unavailable when it can't be fetched or compiled.

    `tuned` for latency: no linger, a poll and a punctuation every 10 ms, in place of Kafka Streams' 100 ms
    and of the second that its documentation's examples have.
    """
    java, jars = _java(), _jars(STREAMS)
    classes = compiled(java, jars)
    return Command(
        (
            str(java.executable),
            f"-Xmx{HEAP_MB}m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *(("--sun-misc-unsafe-memory-access=allow",) if java.release >= 24 else ()),
            *(("--enable-native-access=ALL-UNNAMED",) if java.release >= 24 else ()),
            "-cp",
            _class_path([classes, *jars, *_jars(LOGGING)]),
            MAIN,
        ),
        {
            "PEER_GUARANTEE": "exactly_once_v2" if exactly_once else "at_least_once",
            "PEER_TUNED": str(int(tuned)),
        },
    )


def compiled(java: Java, jars: Sequence[Path]) -> Path:
    """The folder with the program's classes; compiled unless it is there. Raises Unavailable."""
    mark = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:16]
    place = Path.home() / ".cache" / "jgo" / "rajada" / f"peers-kafka-streams-{VERSION}-{mark}"
    if (place / f"{MAIN}.class").is_file():
        return place
    (compiler,) = _jars(COMPILER)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        draft = Path(folder) / "classes"
        done = subprocess.run(
            [
                str(java.executable), "-jar", str(compiler),
                "-17", "-nowarn", "-encoding", "UTF-8", "-cp", _class_path(jars), "-d", str(draft),
                *map(str, SOURCES),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=environment({}),
        )  # fmt: skip
        if done.returncode:
            raise Unavailable(f"Kafka Streams' program does not compile:\n{done.stdout}{done.stderr}")
        if not place.exists():
            draft.rename(place)
    return place


def _class_path(places: Sequence[Path]) -> str:
    return ":".join(map(str, places))


def _java() -> Java:
    try:
        return find_java("auto")
    except CannotRunHere as error:
        raise Unavailable(str(error)) from error


@functools.cache
def _jars(coordinate: str) -> list[Path]:
    import jgo

    try:
        return [Path(jar) for jar in jgo.build(coordinate).all_jars]
    # jgo lets through whatever its HTTP client, its XML reader and its own checks raise
    except Exception as error:
        raise Unavailable(f"{explain(coordinate, error)} Kafka Streams {_FETCH_HELP}.") from error
