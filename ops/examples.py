"""Examples of every command, at the end of its `--help` and in docs/commands.md; the ids are made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer

_ORGANIZATION: Final = "7c1d6a52-3f0e-4b8e-9a57-1d2c3b4a5f60"
_ID: Final = "0b9f8c1e-52d4-4e7a-8f3b-6a1c2d3e4f50"

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "demo": ("rajada demo", "rajada demo --seconds 20 --json"),
    "up": ("rajada up -d --with-engine", "rajada up --servers-only"),
    "down": ("rajada down", "rajada down --delete-data --yes"),
    "status": ("rajada status", "rajada status --json"),
    "logs": ("rajada logs worker -f", "rajada logs relay -n 200"),
    "relay": ("rajada relay",),
    "delays": ("rajada delays",),
    "sink": ("rajada sink",),
    "web": ("rajada web --host 0.0.0.0 --port 8088",),
    "migrate": ("rajada migrate --dry-run", "rajada migrate --yes"),
    "roles": ("rajada roles > roles.sql", "rajada roles sink --apply --yes"),
    "doctor": ("rajada doctor", "rajada doctor --json"),
    "engine": ("rajada engine --port 8090", "rajada engine --mode fail --times 2"),
    "forget": (
        f"rajada forget {_ID} --organization {_ORGANIZATION} --dry-run",
        f"rajada forget --phone +5511999990000 --organization {_ORGANIZATION}",
    ),
    "settings": ("rajada settings", "rajada settings debounce"),
    "pause": (f"rajada pause --organization {_ORGANIZATION} --reason 'wrong prompt'", "rajada pause --list"),
    "resume": (f"rajada resume --organization {_ORGANIZATION}",),
    "produce": ("rajada produce day.jsonl --dry-run", "rajada produce day.jsonl --to topic --rate 100"),
    "replay": (
        "rajada replay ai_agent.dispatch_requested --from-time 2h --to-time 1h --dry-run",
        "rajada replay ai_agent.dispatch_requested --from-offset 100 --to-offset 200 --partition 3",
    ),
    "reconcile": ("rajada reconcile --dry-run", "rajada reconcile --history"),
    "shadow run": ("rajada shadow run", "rajada shadow run --no-relay"),
    "shadow report": ("rajada shadow report --since 2h", "rajada shadow report --json"),
    "shadow clean": ("rajada shadow clean", "rajada shadow clean --slot --yes"),
    "sweep": ("rajada sweep --dry-run", "rajada sweep --backfill 2d --rate 50"),
    "why": (f"rajada why {_ID}", f"rajada why {_ID} --json"),
    "topics ensure": ("rajada topics ensure",),
    "topics check": ("rajada topics check",),
    "topics describe": ("rajada topics describe", "rajada topics describe --asyncapi > asyncapi.yaml"),
    "topics acls": ("rajada topics acls", "rajada topics acls worker --principal worker=User:rajada --apply"),
    "connector register": ("rajada connector register", "rajada connector register --wait 120"),
    "connector status": ("rajada connector status",),
    "connector remove": ("rajada connector remove",),
    "schemas register": ("rajada schemas register",),
    "schemas check": ("rajada schemas check --json",),
    "dlq ls": ("rajada dlq ls", "rajada dlq ls --reason 'engine_*' --since 2h --list"),
    "dlq show": ("rajada dlq show dead/3/17",),
    "dlq export": ("rajada dlq export --since 1d --to letters.jsonl",),
    "dlq requeue": (
        "rajada dlq requeue --reason unknown_schema --dry-run",
        "rajada dlq requeue dead/3/17 --because 'the engine is mended'",
    ),
    "dlq drop": ("rajada dlq drop dead/3/17 --because 'a test message'",),
    "dlq import": ("rajada dlq import letters.jsonl --dry-run",),
    "alerts": ("rajada alerts", f"rajada alerts --open --organization {_ORGANIZATION}"),
    "alerts ack": (f"rajada alerts ack {_ID}",),
    "alerts resolve": (f"rajada alerts resolve {_ID}",),
    "jobs cancel": (f"rajada jobs cancel {_ID} --reason 'answered by hand'",),
    "jobs run-now": (f"rajada jobs run-now {_ID}",),
    "jobs hold": (f"rajada jobs hold {_ID} --reason 'ask Ana first'",),
    "jobs release": (f"rajada jobs release {_ID}",),
    "jobs ask": ("rajada jobs ask --dry-run", "rajada jobs ask --since 2h --close"),
    "jobs ls": ("rajada jobs ls --status pending", "rajada jobs ls --since 1h --limit 20"),
    "jobs show": (f"rajada jobs show {_ID}",),
    "group-links ls": ("rajada group-links ls --status failed",),
    "group-links show": (f"rajada group-links show {_ID}",),
    "group-links retry": (f"rajada group-links retry {_ID}",),
    "group-links close": (f"rajada group-links close {_ID} --reason 'sent by hand'",),
    "tokens add": (f"rajada tokens add {_ORGANIZATION} --name crm",),
    "tokens ls": ("rajada tokens ls --all",),
    "tokens revoke": (f"rajada tokens revoke {_ID}",),
    "tokens page add": ("rajada tokens page add Ana", "rajada tokens page add on-call --operator --phones"),
    "tokens page ls": ("rajada tokens page ls --all",),
    "tokens page revoke": ("rajada tokens page revoke 3f9k2m8x1q7b5c4d",),
    "whatsapp set": (f"rajada whatsapp set {_ORGANIZATION} 106540352242922",),
    "whatsapp key": ("rajada whatsapp key",),
    "whatsapp reseal": ("rajada whatsapp reseal",),
    "whatsapp ls": ("rajada whatsapp ls",),
    "whatsapp drop": (f"rajada whatsapp drop {_ORGANIZATION}",),
    "whatsapp stand-in": ("rajada whatsapp stand-in --port 8091 --mode fail --times 2",),
}
"""Command → lines for a shell; a test parses each."""


def show_in(app: typer.Typer, path: tuple[str, ...] = ()) -> None:
    """Put the examples below the help of every command of `app`; `path` is what stands before their names."""
    if path and app.registered_callback is not None and " ".join(path) in EXAMPLES:
        app.registered_callback.epilog = _below(" ".join(path))
    for command in app.registered_commands:
        command.epilog = _below(" ".join((*path, command.name or "")))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            show_in(group.typer_instance, (*path, group.name or ""))


def _below(name: str) -> str | None:
    """Paragraphs, since the help joins the lines of one."""
    lines = EXAMPLES.get(name)
    return "\n\n".join(("For example:", *lines)) if lines else None
