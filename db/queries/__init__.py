"""Every SQL statement of Rajada, one a file, by name.

Each file starts with a comment that says what the statement does, its parameters and the shape of its
rows; the statement follows, with psycopg's named parameters (`%(name)s`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from settings import RajadaError

FOLDER = Path(__file__).parent


class UnknownQuery(RajadaError):
    """There is no statement of that name; the message names the file that was looked for."""


@cache
def load(name: str) -> str:
    """The text of `db/queries/<name>.sql`, comments included; read once a process.

    Raises:
        UnknownQuery: no such file.
    """
    path = FOLDER / f"{name}.sql"
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UnknownQuery(
            f"no statement named {name!r}: add {path.relative_to(FOLDER.parent.parent)}"
        ) from None


def names() -> list[str]:
    """The names of all statements, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.sql"))
