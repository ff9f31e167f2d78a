"""With which exit codes each command ends: one place for the docs, held to the commands by a test.

`python -m ops.exit_codes` prints the tables of docs/commands.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

CODES: Final[Mapping[int, str]] = {
    0: "well",
    1: "a defect of Rajada (`RAJADA_DEBUG=1` shows where), or the answer to a question was no",
    2: "wrong usage: an option or an argument that can't be meant",
    3: "an error with advice that is none of the following",
    4: "nothing runs, but the command needs it to: `rajada up`, or name the servers",
    5: "it runs already, or another command is at the same work",
    6: "this machine lacks something: Java, Postgres, a port, a right, space",
    7: "a server does not answer, or is not set up as it must be",
    8: "a process of the stack did not start",
    9: "lines of the file are wrong",
    10: "it was done, and something is not as it should be; the output says what",
    11: "what was waited for did not happen in time; it may still happen",
    12: "what was asked for is not there",
    130: "Ctrl-C",
}
"""Exit code → what it means, the same for every command."""

_ALL: Final = (0, 1, 2, 3)
_SERVERS: Final = (*_ALL, 4, 7)
"""Of commands that ask Kafka or Postgres."""

COMMANDS: Final[Mapping[str, tuple[int, ...]]] = {
    "demo": (*_ALL, 5, 6, 7, 8, 10, 130),
    "up": (*_ALL, 5, 6, 7, 8),
    "down": (*_ALL, 8),
    "status": (*_ALL, 4),
    "logs": (*_ALL, 4),
    "relay": _SERVERS,
    "delays": _SERVERS,
    "sink": _SERVERS,
    "migrate": _SERVERS,
    "roles": _SERVERS,
    "topics ensure": _SERVERS,
    "topics check": _SERVERS,
    "topics describe": _ALL,
    "topics acls": _SERVERS,
    "schemas register": (*_ALL, 7, 10),
    "schemas check": (*_ALL, 7, 10),
    "connector register": (*_SERVERS, 6, 11),
    "connector status": (*_SERVERS, 6, 10),
    "connector remove": (*_SERVERS, 6, 11),
    "engine": _ALL,
    "doctor": (*_ALL, 4, 10),
    "why": _SERVERS,
    "settings": (*_ALL, 12),
    "produce": (*_SERVERS, 9, 130),
    "sweep": (*_SERVERS, 130),
    "shadow run": (*_SERVERS, 5, 6, 8),
    "shadow report": (*_SERVERS, 10, 12),
    "shadow clean": (*_SERVERS, 5),
    "replay": (*_SERVERS, 5, 12, 130),
    "dlq ls": _SERVERS,
    "dlq show": (*_SERVERS, 12),
    "dlq requeue": (*_SERVERS, 5, 10, 130),
    "dlq drop": (*_SERVERS, 5, 130),
    "dlq export": (*_SERVERS, 130),
    "dlq import": (*_SERVERS, 9, 130),
    "alerts": _SERVERS,
    "alerts ack": (*_SERVERS, 12),
    "alerts resolve": (*_SERVERS, 12),
    "jobs ls": _SERVERS,
    "jobs show": (*_SERVERS, 12),
    "jobs cancel": (*_SERVERS, 10, 11, 12),
    "jobs run-now": (*_SERVERS, 10, 11, 12),
    "jobs hold": (*_SERVERS, 10, 11, 12),
    "jobs release": (*_SERVERS, 10, 11, 12),
    "jobs ask": (*_SERVERS, 10, 11),
    "pause": (*_SERVERS, 11),
    "resume": (*_SERVERS, 11),
    "forget": (*_SERVERS, 5, 11, 12),
    "reconcile": (*_SERVERS, 5, 10, 11),
    "web": _SERVERS,
    "group-links ls": _SERVERS,
    "group-links show": (*_SERVERS, 12),
    "group-links retry": (*_SERVERS, 10, 11, 12),
    "group-links close": (*_SERVERS, 10, 11, 12),
    "tokens add": (*_SERVERS, 12),
    "tokens ls": _SERVERS,
    "tokens revoke": (*_SERVERS, 12),
    "tokens page add": (*_SERVERS, 12),
    "tokens page ls": _SERVERS,
    "tokens page revoke": (*_SERVERS, 12),
    "whatsapp set": (*_SERVERS, 12),
    "whatsapp key": (0, 2),
    "whatsapp reseal": (*_SERVERS, 10),
    "whatsapp ls": _SERVERS,
    "whatsapp drop": (*_SERVERS, 12),
    "whatsapp stand-in": _ALL,
}
"""Command → its exit codes. `why` ends with 1 when nothing is known of the id."""


def commands() -> Iterator[tuple[str, str]]:
    """Every command of `rajada` with the first sentence of its help."""
    from ops.cli import tree

    def walk(command: object, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            told = " ".join(str(getattr(command, "help", "") or "").split())
            yield " ".join(path), told.split(". ")[0].rstrip(".")
            return
        if getattr(command, "invoke_without_command", False):
            told = " ".join(str(getattr(command, "help", "") or "").split())
            yield " ".join(path), told.split(". ")[0].rstrip(".")
        for name, one in inner.items():
            yield from walk(one, (*path, name))

    yield from walk(tree(), ())


def as_markdown() -> str:
    """The two tables."""
    lines = ["| exit code | meaning |", "| --- | --- |"]
    lines += [f"| {code} | {meaning} |" for code, meaning in CODES.items()]
    lines += ["", "| command | what it does | exit codes |", "| --- | --- | --- |"]
    helps = dict(commands())
    for name, codes in COMMANDS.items():
        told = helps.get(name, "").replace("|", "\\|")
        lines.append(f"| `rajada {name}` | {told} | {', '.join(map(str, sorted(codes)))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_markdown())
