"""Where a benchmark ran, and on which versions."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import confluent_kafka
import psycopg

from bench.results import Machine
from bench.servers import Servers
from ops.embedded.jars import KAFKA_VERSION

PACKAGES = ("confluent-kafka", "faust-streaming", "psycopg", "fastavro", "orjson", "uvloop", "httpx")


def machine() -> Machine:
    """This one."""
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
    )


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def versions() -> dict[str, str]:
    """Of what matters to the figures: ours, Python, the clients. Servers are added by who starts them."""
    found = {"rajada": _commit(), "Python": platform.python_version()}
    found["librdkafka"] = confluent_kafka.libversion()[0]
    return found | {name: metadata.version(name) for name in PACKAGES}


def _commit() -> str:
    """Version and commit, with a plus when files differ from it."""
    ours = metadata.version("rajada")
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        told = subprocess.run(
            asked, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ours
    return f"{ours} ({told.stdout.strip()})"


def server_versions(at: Servers) -> dict[str, str]:
    """Postgres as it names itself, and the embedded Kafka (a given one is the giver's to know)."""
    with psycopg.connect(at.admin_url) as connection:
        row = connection.execute("SHOW server_version").fetchone()
    assert row is not None
    return {"Postgres": str(row[0])} | ({} if at.given else {"Kafka": KAFKA_VERSION})


def load() -> float:
    """Processes that wanted a core, on average over the last minute."""
    return round(os.getloadavg()[0], 2)
