"""The site: its links lead somewhere, every page has its place, and nothing in it asks another server."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.docs_site import LeadsNowhere, linked, set_apart
from tests import yaml_texts

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def conf() -> dict[str, object]:
    found = yaml_texts.read((ROOT / "mkdocs.yml").read_text())
    assert isinstance(found, dict)
    return found


def in_nav(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    inner = entry.values() if isinstance(entry, dict) else entry
    return [page for one in inner for page in in_nav(one)]


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        linked((DOCS / page).read_text(), page)


def test_a_link_to_nothing_ends_the_build() -> None:
    with pytest.raises(LeadsNowhere, match=r"docs/jobs\.md has a link to nothing\.md"):
        linked("see [this](nothing.md#there)", "jobs.md")


@pytest.mark.parametrize(
    ("written", "page", "told"),
    [
        ("[settings.py](../settings.py)", "jobs.md", "`settings.py`"),
        ("[its code](../../settings.py)", "adr/x.md", "its code (`settings.py`)"),
        ("[all](runbooks/)", "metrics.md", "[all](runbooks/README.md)"),
        ("[here](jobs.md#states)", "delays.md", "[here](jobs.md#states)"),
        ("[out](https://kafka.io/) ![](way.svg)", "delays.md", "[out](https://kafka.io/) ![](way.svg)"),
        ("```\n[no](link.md)\n```\n", "delays.md", "```\n[no](link.md)\n```\n"),
    ],
)  # fmt: skip
def test_links_out_of_the_docs_become_names(written: str, page: str, told: str) -> None:
    assert linked(written, page) == told


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("text:\n- a\n- b\n", "text:\n\n- a\n- b\n"),
        ("text\n| a |\n| - |\n| b |\n", "text\n\n| a |\n| - |\n| b |\n"),
        ("1. a\n   b\n   ```sql\n   x\n   ```\n2. c\n", "1. a\n    b\n    ```sql\n    x\n    ```\n2. c\n"),
        ("1. a\n\n   b\n2. c\n3. d\n", "1. a\n\n    b\n\n2. c\n3. d\n"),
        ("- a\n  - b\n    c\n\nend\n", "- a\n    - b\n      c\n\nend\n"),
        ("```\n- a\n   b\n| x\n```\n", "```\n- a\n   b\n| x\n```\n"),
        ("## h\n- a\n", "## h\n- a\n"),
        ("1. a\n2. b\ntext\n\n   x\n", "1. a\n2. b\ntext\n\n   x\n"),
    ],
)  # fmt: skip
def test_lists_and_tables_are_set_apart(written: str, told: str) -> None:
    assert set_apart(written) == told


def test_every_page_has_its_place() -> None:
    told = set(in_nav(conf()["nav"]))
    apart = ("runbooks/", "adr/", "spec/")
    missing = {page for page in PAGES if not page.startswith(apart)} - told
    assert not missing, f"name them in mkdocs.yml: {sorted(missing)}"
    assert told <= set(PAGES)


def test_every_decision_is_listed() -> None:
    listed = (DOCS / "adr/README.md").read_text()
    missing = [page for page in PAGES if page.startswith("adr/") and f"({Path(page).name})" not in listed]
    assert missing == ["adr/README.md"], "name them in docs/adr/README.md"


def test_the_site_asks_no_other_server() -> None:
    assert conf()["theme"]["font"] is False
    assert "extra_javascript" not in conf() and conf()["extra_css"] == ["site.css"]
    assert "url(" not in (DOCS / "site.css").read_text()
    assert conf()["plugins"] == ["search"], "`offline` loads a script from elsewhere"
    fences = [one for one in conf()["markdown_extensions"] if isinstance(one, dict)]
    assert not [one for one in fences if "pymdownx.superfences" in one], "diagrams would come from elsewhere"
