"""Where tests name behaviours: reads sources, runs nothing.

An id like `b012` counts where a reader of a test's report or of its head meets it: in its name or docstring,
in its decorators and their comments, in a comment on the line of its `def` or right above it, or in a table
that a `parametrize` of the file names. `b010 to b014`, `b010–b014` and `_b010_to_b014_` are ranges.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

_ID = re.compile(r"(?<![A-Za-z0-9-])b(\d{3})(?:(?:_to_| to | ?– ?)b(\d{3}))?(?![A-Za-z0-9-])")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mention:
    """One id in one line of a file."""

    id: str
    line: int
    counts: bool
    """It stands where it tells what a test proves."""


def ids_in(text: str) -> Iterator[str]:
    """The ids that a text names, ranges written out."""
    for found in _ID.finditer(text):
        first = int(found[1])
        for number in range(first, int(found[2] or first) + 1):
            yield f"b{number:03}"


def mentions(source: str) -> list[Mention]:
    """Every id in the source of a test file."""
    if _ID.search(source) is None:
        return []
    good = _lines_that_count(ast.parse(source), source.splitlines())
    found: list[Mention] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.STRING, tokenize.COMMENT):
            for n, line in enumerate(token.string.splitlines(), token.start[0]):
                found += [Mention(one, n, n in good) for one in ids_in(line)]
    return found


def _lines_that_count(tree: ast.Module, lines: list[str]) -> set[int]:
    good: set[int] = set()
    tables: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, _Function) and node.name.startswith("test_"):
            good.update(_head(node, lines))
            tables.update(_names(node.decorator_list))
    assigned = dict(_assignments(tree))
    waiting = list(tables)
    while waiting:
        statement = assigned.pop(waiting.pop(), None)
        if statement is not None:
            good.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
            waiting += _names([statement])
    return good


def _head(test: _Function, lines: list[str]) -> range:
    """From the comments above a test to the end of its docstring, or to its first statement."""
    first = min([test.lineno, *(decorator.lineno for decorator in test.decorator_list)])
    while first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
    body = test.body[0]
    if ast.get_docstring(test) is not None:
        return range(first, (body.end_lineno or body.lineno) + 1)
    return range(first, max(body.lineno, test.lineno + 1))


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node


def _names(nodes: list[ast.expr] | list[ast.stmt]) -> set[str]:
    return {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}
