"""docs/commands.md has every command and option, and every command an example that can be typed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.cli import tree
from ops.commands_page import PAGE, all_commands, whole
from ops.examples import EXAMPLES
from ops.exit_codes import COMMANDS


def test_the_page_is_what_the_code_says() -> None:
    assert whole() == PAGE.read_text(), "python -m ops.commands_page > new.md && mv new.md docs/commands.md"


def test_the_page_and_the_table_have_the_same_commands() -> None:
    assert {name for name, _ in all_commands()} == COMMANDS.keys()


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"{name} {one.name}"
        for name, command in all_commands()
        for one in command.params
        if one.name != "help" and not getattr(one, "help", None)
    ]
    assert not silent


def test_every_command_has_examples() -> None:
    missing = {name for name, _ in all_commands()} ^ EXAMPLES.keys()
    assert not missing, f"ops/examples.py and ops/cli.py differ: {sorted(missing)}"


def test_examples_are_commands_that_are_understood() -> None:
    rajada = tree()
    for name, line in ((name, line) for name, lines in EXAMPLES.items() for line in lines):
        words = shlex.split(line.partition(" > ")[0])
        assert words[: 1 + len(name.split())] == ["rajada", *name.split()]
        command, rest = rajada, words[1:]
        while hasattr(command, "commands") and rest and rest[0] in command.commands:
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context(name, rest)  # raises UsageError for what can't be meant


def test_the_help_ends_with_the_examples() -> None:
    told = CliRunner().invoke(tree(), ["dlq", "requeue", "--help"], env={"COLUMNS": "200"}).output
    for line in EXAMPLES["dlq requeue"]:
        assert line in told


def test_the_version_is_told() -> None:
    outcome = CliRunner().invoke(tree(), ["--version"])
    assert outcome.exit_code == 0 and outcome.output.startswith("rajada ")


@pytest.mark.thorough
def test_a_shell_completes_commands(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "RAJADA_HOME": str(tmp_path), "_RAJADA_COMPLETE": "complete_bash",
                   "COMP_WORDS": "rajada dlq re", "COMP_CWORD": "2"}  # fmt: skip
    program = Path(sys.executable).with_name("rajada")
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.split() == ["requeue"]
