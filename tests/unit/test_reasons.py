"""The catalogue of reasons knows every one that the code gives, and the docs show the catalogue."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from db.publisher import TOO_LARGE
from ops.reasons import REASONS, STATES, WARNINGS, as_markdown, reason
from schemas.errors import Undecodable
from sinks.outcomes import _REASONS as SINK_REASONS
from streams.eligibility import Veto

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


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("merged:1234", REASONS["merged"].title),
        ("covered_by:1234", REASONS["covered_by"].title),
        ("sqlstate_23514", "Postgres error 23514"),
        ("something_new", "something new"),
    ],
)
def test_reasons_with_an_id_or_a_code_and_unknown_ones_are_told_too(name: str, title: str) -> None:
    assert reason(name).title == title


def test_every_text_is_one_line_without_a_pipe() -> None:
    for one in REASONS.values():
        assert one.title and "|" not in one.title + one.meaning + one.advice
        assert one.title[0].islower() or one.title.startswith(("Postgres", "Avro"))
    assert set(STATES) == {"pending", "running", "done", "failed", "dead"}


def test_the_page_of_reasons_is_this_catalogue() -> None:
    assert as_markdown() in (ROOT / "docs/reasons.md").read_text()
