"""A rule that a comment cites stands where a reader finds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "docs" / "spec"
FOLDERS = ("streams", "schemas", "sinks", "db", "web", "ops", "tests", "bench", "chaos", "docs")
KINDS = frozenset({".py", ".sql", ".md", ".avsc"})

_CITED = re.compile(r"\bspec/(\w+\.md)")
_STEPS = re.compile(r"spec/dispatch\.md,?\s+steps?\s+(\d)(?:(?:, (\d))? (?:and|to) (\d))?")
_SECTION = re.compile(r'spec/dispatch\.md,\s+"([^"]+)"')


def texts() -> Iterator[tuple[Path, str]]:
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in KINDS and "cases" not in file.parts and file.name != Path(__file__).name:
                yield file, re.sub(r"\s+(?:#|--)?\s*", " ", file.read_text("utf-8"))


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", page, re.MULTILINE)


@pytest.mark.thorough
def test_every_page_that_is_cited_has_its_place_in_the_list() -> None:
    listed = set(_CITED.findall((SPEC / "README.md").read_text("utf-8")))
    cited = {name: file for file, text in texts() for name in _CITED.findall(text)}
    assert cited.keys() <= listed, {name: cited[name] for name in cited.keys() - listed}


def test_the_list_leads_to_pages_that_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (SPEC / "README.md").read_text("utf-8"))
    assert links and not [link for link in links if not (SPEC / link).exists()]


@pytest.mark.thorough
@pytest.mark.parametrize("page", [SPEC / "dispatch.md"])
def test_steps_and_sections_that_are_cited_are_on_the_page(page: Path) -> None:
    found = headings(page.read_text("utf-8"))
    steps = {number for file, text in texts() for cited in _STEPS.findall(text) for number in cited if number}
    assert steps and all(any(one.startswith(f"Step {step}:") for one in found) for step in steps)
    sections = {name for _, text in texts() for name in _SECTION.findall(text)}
    missing = {name for name in sections if not any(one.startswith(name) for one in found)}
    assert sections and not missing, missing
