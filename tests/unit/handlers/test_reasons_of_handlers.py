"""Every code that a handler gives is told in words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ops.reasons import REASONS, reason

HANDLERS = Path(__file__).parents[3] / "streams" / "handlers"
CODE = re.compile(r"([a-z][a-z_]+): ")


def codes() -> set[str]:
    """The codes at the beginning of texts that are given as reasons."""
    found = set()
    for file in HANDLERS.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            texts = node.values[:1] if isinstance(node, ast.JoinedStr) else [node]
            for text in texts:
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    code = CODE.match(text.value)
                    found |= {code[1]} if code else set()
    return found


def test_every_code_of_a_handler_is_in_the_catalogue() -> None:
    assert len(codes()) > 12, "the code is looked through in the wrong way"
    assert codes() - REASONS.keys() == set()
    assert {"no_engine", "bad_decision"} <= REASONS.keys()


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("http_503: model overloaded", "the server answered 503"),
        ("retry:http_429", "the server answered 429"),
        ("dead:http_404: no such tenant", "the server answered 404"),
        ("held:no_engine: AGENT_ENGINE_URL is not set", REASONS["no_engine"].title),
        ("vetoed:conversation_closed", "conversation closed"),
        ("retry:", "retry:"),
    ],
)
def test_reasons_of_jobs_are_told_with_and_without_what_was_done_for_them(name: str, title: str) -> None:
    assert reason(name).title == title
