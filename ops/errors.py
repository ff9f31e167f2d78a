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


class StartFailed(OpsError):
    """A process of the stack died again and again, or did not become ready in time."""

    exit_code: ClassVar[int] = 8


UNEXPECTED = 1
"""Exit code of an error that nobody foresaw: a defect of Rajada."""


def exit_code_of(error: BaseException) -> int:
    """The exit code of the `rajada` command for `error`.

    0 well, 1 a defect, 2 wrong usage, 3 an error with advice, and of those: 4 nothing runs, 5 it runs
    already, 6 this machine lacks something, 7 a given server is away or unfit, 8 a process did not start.
    Commands of their own: 9 `produce` found wrong lines, 10 `doctor` found a failure.
    """
    if isinstance(error, OpsError):
        return error.exit_code
    return OpsError.exit_code if isinstance(error, RajadaError) else UNEXPECTED
