"""The catalogue of reasons knows every one that the code gives, and the docs show the catalogue."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from db.publisher import TOO_LARGE
from ops.reasons import REASONS, STATES, STEPS, WARNINGS, as_markdown, reason
from schemas.errors import Undecodable
from sinks.reading import REASONS as SINK_REASONS
from streams.delays.plan import NO_DUE_TIME, NO_WAY
from streams.delays.plan import TOO_LARGE as TOO_LARGE_TO_DELAY
from streams.eligibility import Veto
from streams.handlers.answers import NO_REASON

ROOT = Path(__file__).parents[2]


def calls(module: str, name: str) -> Iterator[str]:
    """The text that each call of `name` in a module has first."""
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def given() -> set[str]:
    """Every reason that a stage gives."""
    stops = {*calls("streams/decide.py", "Stop"), "superseded_by_newer_inbound"}
    vetoes = {f"not_eligible:{veto}" for veto in get_args(Veto)}
    unreadable = set(calls("streams/events.py", "Unreadable"))
    assert len(stops) >= 7 and len(unreadable) >= 5, "the code is looked through in the wrong way"
    sink = {*SINK_REASONS.values(), "refused_by_postgres"}
    collect = {"invalid_payload", "key_mismatch", "deduplicated", "job", TOO_LARGE, "contact_missing"}
    return stops | vetoes | unreadable | sink | collect


def test_every_reason_that_the_code_gives_is_in_the_catalogue() -> None:
    assert issubclass(next(iter(SINK_REASONS)), Undecodable)
    assert given() - REASONS.keys() == set()


def test_every_warning_of_a_decision_is_in_the_catalogue() -> None:
    source = (ROOT / "streams/decide.py").read_text()
    appended = {
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "append"
        and isinstance(node.args[0], ast.Constant)
    }
    assert appended and appended == set(WARNINGS)


EXECUTOR = [
    "streams/transitions.py",
    "streams/job_endings.py",
    "streams/control.py",
    "streams/merging.py",
    "streams/calls.py",
    "streams/job_intake.py",
    "streams/delays/plan.py",
]


def texts(module: str) -> Iterator[str]:
    """Every text of a module, and how every text that is put together begins."""
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.JoinedStr):
            node = node.values[0]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def codes_of_jobs() -> set[str]:
    """Why the executor retries, holds or buries: what it gives as a code, not what it is told by handlers."""
    found = set()
    for name in EXECUTOR:
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in (
                "die",
                "delay",
                "hold",
                "Retry",
                "_bury",
            ):
                for one in node.args:
                    first = one.values[0] if isinstance(one, ast.JoinedStr) else one
                    parts = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
                    found |= {
                        part.value.partition(":")[0]
                        for part in parts
                        if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    }
    return {code for code in found if " " not in code} | {"due_at_unreadable", "too_large_to_delay"}


def test_every_code_of_the_executor_is_in_the_catalogue() -> None:
    found = codes_of_jobs()
    assert {"worker_lost", "session_not_working", "unknown_kind", "no_key", "handler_failed"} <= found
    assert found - REASONS.keys() == set()
    assert {NO_DUE_TIME, NO_WAY, TOO_LARGE_TO_DELAY, NO_REASON} <= REASONS.keys()


def test_every_step_of_a_job_is_in_the_catalogue() -> None:
    """The executor's outcomes are `step` or `step:reason`; each step is told, and none that there isn't."""
    told = {text.partition(":")[0] for name in EXECUTOR[:4] for text in texts(name)}
    assert STEPS.keys() | {"merged", "covered_by"} <= told
    colons = {text[:-1] for name in EXECUTOR[:4] for text in texts(name) if re.fullmatch("[a-z_]+:", text)}
    assert colons <= STEPS.keys() | {"merged", "covered_by"}, "an outcome that is not in the catalogue"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("retry:worker_lost", REASONS["worker_lost"].title),
        ("held:unknown_outcome", REASONS["unknown_outcome"].title),
        ("held:by hand", "by hand"),
        ("cancelled:wrong number", "wrong number"),
        ("refused:cancel", STEPS["refused"].title),
        ("handed_back", STEPS["handed_back"].title),
        ("done", "answered"),
        ("merged:1234", REASONS["merged"].title),
        ("covered_by:1234", REASONS["covered_by"].title),
        ("sqlstate_23514", "Postgres error 23514"),
        ("something_new", "something new"),
    ],
)
def test_reasons_with_an_id_or_a_code_and_unknown_ones_are_told_too(name: str, title: str) -> None:
    assert reason(name).title == title


def test_every_text_is_one_line_without_a_pipe() -> None:
    for one in (*REASONS.values(), *STEPS.values()):
        assert one.title and "|" not in one.title + one.meaning + one.advice
        assert one.title[0].islower() or one.title.startswith(("Postgres", "Avro"))
    assert set(STATES) == {"pending", "running", "done", "failed", "dead"}


def test_the_page_of_reasons_is_this_catalogue() -> None:
    assert as_markdown() in (ROOT / "docs/reasons.md").read_text()
