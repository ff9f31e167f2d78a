"""docs/jobs.md shows the state machine and the settings as they are."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic.fields import FieldInfo

from ops.job_diagram import WORDS, as_markdown, diagram, table
from settings import Settings
from streams.heads import State
from streams.job_table import TABLE, Event

PAGE = (Path(__file__).parents[2] / "docs/jobs.md").read_text("utf-8")
SETTING = re.compile(r"^\| `([A-Z_]+)` \| (\S+) \|", re.MULTILINE)


def variables() -> dict[str, FieldInfo]:
    """The settings by the name of their environment variable."""
    return {
        str(field.validation_alias or f"RAJADA_{name.upper()}"): field
        for name, field in Settings.model_fields.items()
    }


def test_the_page_is_drawn_from_the_table() -> None:
    assert as_markdown() in PAGE, "print it with `python -m ops.job_diagram` and put it into docs/jobs.md"


def test_every_event_is_told_in_words() -> None:
    assert {event.value for event in Event} <= set(map(str, WORDS))
    assert all(f"| {event.value} |" in table() for event in Event)


def test_the_picture_has_every_way_between_the_states_that_it_shows() -> None:
    drawn = set(re.findall(r"^    (\S+) --> (\w+): (.+)$", diagram(), re.MULTILINE))
    aside = {State.AWAITED, State.UNVERIFIED}
    wanted = {
        ("[*]" if source is None else source.value, target.value, event.value)
        for event, row in TABLE.items()
        for source, targets in row.items()
        for target in targets
        if source is not target and not {source, target} & aside
    }
    assert {(source, target, one) for source, target, events in drawn for one in events.split(", ")} == wanted


def test_the_settings_on_the_page_have_these_defaults() -> None:
    told = SETTING.findall(PAGE)
    assert len(told) >= 8, "the page is read in the wrong way"
    fields = variables()
    for variable, default in told:
        value = fields[variable].get_default(call_default_factory=True)
        words = "unset" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        assert default == words, variable


def test_commands_and_files_that_the_page_names_are_there() -> None:
    root = Path(__file__).parents[2]
    for link in re.findall(r"\]\(([a-z-]+\.md)\)", PAGE):
        assert (root / "docs" / link).exists(), link
    for file in re.findall(r"`(tests/\S+\.py)`", PAGE):
        assert (root / file).exists(), file
