"""The text of Kafka's configuration files: one broker that is its own controller, on loopback."""

from __future__ import annotations

import base64
import uuid
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


def properties(port: int, controller_port: int, data: Path) -> str:
    """`server.properties` of a single node that keeps its log in `data`.

    One replica of everything, few internal partitions, no wait before a group's first rebalance, and short
    sessions: between the broker and its controller (a restart after kill -9 takes 6 s instead of 14), and as
    short as a member wants (a dead worker's partitions move on soon); what a killed forwarder left open is
    aborted as soon as its time is over. Topics are never made by accident.
    """
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": _escaped(data),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
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


def _escaped(path: Path) -> str:
    """A path as a value of a properties file: a backslash escapes, and what isn't ASCII is its UTF-16 code.

    Java reads such files as Latin-1, whatever its other files are in.
    """
    units = str(path).replace("\\", "\\\\").encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)


def new_cluster_id() -> str:
    """A random cluster id in Kafka's form: 16 bytes in 22 url-safe characters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
