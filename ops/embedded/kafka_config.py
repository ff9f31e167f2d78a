"""The text of Kafka's configuration files: brokers that are their own controllers, on loopback."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from pathlib import Path

from ops.embedded.ports import HOST

LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
"""Kafka's own logging: warnings and worse, to where its output goes."""


def properties(
    port: int, controller_port: int, data: Path, *, node: int = 1, controllers: Sequence[int] = ()
) -> str:
    """`server.properties` of a node that keeps its log in `data`.

    Of a single one: one replica of everything. Of a cluster: three at most, and two must have what is
    acknowledged. Few internal partitions, no wait before a group's first rebalance, and short
    sessions: between the broker and its controller (a restart after kill -9 takes 6 s instead of 14), and as
    short as a member wants (a dead worker's partitions move on soon); what a killed forwarder left open is
    aborted as soon as its time is over. Topics are never made by accident.

    Args:
        port: of the clients' listener.
        controller_port: of this node's controller.
        data: the folder of its log.
        node: its id, from 1.
        controllers: the ports of all nodes' controllers; empty = it is alone.
    """
    quorum = ",".join(f"{HOST}:{one}" for one in controllers or (controller_port,))
    replicas = min(3, len(controllers) or 1)
    in_sync = str(min(2, replicas))
    lines = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.bootstrap.servers": quorum,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": escaped(data),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "4",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "log.cleaner.dedupe.buffer.size": "16777216",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def unusable(data: Path) -> str | None:
    """Why Kafka can't keep its log in a folder of this name; None: it can."""
    if "," in str(data):
        return "it takes a comma in the path for the end of one folder's name"
    try:
        str(data).encode()
    except UnicodeEncodeError:
        return "the path is no UTF-8"
    return None


def escaped(path: Path) -> str:
    """A path as a value of a properties file: a backslash escapes, and what isn't ASCII is its UTF-16 code.

    Java reads such files as Latin-1, whatever its other files are in.
    """
    units = str(path).replace("\\", "\\\\").encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)


def new_cluster_id() -> str:
    """A random id of a cluster or a data folder in Kafka's form: 16 bytes in 22 url-safe characters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
