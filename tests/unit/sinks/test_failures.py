"""Which errors of Postgres the sink waits out, and which make it look for the row to blame."""

import psycopg
import pytest
from psycopg import errors

from sinks.failures import Refused, Unavailable, verdict


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidTextRepresentation,
        errors.CheckViolation,
        errors.NotNullViolation,
        errors.RaiseException,
        errors.UntranslatableCharacter,
        errors.ProgramLimitExceeded,
        errors.InternalError_,
        errors.QueryCanceled,
        psycopg.DataError,
    ],
)
def test_a_row_may_be_to_blame(error: type[psycopg.Error]) -> None:
    assert isinstance(verdict(error()), Refused)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (errors.AdminShutdown, "away"),
        (errors.CannotConnectNow, "away"),
        (errors.DiskFull, "away"),
        (psycopg.OperationalError, "away"),
        (errors.UndefinedColumn, "rajada migrate"),
        (errors.UndefinedTable, "rajada migrate"),
        (errors.InsufficientPrivilege, "grant"),
        (errors.ReadOnlySqlTransaction, "primary"),
        (errors.DeadlockDetected, "trying again"),
        (errors.LockNotAvailable, "trying again"),
        (errors.SerializationFailure, "trying again"),
        (psycopg.InterfaceError, "trying again"),
    ],
)
def test_what_no_row_can_cause_is_waited_out_with_a_hint(error: type[psycopg.Error], hint: str) -> None:
    meaning = verdict(error())
    assert isinstance(meaning, Unavailable)
    assert hint in str(meaning)


def test_a_time_out_is_told_apart() -> None:
    slow, wrong = verdict(errors.QueryCanceled()), verdict(errors.CheckViolation())
    assert isinstance(slow, Refused) and slow.timed_out
    assert isinstance(wrong, Refused) and not wrong.timed_out


def test_the_servers_text_stays_out_of_the_message() -> None:
    assert "+5511999999999" not in str(verdict(errors.CheckViolation("row (+5511999999999)")))
