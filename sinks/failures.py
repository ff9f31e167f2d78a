"""What the sink does about an error: wait, look for the one row to blame, or start again from Postgres."""

from __future__ import annotations

from typing import Final

import psycopg

from db.pool import is_away
from settings import RajadaError

_BLAMES_ROWS: Final = ("21", "22", "23", "54", "57014", "P0", "XX")
"""SQLSTATEs that a row can cause: cardinality, data, constraints, limits, time-out, a trigger, a bug."""
_TIMED_OUT: Final = "57014"


class Unavailable(RajadaError):
    """Postgres or Kafka can't take anything now; the message is the reason that is told. Wait and retry."""


class PostgresAway(Unavailable):
    """It is Postgres that can't take anything: told to the platform when it is back."""


class Refused(RajadaError):
    """Postgres refused these rows and would again; a smaller batch finds which one is to blame."""

    def __init__(self, error: psycopg.Error) -> None:
        self.timed_out = error.sqlstate == _TIMED_OUT
        # the class and code only: the server's text can quote a row's content
        self.reason = f"{type(error).__name__} {error.sqlstate or ''}".strip()
        super().__init__(
            f"Postgres refused the rows of an outcome ({self.reason}); see the dead letter, mend what it "
            "says or the row's constraint, and requeue it"
        )


class PositionMoved(RajadaError):
    """Another sink applied these offsets; nothing of the batch was written. Read the position anew."""


def verdict(error: psycopg.Error) -> PostgresAway | Refused:
    """What an error of Postgres means for a batch whose transaction it ended.

    A schema that lacks something, a missing right, a read-only standby are not the rows' fault: waiting
    loses nothing, dead letters by the thousand would bury the cause.
    """
    if is_away(error):
        return PostgresAway(f"Postgres is away ({_named(error)})")
    blamed = error.sqlstate is None or error.sqlstate.startswith(_BLAMES_ROWS)
    if blamed and not isinstance(error, psycopg.InterfaceError):
        return Refused(error)
    return PostgresAway(f"Postgres can't take outcomes ({_named(error)}): {_hint(error)}")


def _named(error: psycopg.Error) -> str:
    return f"{type(error).__name__} {error.sqlstate or ''}".strip()


def _hint(error: psycopg.Error) -> str:
    state = error.sqlstate or ""
    if state.startswith("42501"):
        return "grant the role its rights"
    if state.startswith("42"):
        return "run `rajada migrate`"
    if state.startswith("25"):
        return "it is read-only, connect to the primary"
    return "trying again"
