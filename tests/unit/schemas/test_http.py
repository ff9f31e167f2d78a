"""The JSON Schemas of what goes over HTTP are those of the types."""

from __future__ import annotations

import pytest

from schemas.http import FILES, FOLDER, schema_text


@pytest.mark.parametrize("name", FILES)
def test_the_committed_schema_is_the_one_of_the_type(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == schema_text(FILES[name]), "python -m schemas.http"


def test_no_schema_is_left_behind() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == FILES.keys()
