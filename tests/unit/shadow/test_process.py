"""What `rajada shadow run` starts: a worker that is a shadow, and a relay that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.shadow.process import Shadow, folder_of, somebody_publishes
from ops.supervision.units import Program
from settings import Settings


@pytest.mark.parametrize(("relay", "names"), [(False, ["shadow"]), (True, ["relay", "shadow"])])
def test_the_worker_is_a_shadow_and_the_relay_is_the_installations(
    tmp_path: Path, relay: bool, names: list[str]
) -> None:
    settings = Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]
    made = Shadow(settings, "kafka:9092", "postgresql://db/crm", relay=relay, say=lambda line: None)
    units = {unit.name: unit for unit in made._units if isinstance(unit, Program)}
    assert list(units) == names
    told = {name: unit._environment() for name, unit in units.items()}
    assert {name: one["RAJADA_SHADOW"] for name, one in told.items()} == {
        name: "true" if name == "shadow" else "false" for name in names
    }
    for one in told.values():
        assert one["RAJADA_HOME"] == str(folder_of(settings).absolute()), "it is in nobody's way"
        assert (one["KAFKA_BOOTSTRAP_SERVERS"], one["DATABASE_URL"]) == ("kafka:9092", "postgresql://db/crm")


def test_where_debezium_publishes_no_relay_is_started_beside_it(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, publisher="debezium")  # type: ignore[call-arg]
    assert somebody_publishes("postgresql://nowhere/crm", settings), "no server is asked"
