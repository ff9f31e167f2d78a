"""docs/commands.md has every command of `rajada` with its exit codes."""

from __future__ import annotations

import inspect
from pathlib import Path

from ops import backfill, bar, errors
from ops.errors import OpsError
from ops.exit_codes import CODES, COMMANDS, as_markdown, commands

PAGE = Path(__file__).parents[2] / "docs/commands.md"


def test_every_command_is_in_the_table() -> None:
    missing = dict(commands()).keys() ^ COMMANDS.keys()
    assert not missing, f"bring ops/exit_codes.py in line with ops/cli.py, for {sorted(missing)}"


def test_every_command_says_what_it_does() -> None:
    assert [name for name, told in commands() if not told] == []


def test_the_page_is_the_table() -> None:
    assert as_markdown() in PAGE.read_text(), "print it anew: python -m ops.commands_page"


def test_every_code_has_one_meaning() -> None:
    assert {code for codes in COMMANDS.values() for code in codes} == set(CODES)
    raised = {
        kind.exit_code
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, OpsError)
    }
    assert raised | {errors.WRONG_LINES, errors.UNEXPECTED, bar.INTERRUPTED, backfill.INTERRUPTED} <= set(
        CODES
    )
