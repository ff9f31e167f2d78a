"""What the doctor's findings add up to, and that a broken check stops no other."""

from __future__ import annotations

import pytest

from ops.doctor.findings import FAILED, Finding, examine, exit_code, fail, ok, skipped, summary, warn
from settings import RajadaError


def test_one_broken_check_is_a_failure_of_its_own_and_the_others_are_made() -> None:
    def broken() -> object:
        raise OSError("no route to host\nDETAIL: a row's content")

    def advised() -> object:
        raise RajadaError("run `rajada migrate`")

    findings = examine(
        "area",
        {"a": lambda: ok("fine"), "b": broken, "c": advised, "d": lambda: [warn("x", "y"), fail("z", "w")]},  # type: ignore[dict-item]
    )
    assert [(one.check, one.level) for one in findings] == [
        ("a", "ok"), ("b", "fail"), ("c", "fail"), ("d", "warn"), ("d", "fail"),
    ]  # fmt: skip
    assert findings[1].found == "could not be checked: OSError: no route to host"
    assert findings[2].advice == "run `rajada migrate`"


@pytest.mark.parametrize(
    ("levels", "code", "words"),
    [
        ([], 0, "0 ok"),
        (["ok", "ok"], 0, "2 ok"),
        (["ok", "warn", "skip"], 0, "1 ok, 1 warning, 1 not checked"),
        (["warn", "warn", "fail"], FAILED, "0 ok, 2 warnings, 1 failure"),
    ],
)
def test_warnings_leave_the_exit_code_at_zero(levels: list[str], code: int, words: str) -> None:
    findings = [Finding("a", "c", level, "found") for level in levels]  # type: ignore[arg-type]
    assert exit_code(findings) == code
    assert summary(findings) == words


def test_the_exit_code_is_none_that_the_command_has_for_another_reason() -> None:
    assert FAILED not in range(10)


def test_what_is_skipped_says_why() -> None:
    assert skipped("a", ["x", "y"], "Kafka is away") == [
        Finding("a", "x", "skip", "not checked: Kafka is away"),
        Finding("a", "y", "skip", "not checked: Kafka is away"),
    ]
