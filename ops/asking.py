"""Errors of a database that a command asks, told as what to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from db.pool import is_away
from ops.errors import OpsError, Unreachable
from ops.given import reach, shown
from schemas.masking import masked


class NotMigrated(OpsError):
    """The database lacks a table or column of ours; `rajada migrate` brings it."""


@contextmanager
def asking(url: str) -> Iterator[None]:
    """Turns what psycopg raises inside into Unreachable, NotMigrated, or OpsError with the server's words."""
    try:
        yield
    except psycopg.Error as error:
        what = masked(str(error)) or type(error).__name__
        if is_away(error):
            raise Unreachable(f"Postgres does not answer at {shown(url)} ({what}). {reach(what)}") from error
        if (
            isinstance(error, psycopg.ProgrammingError)
            and error.sqlstate is None
            and "connection info" in what
        ):
            raise OpsError(
                f"DATABASE_URL is no address of a Postgres ({what}). It is like "
                "postgresql://user@host:5432/name."
            ) from error
        if isinstance(error, (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)):
            raise NotMigrated(
                f"{shown(url)} is not prepared for Rajada ({what}). Run `rajada migrate`."
            ) from error
        raise OpsError(f"Postgres at {shown(url)} refuses a statement: {what}") from error
