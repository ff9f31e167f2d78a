"""The page of threats names tests that exist: an answer without a test would only be a claim."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "security.md").read_text()
NAMED = re.findall(r"`((?:unit|integration|e2e)/[\w/]+\.py)::(\w+)`", PAGE)


@cache
def defined_in(path: str) -> frozenset[str]:
    """Names of the tests of a file."""
    tree = ast.parse((TESTS / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def test_every_test_that_is_named_exists() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in NAMED
        if not (TESTS / path).is_file() or name not in defined_in(path)
    ]
    assert missing == []


def test_every_threat_has_an_answer_and_a_test() -> None:
    table = PAGE.split("## Threats and answers")[1].split("\n\n**Not answered")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 20
    for row in rows:
        assert len(row) == 3 and row[1].strip() and "::test_" in row[2], row[0]
