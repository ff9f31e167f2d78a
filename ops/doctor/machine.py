"""What can be looked at without a server: disk, schemas, settings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pydantic_settings import DotEnvSettingsSource

import status
from ops.doctor.findings import Check, Finding, Verdict, examine, fail, ok, warn
from ops.embedded.folder import NO_ROOM_BYTES, find_folder
from schemas.evolution import problems
from schemas.history import CURRENT_FILES, current_text, versions
from settings import Settings
from streams.media import CEILING_MS

GB: Final = 1 << 30
LITTLE_DISK: Final = 5 * GB
NO_DISK: Final = NO_ROOM_BYTES
OTHER_VARIABLES: Final = frozenset({status.STATUS_DIR, "RAJADA_DEBUG", "RAJADA_DECISION_CASES"})
"""Variables with our prefix that are no settings."""


def machine_findings(settings: Settings) -> list[Finding]:
    """Disk, schemas and settings."""
    checks: dict[str, Check] = {
        "disk": lambda: disk(settings),
        "schemas": schemas,
        "settings": lambda: (
            [*unknown_settings({**_env_file(), **os.environ}), *odd_settings(settings)] or ok("nothing odd")
        ),
    }
    return examine("machine", checks)


def disk(settings: Settings) -> Verdict:
    """Room for the embedded servers; given ones have their own disks."""
    folder = find_folder(settings.home)
    if settings.kafka_bootstrap_servers and settings.database_url:
        return ok("not ours: Kafka and Postgres are given")
    place = folder.root if folder is not None else _existing(settings.home.absolute())
    return disk_verdict(shutil.disk_usage(place).free, place)


def disk_verdict(free: int, place: Path) -> Verdict:
    """What so many free bytes mean for the embedded servers."""
    found = f"{free / GB:.1f} GB free for {place}"
    if free < NO_DISK:
        return fail(
            found, "make room: Kafka and Postgres stop when the disk is full; `rajada status` names them"
        )
    if free < LITTLE_DISK:
        return warn(
            found, "make room soon: the dead letters have no time limit, and the WAL waits for the relay"
        )
    return ok(found)


def _existing(path: Path) -> Path:
    """The path, or its nearest parent that is there."""
    return next(one for one in (path, *path.parents) if one.exists())


def schemas() -> Verdict:
    """Whether every record that was ever written can be read, and what is written now is committed."""
    wrong = [
        problem for name in CURRENT_FILES for problem in problems(name, current_text(name), versions(name))
    ]
    if wrong:
        return fail("; ".join(wrong), "docs/schemas.md tells how to change a schema; reinstall if nobody did")
    return ok(", ".join(f"{name} version {versions(name)[-1].number}" for name in CURRENT_FILES))


def _env_file() -> Mapping[str, str | None]:
    return DotEnvSettingsSource(Settings).env_vars


def unknown_settings(variables: Iterable[str]) -> list[Verdict]:
    """Variables that look like settings and are none: most likely misspelt, so that a default holds."""
    known = {str(field.validation_alias or f"RAJADA_{name}") for name, field in Settings.model_fields.items()}
    known = {name.upper() for name in known} | OTHER_VARIABLES
    strange = sorted({name.upper() for name in variables if name.upper().startswith("RAJADA_")} - known)
    return [warn(f"{name} is no setting", "misspelt? settings.py holds all of them") for name in strange]


def odd_settings(settings: Settings) -> list[Verdict]:
    """Values that are allowed and hardly meant."""
    found = []
    longest_ms = settings.max_wait_ms if settings.window_mode == "sliding" else settings.inbound_debounce_ms
    if settings.event_max_age_s is not None and settings.event_max_age_s * 1000 <= longest_ms + CEILING_MS:
        found.append(
            warn(
                f"EVENT_MAX_AGE is {settings.event_max_age_s:g} s, but a window may be open for "
                f"{(longest_ms + CEILING_MS) / 1000:g} s",
                "raise it: such messages end as `too_old` without an answer",
            )
        )
    if settings.window_mode == "sliding" and settings.max_wait_ms < settings.inbound_debounce_ms:
        found.append(
            warn(
                f"RAJADA_MAX_WAIT_MS ({settings.max_wait_ms}) is below INBOUND_DEBOUNCE_MS "
                f"({settings.inbound_debounce_ms})",
                "a sliding window then never slides: raise the first or lower the second",
            )
        )
    if settings.event_reap_ms <= longest_ms + CEILING_MS:
        found.append(
            warn(
                f"EVENT_REAP_MS is {settings.event_reap_ms}, but an event may wait "
                f"{longest_ms + CEILING_MS} ms for its window and a photo",
                "raise it: the sweep publishes events again that only wait",
            )
        )
    if 1 < settings.least_in_sync == settings.replication_factor:
        found.append(
            warn(
                f"RAJADA_MIN_INSYNC_REPLICAS is {settings.least_in_sync}, as many as there are replicas",
                "one broker's restart stops all writing: lower it by one",
            )
        )
    if settings.session_timeout_s < 3:
        found.append(
            warn(
                f"RAJADA_SESSION_TIMEOUT_S is {settings.session_timeout_s:g}",
                "a short pause of the machine then moves all partitions: 6 s are a good value",
            )
        )
    return found
