"""The templates: whatever is shown is escaped, and nothing in them needs what the policy forbids."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from web.pages import acts, rendering
from web.pages.desk import Desk
from web.pages.sessions import new_session
from web.pages.told import (
    Alert,
    Coming,
    Compared,
    Counted,
    Current,
    Delays,
    Difference,
    Instance,
    Instances,
    Job,
    Lag,
    Lane,
    Letter,
    Letters,
    Opened,
    OpenWindow,
    Overview,
    Run,
    Shadow,
    Slot,
    Story,
    Told,
    Windows,
)
from web.pages.viewers import Viewer

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}</td></textarea>"
SESSION = new_session("0123456789abcdef", bytes(32), 0)
VIEWER = Viewer("0123456789abcdef", HOSTILE, "operator", True, None, SESSION, "form")
LETTER = Letter(HOSTILE, 1, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 2, "open")
JOB = Job(HOSTILE, HOSTILE, HOSTILE, HOSTILE, "held", 1, 5, 1, HOSTILE, 2**45, HOSTILE)
RUN = Run(1, 1.0, HOSTILE, HOSTILE, 1, 2, 3, HOSTILE)
ALERT = Alert(HOSTILE, HOSTILE, HOSTILE, HOSTILE, "open", 2, 1, 2, HOSTILE)
COUNTED = [Counted(HOSTILE, 3)]
STORY = Story(
    HOSTILE, HOSTILE, True, {HOSTILE: HOSTILE, "event": HOSTILE},
    [Told(1, HOSTILE, "warn", [HOSTILE], [HOSTILE])], 3, [Current(HOSTILE, HOSTILE, 2**45)],
    [HOSTILE], [HOSTILE],
)  # fmt: skip
OVERVIEW = Overview(
    at_ms=1, coming=[Coming(HOSTILE, 1, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)],
    minutes=[1, 2],
    events=COUNTED, jobs=COUNTED, links=COUNTED, alerts=[ALERT], lags=[Lag(HOSTILE, HOSTILE, 3, 1)],
    slots=[Slot(HOSTILE, True, HOSTILE, 1, 2)], runs=[RUN], notes=[HOSTILE],
)  # fmt: skip
PAGES: dict[str, dict[str, object]] = {
    "overview.html": {"seen": OVERVIEW},
    "jobs.html": {
        "jobs": [JOB], "statuses": [HOSTILE], "kinds": [HOSTILE], "status": HOSTILE,
        "kind": HOSTILE, "most": 1,
    },
    "alerts.html": {"alerts": [ALERT], "everything": False},
    "windows.html": {
        "seen": Windows(
            1, [OpenWindow(HOSTILE, HOSTILE, HOSTILE, HOSTILE, 1, 2**45)], 2,
            [Lane(HOSTILE, HOSTILE, True, 1, 1, 1, 1, 1, HOSTILE)], 2, False, HOSTILE,
        )
    },
    "delays.html": {"seen": Delays(1, [(HOSTILE, 1)], [JOB])},
    "shadow.html": {
        "seen": Shadow(
            1, 2, 3, 4,
            [Difference(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 5,
                        [Compared(1, HOSTILE, HOSTILE, HOSTILE, [HOSTILE])])],
            6, [HOSTILE],
        ),
        "hours": 1,
    },
    "instances.html": {
        "seen": Instances(COUNTED, [Instance(HOSTILE, HOSTILE, HOSTILE, 1, True, True)], [RUN], 2)
    },
    "letters.html": {
        "found": Letters([LETTER], 2, [(HOSTILE, HOSTILE, 1)], HOSTILE), "parking": True, "closed": True,
        "reason": HOSTILE, "most": 1,
    },
    "letter.html": {
        "opened": Opened(
            LETTER, HOSTILE, HOSTILE, HOSTILE, [(HOSTILE, HOSTILE), ("x", None)], HOSTILE,
            [HOSTILE], HOSTILE, HOSTILE,
        )
    },
    "search.html": {"typed": HOSTILE, "story": STORY, "job": JOB, "wrong": ""},
    "confirm.html": {
        "asked": acts.LETTERS["drop"], "what": HOSTILE, "about": [(HOSTILE, HOSTILE)], "back": HOSTILE,
        "order": HOSTILE,
    },
    "done.html": {"asked": acts.LETTERS["drop"], "told": HOSTILE, "back": HOSTILE},
    "trouble.html": {"status": 500, "message": HOSTILE},
    "login.html": {"following": HOSTILE, "wrong": HOSTILE},
}  # fmt: skip
GIVEN: dict[str, object] = {"viewer": VIEWER, "csrf": "form", "path": "/live"}


class Elements(HTMLParser):
    """Names and attributes of all elements; fails at a tag that closes another."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br", "rect", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect",):
            assert self.open and self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.text += data


