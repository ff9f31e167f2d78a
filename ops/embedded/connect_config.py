"""The text of an embedded Kafka Connect's configuration: the shipped file with a few lines replaced."""

from __future__ import annotations

from collections.abc import Mapping

from ops.embedded import kafka_config

LOGGING = (
    kafka_config.LOGGING
    + """\
logger.plugins.name = org.apache.kafka.connect.runtime.isolation.PluginScanner
logger.plugins.level = off
logger.clients.name = org.apache.kafka.clients
logger.clients.level = error
logger.configs.name = org.apache.kafka.common.config
logger.configs.level = error
"""
)
"""Warnings and worse. Off: a harmless error about jars that hold no plugin, and lists of settings that a
client of Connect's doesn't use."""


def replaced(worker: str, ours: Mapping[str, str]) -> str:
    """The worker's properties with the values of `ours`, in their places or at the end.

    Args:
        worker: a properties file with one `name=value` a line.
        ours: values by name, escaped as such a file wants it.
    """
    left = dict(ours)
    lines = []
    for line in worker.splitlines():
        name = line.partition("=")[0].strip()
        lines.append(f"{name}={left.pop(name)}" if name in left and not line.startswith("#") else line)
    return "\n".join([*lines, *(f"{name}={value}" for name, value in left.items())]) + "\n"
