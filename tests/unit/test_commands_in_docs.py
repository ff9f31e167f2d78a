"""Whatever page names a command of `rajada` names one that there is, with options that it has."""

from __future__ import annotations

import re
from pathlib import Path

from ops.cli import tree

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
INLINE = re.compile(r"`rajada ([^`]+)`")
FENCED = re.compile(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*rajada ([^#\n]*)", re.MULTILINE)
OPTION = re.compile(r"--[a-z][a-z-]+")
RAJADA = tree()


def mistakes(words: list[str]) -> list[str]:
    """What is wrong with the words behind `rajada`; of names with | between them each is looked at."""
    command, path = RAJADA, ["rajada"]
    while words and hasattr(command, "commands") and not words[0].startswith(("-", "…")):
        names = words.pop(0).strip(",;:.").split("|")
        if path != ["rajada"] and getattr(command, "invoke_without_command", False) and names[0].isupper():
            break
        if unknown := [name for name in names if name not in command.commands]:
            return [f"{' '.join(path)} has no {unknown[0]}"]
        path.append(names[0])
        command = command.commands[names[0]]
    known = {opt for one in command.params for opt in (*one.opts, *one.secondary_opts)} | {"--help"}
    given = {option for word in words for option in OPTION.findall(word)}
    return [f"{' '.join(path)} has no {option}" for option in sorted(given - known)]


def told_on(page: Path) -> list[str]:
    text = page.read_text()
    fences = re.findall(r"^ *```(?:sh|bash)?\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = INLINE.findall(prose) + [line for fence in fences for line in FENCED.findall(fence)]
    return [re.split(r" > | \| | && ", line)[0].strip() for line in found if not line.startswith("COMMAND")]


def test_pages_name_commands_and_options_that_there_are() -> None:
    wrong = [
        f"{page.relative_to(ROOT)}: rajada {line}: {mistake}"
        for page in PAGES
        for line in told_on(page)
        for mistake in mistakes(line.split())
    ]
    assert not wrong, "\n".join(wrong)


def test_a_wrong_one_would_be_found() -> None:
    assert mistakes(["dlq", "requeu", "--all"]) == ["rajada dlq has no requeu"]
    assert mistakes(["dlq", "requeue", "--everything"]) == ["rajada dlq requeue has no --everything"]
    assert mistakes(["jobs", "hold|release", "ID", "--reason", "x"]) == []
    assert len(told_on(ROOT / "docs/disasters.md")) > 30
