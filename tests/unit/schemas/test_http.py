"""The JSON Schemas of what goes over HTTP are those of the types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from ops.engine.scenario import Mode
from schemas.http import FILES, FOLDER, TurnAnswer, TurnPayload, TurnRequest, schema_text
from settings import Settings
from streams.handlers.http import IDLE_S, KEPT_BYTES, MOST_REDIRECTS
from streams.handlers.replies import RESULT_BYTES

PAGE = (Path(__file__).parents[3] / "docs" / "agent-engine.md").read_text("utf-8")


@pytest.mark.parametrize("name", FILES)
def test_the_committed_schema_is_the_one_of_the_type(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == schema_text(FILES[name]), "python -m schemas.http"


def test_no_schema_is_left_behind() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == FILES.keys()


def test_the_page_names_every_field_mode_and_setting_with_its_default() -> None:
    optional = {"event_replays", "replay_of"}
    for described in (TurnRequest, TurnPayload, TurnAnswer):
        for field in msgspec.structs.fields(described):
            assert field.name in optional or re.search(f'["`]{field.name}["`]', PAGE), field.name
    for mode in get_args(Mode):
        assert f"`{mode}`" in PAGE, mode
    for name, field in Settings.model_fields.items():
        if name.startswith("agent_engine_"):
            default = "unset" if field.default is None else f"{field.default:g}"
            assert f"| `{name.upper()}` | {default} |" in PAGE, name
    assert f"{KEPT_BYTES // 1024} KiB" in PAGE and f"{RESULT_BYTES // 1024} KiB" in PAGE
    assert f"after {IDLE_S:g} s of idleness" in PAGE and MOST_REDIRECTS == 3
