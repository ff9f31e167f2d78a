"""The name of the JVM's archive of a program's classes: good for one Java, one class path, one set of flags.

Java 25 writes an AOT cache, 17 to 24 an AppCDS archive (`ops.embedded.training` makes them).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from ops.embedded.java import AOT_RELEASE, Java

ENDINGS = (".aot", ".jsa")


def archive_of(
    cache: Path, java: Java, jars: Iterable[Path], flags: Iterable[str], of: str = "kafka"
) -> Path:
    """The archive's path: its name changes with the Java, the jars and the flags that it is good for.

    `of`: the program whose classes are in it.
    """
    key = hashlib.sha256()
    key.update(_release_file(java).encode())
    for jar in jars:
        found = jar.stat()
        key.update(f"{jar}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    # paths of the data folder are no matter of the classes
    key.update("\n".join(flag for flag in flags if not flag.startswith("-D")).encode())
    ending = ENDINGS[0] if java.release >= AOT_RELEASE else ENDINGS[1]
    return cache / f"{of}-{key.hexdigest()[:20]}{ending}"


def _release_file(java: Java) -> str:
    try:
        return (java.home / "release").read_text()
    except OSError:
        return f"{java.executable.resolve()} {java.release}"
