"""Where the tests' servers come from: given ones before containers before the embedded stack."""

from __future__ import annotations

import pytest

from tests import servers


@pytest.mark.parametrize(
    ("given", "wanted", "docker", "source"),
    [
        ("127.0.0.1:9092", "1", True, "given"),
        ("127.0.0.1:9092", "0", False, "given"),
        (None, "1", True, "container"),
        ("", "1", True, "container"),
        (None, "0", True, "embedded"),
        (None, "1", False, "embedded"),
    ],
)
def test_given_servers_win_then_containers_then_the_embedded_stack(
    monkeypatch: pytest.MonkeyPatch, given: str | None, wanted: str, docker: bool, source: str
) -> None:
    monkeypatch.setenv("RAJADA_TEST_CONTAINERS", wanted)
    monkeypatch.setattr(servers, "docker_answers", lambda: docker)
    assert servers.source_of(given) == source


def test_without_a_docker_engine_none_answers_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    assert servers.docker_answers.__wrapped__() is False
