"""When a dead broker ends the workers that write to it, and when they wait it out."""

import pytest

from ops.doctor.failover import verdict


@pytest.mark.parametrize(
    ("noticed_s", "session_s", "level"),
    [(9, 6, "warn"), (9, 12.5, "ok"), (9, 12, "warn"), (3, 6, "ok"), (3, 4, "warn")],
)
def test_workers_need_more_patience_than_the_brokers(noticed_s: float, session_s: float, level: str) -> None:
    assert verdict(noticed_s, session_s).level == level


def test_the_advice_is_enough_to_be_well() -> None:
    assert "RAJADA_SESSION_TIMEOUT_S to 13 " in verdict(9, 6).advice
    assert verdict(9, 13).level == "ok"
