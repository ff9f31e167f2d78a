"""The rights that a role's file grants, one by one, so that what is missing can be named (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

Kind = Literal["table", "tables", "schema", "sequence", "function"]
"""`tables`: all of a schema."""


class Right(NamedTuple):
    """One right on one thing."""

    kind: Kind
    name: str
    """As the file has it; of a function with its arguments."""
    privilege: str
    """SELECT, INSERT, UPDATE, DELETE, USAGE, EXECUTE."""
    column: str = ""
    """Empty: the whole thing."""


_COMMENT: Final = re.compile(r"--[^\n]*")
_GRANT: Final = re.compile(r"\bGRANT\s+(.+?)\s+ON\s+(.+?)\s+TO\s+\{role\}\s*;")
_PRIVILEGE: Final = re.compile(r"([A-Z]+)(?:\s*\(([^)]*)\))?")
_THING: Final = re.compile(r"[\w.]+(?:\([^)]*\))?")
_KINDS: Final[dict[str, Kind]] = {
    "ALL TABLES IN SCHEMA": "tables",
    "SCHEMA": "schema",
    "SEQUENCE": "sequence",
    "FUNCTION": "function",
}


def rights_in(grants: str) -> list[Right]:
    """The rights in the text of a role's file, in its order."""
    found: list[Right] = []
    for privileges, what in _GRANT.findall(" ".join(_COMMENT.sub("", grants).split())):
        word = next((word for word in _KINDS if what.startswith(f"{word} ")), "")
        kind: Kind = _KINDS[word] if word else "table"
        for name in _THING.findall(what[len(word) :]):
            found += (Right(kind, name, privilege, column) for privilege, column in _each(privileges))
    return found


def _each(privileges: str) -> Iterator[tuple[str, str]]:
    for privilege, columns in _PRIVILEGE.findall(privileges):
        for column in columns.split(",") if columns else ("",):
            yield privilege, column.strip()
