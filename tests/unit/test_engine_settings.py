"""Settings of the agent engine: what is taken, and that no secret shows when one is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from settings import Settings, WrongSetting, get_settings


@pytest.fixture(autouse=True)
def unread() -> Iterator[None]:
    """Settings are read anew, here and by whoever comes next."""
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("http://engine:8080/turns", "http://engine:8080/turns"),
        (" https://ai.clinica.example/v1?mode=slow ", "https://ai.clinica.example/v1?mode=slow"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("", None),
        ("  ", None),
    ],
)
def test_addresses_that_are_taken(url: str, taken: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENGINE_URL", url)
    assert get_settings().agent_engine_url == taken


@pytest.mark.parametrize(
    "url",
    ["ftp://engine/x", "engine:8080", "http://", "http:///turns", "http://engine:0/", "http://engine:s3cret/",
     "http://user:s3cret@engine/", "http://user:s3cret/x@engine/", "http://[s3cret", "http://e/ s3cret",
     "http://e/#s3cret", "http://e/é", "http://e\n/"],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_without_showing_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_ENGINE_URL", url)
    with pytest.raises(WrongSetting) as refused:
        get_settings()
    assert str(refused.value).startswith("AGENT_ENGINE_URL") and "s3cret" not in str(refused.value)


def test_a_token_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENGINE_TOKEN", " s3cret\n")
    settings = get_settings()
    assert settings.agent_engine_token is not None
    assert settings.agent_engine_token.get_secret_value() == "s3cret"
    assert "s3cret" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


@pytest.mark.parametrize("token", ["s3cret one", "s3cret\r\nX-Evil: 1", "s3crét"])
def test_a_token_that_no_header_can_carry_is_refused(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENGINE_TOKEN", token)
    with pytest.raises(WrongSetting) as refused:
        get_settings()
    assert "s3cr" not in str(refused.value)


def test_without_settings_there_is_no_engine() -> None:
    settings = Settings()
    assert settings.agent_engine_url is None and settings.agent_engine_token is None
    assert settings.agent_engine_read_timeout_s < settings.agent_engine_timeout_s
