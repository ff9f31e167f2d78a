"""The text of Kafka's properties, its cluster id, and the name of its archive."""

import json
import os
import re
from pathlib import Path

import pytest

from ops.embedded.archive import archive_of
from ops.embedded.java import Java, base_flags
from ops.embedded.kafka_config import new_cluster_id, properties, unusable


def parsed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_node_is_its_own_controller_on_loopback_alone() -> None:
    told = parsed(properties(1111, 2222, Path("/data")))
    assert told["process.roles"] == "broker,controller"
    assert told["listeners"] == "PLAINTEXT://127.0.0.1:1111,CONTROLLER://127.0.0.1:2222"
    assert told["advertised.listeners"] == "PLAINTEXT://127.0.0.1:1111"
    assert told["controller.quorum.bootstrap.servers"] == "127.0.0.1:2222"
    assert told["log.dirs"] == "/data"


@pytest.mark.parametrize("name", ["casa", "consultório", "rajada 😀", "a b\tc"])
def test_a_path_is_read_by_java_as_it_is(name: str) -> None:
    """Java reads the file as Latin-1 and undoes the escapes, pairs of surrogates included."""
    told = parsed(properties(1, 2, Path(f"/{name}")))["log.dirs"]
    assert told.isascii()
    units = json.loads('"' + told.replace("\\\\", "\\") + '"')
    assert units == f"/{name}"


@pytest.mark.parametrize(("name", "word"), [("a,b", "comma"), ("a\udcff", "UTF-8")])
def test_a_path_that_kafka_cannot_take_is_named(name: str, word: str) -> None:
    assert word in (unusable(Path("/data") / name) or "")
    assert unusable(Path("/data/consultório")) is None


def test_topics_are_never_made_by_accident() -> None:
    assert parsed(properties(1, 2, Path("/d")))["auto.create.topics.enable"] == "false"


def test_every_internal_topic_is_content_with_one_broker() -> None:
    told = parsed(properties(1, 2, Path("/d")))
    wanted = ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"]
    assert {told[f"{name}.replication.factor"] for name in wanted} == {"1"}
    assert told["transaction.state.log.min.isr"] == told["share.coordinator.state.topic.min.isr"] == "1"


def test_a_restart_after_a_crash_does_not_wait_long_for_the_old_session() -> None:
    told = parsed(properties(1, 2, Path("/d")))
    assert (told["broker.session.timeout.ms"], told["broker.heartbeat.interval.ms"]) == ("3000", "500")


def test_a_backslash_in_a_path_is_escaped() -> None:
    assert parsed(properties(1, 2, Path("/a\\b")))["log.dirs"] == "/a\\\\b"


def test_cluster_ids_have_kafkas_form() -> None:
    ids = {new_cluster_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", each) for each in ids)


def test_an_archive_is_named_for_its_java_jars_and_flags_but_not_for_the_folder(tmp_path: Path) -> None:
    executable = tmp_path / "jre" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.touch()
    (tmp_path / "jre" / "release").write_text('JAVA_VERSION="25"')
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    java = Java(executable, 25)
    flags = base_flags(25, 512)
    name = archive_of(tmp_path, java, [jar], flags)
    assert name.suffix == ".aot"
    assert archive_of(tmp_path, java, [jar], [*flags, "-Dlog4j2.configurationFile=/else"]) == name
    assert archive_of(tmp_path, java, [jar], base_flags(25, 640)) != name
    assert archive_of(tmp_path, Java(executable, 17), [jar], flags).suffix == ".jsa"
    (tmp_path / "jre" / "release").write_text('JAVA_VERSION="25.0.1"')
    updated = archive_of(tmp_path, java, [jar], flags)
    assert updated != name
    os.utime(jar, ns=(1, 1))
    assert archive_of(tmp_path, java, [jar], flags) != updated


def test_a_cluster_keeps_two_more_copies_and_its_nodes_know_all_controllers() -> None:
    told = parsed(properties(1, 5, Path("/d"), node=2, controllers=[4, 5, 6]))
    assert told["node.id"] == "2"
    assert told["controller.quorum.bootstrap.servers"] == "127.0.0.1:4,127.0.0.1:5,127.0.0.1:6"
    assert told["offsets.topic.replication.factor"] == "3"
    assert told["transaction.state.log.replication.factor"] == "3"
    assert told["transaction.state.log.min.isr"] == "2"
