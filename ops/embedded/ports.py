"""Loopback ports: free ones are chosen once, kept between starts, and replaced when taken.

They are chosen below the range from which the system serves outgoing connections: a port from that range
can be taken by any client between a crash and the restart on the same port.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from ops.embedded.folder import Lock, read_json, write_json
from ops.errors import CannotRunHere

HOST = "127.0.0.1"
_LOWEST = 15_000
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_EPHEMERAL_START = 32_768
_TRIES = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on the loopback `port` now (one that just closed counts as free)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def is_open(port: int, timeout_s: float = 0.3) -> bool:
    """Whether something accepts connections on the loopback `port`."""
    try:
        socket.create_connection((HOST, port), timeout_s).close()
    except OSError:
        return False
    return True


def choose(
    wanted: tuple[str, ...],
    remembered: dict[str, int],
    free: Callable[[int], bool],
    candidates: Iterator[int],
) -> dict[str, int]:
    """A port for each name: the remembered one while it is free, else the first free candidate.

    Raises CannotRunHere when the candidates run out.
    """
    chosen: dict[str, int] = {}
    taken = {port for name, port in remembered.items() if name not in wanted}
    for name in wanted:
        port = remembered.get(name)
        if port is None or port in taken or not free(port):
            port = next((each for each in candidates if each not in taken and free(each)), None)
        if port is None:
            raise CannotRunHere(
                f"No free port on {HOST} was found for {name}. Close some servers, or set "
                "KAFKA_BOOTSTRAP_SERVERS and DATABASE_URL to servers that run already."
            )
        chosen[name] = port
        taken.add(port)
    return chosen


def ports_for(names: tuple[str, ...], file: Path) -> dict[str, int]:
    """The ports of `names` as kept in `file`, which is brought up to date (others' entries stay)."""
    turn = Lock(file.with_suffix(".lock"), "")
    turn.acquire(wait=True)  # two servers of one folder may start in parallel
    try:
        remembered = {name: port for name, port in read_json(file).items() if isinstance(port, int)}
        chosen = choose(names, remembered, is_free, _candidates())
        write_json(file, {**remembered, **chosen})
    finally:
        turn.release()
    return chosen


def _candidates() -> Iterator[int]:
    try:
        start = int(_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        start = _DEFAULT_EPHEMERAL_START
    ports = range(_LOWEST, start) if start > _LOWEST + _TRIES else range(start, 65_536)
    yield from random.sample(ports, k=min(_TRIES, len(ports)))
