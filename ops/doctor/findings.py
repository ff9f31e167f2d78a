"""What the doctor finds: one line a check, its gravity, and what to do about it (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from settings import RajadaError

Level = Literal["ok", "warn", "fail", "skip"]
"""`ok`; `warn`: works, but look at it; `fail`: messages are not answered, or may be answered twice; `skip`:
couldn't be looked at, since a server is away that another finding tells of."""

FAILED: Final = 10
"""Exit code of `rajada doctor` when a check failed. Warnings alone leave it at 0."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check says."""

    level: Level
    found: str
    advice: str = ""
    """What to do; empty when nothing is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with its place in the report."""

    area: str
    check: str
    level: Level
    found: str
    advice: str = ""


def ok(found: str) -> Verdict:
    """All is well."""
    return Verdict("ok", found)


def warn(found: str, advice: str = "") -> Verdict:
    """It works, but somebody should look at it."""
    return Verdict("warn", found, advice)


def fail(found: str, advice: str) -> Verdict:
    """Messages are not answered, or may be answered twice, until somebody does what is advised."""
    return Verdict("fail", found, advice)


Check = Callable[[], "Verdict | Sequence[Verdict]"]


def examine(area: str, checks: Mapping[str, Check]) -> list[Finding]:
    """Make each check. One that breaks is a finding of its own and stops no other."""
    findings = []
    for name, check in checks.items():
        try:
            said = check()
        except Exception as error:
            said = _broken(error)
        verdicts = [said] if isinstance(said, Verdict) else said
        findings += [Finding(area, name, one.level, one.found, one.advice) for one in verdicts]
    return findings


def _broken(error: Exception) -> Verdict:
    """A check that could not be made: a right that is missing, a server that went away meanwhile."""
    if isinstance(error, RajadaError):
        return fail("could not be checked", str(error))
    first_line = (str(error).splitlines() or [""])[0]
    return fail(f"could not be checked: {type(error).__name__}: {first_line[:300]}", "see the message")


def skipped(area: str, names: Iterable[str], why: str) -> list[Finding]:
    """Checks that can't be made."""
    return [Finding(area, name, "skip", f"not checked: {why}") for name in names]


def exit_code(findings: Iterable[Finding]) -> int:
    """0 if nothing failed (warnings don't count), else FAILED."""
    return FAILED if any(finding.level == "fail" for finding in findings) else 0


def summary(findings: Iterable[Finding]) -> str:
    """How many of each, in words."""
    counts = Counter(finding.level for finding in findings)
    parts = [f"{counts['ok']} ok"]
    for count, word in ((counts["warn"], "warning"), (counts["fail"], "failure")):
        if count:
            parts.append(f"{count} {word}{'s' * (count != 1)}")
    if counts["skip"]:
        parts.append(f"{counts['skip']} not checked")
    return ", ".join(parts)