def elements_of(template: str) -> Elements:
    elements = Elements()
    elements.feed(rendering.text_of(template, {**GIVEN, **PAGES[template]}))
    elements.close()
    assert not elements.open
    return elements


@pytest.mark.parametrize("template", PAGES)
def test_hostile_texts_are_text(template: str) -> None:
    elements = elements_of(template)
    assert "<script>alert(1)</script>" in elements.text or template == "login.html"
    assert "49" not in elements.text
    for tag, attributes in elements.found:
        assert tag != "img"
        assert tag != "script" or attributes == {"src": "/live/static/live.js", "defer": None}
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (
            tag,
            attributes,
        )


@pytest.mark.parametrize("template", PAGES)
def test_links_and_forms_stay_on_the_page(template: str) -> None:
    for tag, attributes in elements_of(template).found:
        for name in ("href", "action", "src"):
            value = attributes.get(name)
            fine = value is None or value.startswith(("/live", "#main", "data:,")) or value == HOSTILE
            assert fine, (tag, value)


@pytest.mark.parametrize("template", PAGES)
def test_everything_that_is_filled_in_has_a_label(template: str) -> None:
    found = elements_of(template).found
    labelled = {attributes.get("for") for tag, attributes in found if tag == "label"}
    for tag, attributes in found:
        if tag in ("select", "input") and attributes.get("type") not in ("hidden", "checkbox"):
            assert attributes.get("id") in labelled, attributes


@pytest.mark.parametrize("template", PAGES)
def test_a_page_has_one_first_heading_and_names_its_parts(template: str) -> None:
    found = elements_of(template).found
    ids = [
        attributes["id"]
        for _, attributes in found
        if "id" in attributes and attributes["id"] != f"a-{HOSTILE}"
    ]
    assert len(ids) == len(set(ids))
    assert [tag for tag, _ in found].count("h1") == 1
    assert ("html", {"lang": "en"}) in found
    for tag, attributes in found:
        assert tag not in ("section", "article") or attributes.get("aria-labelledby"), attributes
    assert [tag for tag, _ in found].count("table") == [tag for tag, _ in found].count("caption")


@pytest.mark.parametrize("template", PAGES)
def test_what_is_followed_is_what_the_page_shows(template: str) -> None:
    values = {**GIVEN, **PAGES[template]}
    page = rendering.text_of(template, values)
    regions = rendering.regions_of(template, values)
    assert set(regions) == set(re.findall(r'data-region="([a-z]+)"', page))
    assert bool(regions) is ("data-follow=" in page)


def test_the_files_are_ours_and_load_nothing_from_elsewhere() -> None:
    folder = rendering.FOLDER
    assert {path.name for path in (folder / "static").iterdir()} == set(rendering.STATIC)
    for path in [*(folder / "templates").iterdir(), *(folder / "static").iterdir()]:
        assert not re.search(r"https?://|@import|url\(|\| ?safe\b.*viewer|eval\(", path.read_text()), path


def test_the_policy_forbids_what_is_inline() -> None:
    policy = dict(rendering.HEADERS)["content-security-policy"]
    assert "unsafe" not in policy and policy.startswith("default-src 'none'")


def test_the_desk_is_what_ops_gives() -> None:
    from ops.pages.desk import PageDesk
    from settings import Settings

    desk: Desk = PageDesk("postgresql://nowhere/none", Settings())
    assert desk.windows(None).note
    assert Path(rendering.FOLDER / "templates" / "frame.html").is_file()
