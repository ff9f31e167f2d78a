"""Group links, as the doctor sees them."""

from __future__ import annotations

import socket

import pytest
from pydantic import SecretStr

from db.sealing import Seals, new_key
from ops.doctor.group_links import ask, held, http_api, provider_verdict, sealed, tokens
from ops.whatsapp.serving import WhatsAppBeside
from settings import Settings
from streams.handlers.whatsapp import Number

KEY = new_key()


def nobody() -> str:
    """A URL at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_an_api_that_nobody_serves_is_told_with_how_to_start_it() -> None:
    verdict = http_api(nobody())
    assert verdict.level == "warn" and "rajada web" in verdict.advice


def test_tokens_of_organizations_without_a_number_are_told() -> None:
    assert tokens(2, 1, default=True).level == "ok"
    assert tokens(2, 0, default=False).level == "ok"
    verdict = tokens(2, 1, default=False)
    assert verdict.level == "warn" and "1 organization " in verdict.found and "whatsapp set" in verdict.advice


def test_access_tokens_that_are_plain_or_shut_are_told_and_never_shown() -> None:
    stored = [("1", Seals([KEY]).seal("secret")), ("2", "secret")]
    plain = sealed(stored, Seals([KEY]))
    assert plain.level == "warn" and plain.found.startswith("1 access token") and "reseal" in plain.advice
    shut = sealed(stored, Seals())
    assert shut.level == "fail" and "RAJADA_SECRET_KEYS" in shut.found
    assert sealed(stored[:1], Seals([KEY])).level == sealed([], Seals()).level == "ok"
    assert "secret" not in plain.found + plain.advice.replace("RAJADA_SECRET_KEYS", "") + shut.found


def test_held_links_wait_for_a_person() -> None:
    assert held(0).level == "ok"
    assert held(3).level == "warn" and "group-links retry" in held(3).advice


@pytest.mark.parametrize(
    ("status", "body", "level"),
    [
        (200, b'{"id": "1055"}', "ok"),
        (401, b'{"error": {"code": 190}}', "fail"),
        (400, b'{"error": {"code": 190}}', "fail"),
        (403, b"", "fail"),
        (400, b'{"error": {"code": 100}}', "fail"),
        (404, b"<html>", "fail"),
        (429, b"{}", "warn"),
        (502, b"<html>", "warn"),
    ],
)
def test_what_the_provider_says_of_a_number(status: int, body: bytes, level: str) -> None:
    verdict = provider_verdict("1055", status, body)
    assert verdict.level == level
    assert bool(verdict.advice) is (level != "ok")


@pytest.mark.thorough
def test_the_provider_is_asked_with_the_numbers_token_and_nothing_is_sent() -> None:
    with WhatsAppBeside(token="good") as whatsapp:
        settings = Settings.model_validate({"whatsapp_url": whatsapp.url})
        assert ask(Number("1055", SecretStr("good")), settings).level == "ok"
        refused = ask(Number("1055", SecretStr("bad")), settings)
        assert whatsapp.messages() == []
    assert refused.level == "fail" and "190" in refused.found and "bad" not in refused.found
    away = ask(Number("1055", SecretStr("good")), settings)
    assert away.level == "fail" and "WHATSAPP_API_URL" in away.advice
