"""Ports are kept between starts, replaced when taken, and never handed out twice."""

import json
import socket
from pathlib import Path

import pytest

from ops.embedded.ports import choose, is_free, is_open, ports_for
from ops.errors import CannotRunHere


def test_a_remembered_port_is_kept_while_it_is_free() -> None:
    assert choose(("kafka",), {"kafka": 20_000}, lambda port: True, iter([1, 2])) == {"kafka": 20_000}


def test_a_taken_one_is_replaced_by_the_first_free_candidate() -> None:
    free = {20_002}.__contains__
    assert choose(("kafka",), {"kafka": 20_000}, free, iter([20_001, 20_002])) == {"kafka": 20_002}


def test_no_two_names_get_the_same_port() -> None:
    chosen = choose(("a", "b"), {"b": 1, "other": 2}, lambda port: True, iter([1, 2, 3, 4]))
    assert chosen == {"a": 1, "b": 3}


def test_when_candidates_run_out_the_error_says_what_to_do() -> None:
    with pytest.raises(CannotRunHere, match="KAFKA_BOOTSTRAP_SERVERS"):
        choose(("kafka",), {}, lambda port: False, iter([1, 2]))


def test_a_port_with_a_listener_is_open_and_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_open(port)
        assert not is_free(port)
    assert is_free(port)
    assert not is_open(port)


def test_the_file_keeps_ports_of_others_and_survives_being_torn(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    kafka = ports_for(("kafka", "kafka_controller"), file)
    postgres = ports_for(("postgres",), file)
    assert json.loads(file.read_text()) == {**kafka, **postgres}
    assert ports_for(("kafka", "kafka_controller"), file) == kafka
    file.write_text("{")
    assert set(ports_for(("kafka",), file)) == {"kafka"}


def test_ports_lie_below_those_of_outgoing_connections(tmp_path: Path) -> None:
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not limits.exists():
        pytest.skip("this system doesn't tell its range of outgoing ports")
    start = int(limits.read_text().split()[0])
    if start < 16_000:
        pytest.skip("this system's outgoing ports leave no room below them")
    assert all(port < start for port in ports_for(("a", "b", "c"), tmp_path / "ports.json").values())


def test_a_taken_port_is_replaced_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    before = ports_for(("kafka",), file)["kafka"]
    with socket.create_server(("127.0.0.1", before)):
        after = ports_for(("kafka",), file)["kafka"]
    assert after != before
    assert json.loads(file.read_text()) == {"kafka": after}
