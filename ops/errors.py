"""What can go wrong while the stack is run, and the exit code the `rajada` command then ends with."""

from __future__ import annotations

from typing import ClassVar

from settings import RajadaError


class OpsError(RajadaError):
    """Base of the errors of `ops`; the message says what to do next."""

    exit_code: ClassVar[int] = 3


class NotRunning(OpsError):
    """Nothing runs in the data folder, but the command needs it to."""

    exit_code: ClassVar[int] = 4


class AlreadyRunning(OpsError):
    """Another process holds the data folder, or the part of it that is asked for."""

    exit_code: ClassVar[int] = 5


class CannotRunHere(OpsError):
    """This machine lacks something: Java, Postgres, a jar, a port, a right, space on the disk."""

    exit_code: ClassVar[int] = 6


class FolderRefused(CannotRunHere):
    """The data folder isn't ours, is of a newer version, or can't be written."""


class Unreachable(OpsError):
    """A given Kafka or Postgres does not answer, or is not set up as it must be."""

    exit_code: ClassVar[int] = 7


class NotFound(OpsError):
    """What was asked for is not there; the message says where it was looked for."""

    exit_code: ClassVar[int] = 12


class NotYet(OpsError):
    """What was waited for did not happen in time; the message says what it waits for."""

    exit_code: ClassVar[int] = 11


class StartFailed(OpsError):
    """A process of the stack died again and again, or did not become ready in time."""

    exit_code: ClassVar[int] = 8


WRONG_LINES = 9
"""Exit code when lines of a file are wrong."""
UNEXPECTED = 1
"""Exit code of an error that nobody foresaw: a defect of Rajada."""


def exit_code_of(error: BaseException) -> int:
    """The exit code of the `rajada` command for `error`.

    0 well, 1 a defect, 2 wrong usage, 3 an error with advice, and of those: 4 nothing runs, 5 it runs
    already, 6 this machine lacks something, 7 a given server is away or unfit, 8 a process did not start,
    11 what was waited for did not happen yet, 12 what was asked for is not there.
    Of single commands: 9 `produce` and `dlq import` found wrong lines; 10 something is not as it should be
    (`doctor` found a failure, the demo lost something, letters stay that can't be requeued); 130 Ctrl-C.
    docs/commands.md has them all.
    """
    if isinstance(error, OpsError):
        return error.exit_code
    return OpsError.exit_code if isinstance(error, RajadaError) else UNEXPECTED


class WrongScenario(RajadaError):
    """A scenario has a field or a value that there is none of; the message names it."""
