"""Who may ask, what is out of contract, how it is told; and what a reminder does."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import httpx
import pytest

from db.sealing import Seals, new_key
from ops.clinic import Connection
from ops.whatsapp.scenario import Scenario
from ops.whatsapp.serving import WhatsAppBeside
from tests.integration.web.conftest import Serve, organization, token_of


def rows(connection: Connection) -> int:
    found = connection.execute("SELECT count(*) FROM group_link_dispatch_queue").fetchone()
    assert found is not None
    return int(str(found[0]))


async def test_another_organizations_token_is_403_and_changes_nothing(
    serve: Serve, connection: Connection
) -> None:
    async with serve() as service:
        job = (await service.post()).json()["jobId"]
        other = {"Authorization": f"Bearer {token_of(connection, organization(connection))}"}
        for path in ("/", "/sendreminder"):
            answer = await service.client.post(path, json=service.body(enrolmentId="e2"), headers=other)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "other_organization")
        assert (await service.client.get(f"/jobs/{job}", headers=other)).status_code == 404
    assert rows(connection) == 1


NOBODY = [None, "", "Bearer", "Bearer x", "Basic abc", "Bearer rajada_0123456789abcdef_" + "a" * 43]


async def test_without_a_good_token_nothing_is_answered_but_401(serve: Serve) -> None:
    async with serve() as service:
        for given in NOBODY:
            headers = {} if given is None else {"Authorization": given}
            for method, path in (("POST", "/"), ("POST", "/sendreminder"), ("GET", f"/jobs/{uuid4()}")):
                answer = await service.client.request(method, path, headers=headers, content=b"{")
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_with_a_wrong_secret_or_a_revoked_one_is_401(
    serve: Serve, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.callers.CACHED_S", 0.0)
    async with serve() as service:
        wrong = service.token[:-1] + ("a" if service.token[-1] != "a" else "b")
        answer = await service.client.get("/jobs/x", headers={"Authorization": f"Bearer {wrong}"})
        assert answer.status_code == 401
        assert (await service.post()).status_code == 202
        connection.execute("UPDATE rajada.tokens SET revoked_at = now()")
        assert (await service.post()).status_code == 401


def test_what_is_kept_of_a_token_is_not_the_token(connection: Connection) -> None:
    token = token_of(connection, organization(connection))
    kept = connection.execute("SELECT row_to_json(t)::text FROM rajada.tokens t").fetchone()
    assert kept is not None and token.rpartition("_")[2] not in str(kept[0])


OUT_OF_CONTRACT = [
    ("phone", "11 98888-7777"),
    ("phone", "+0511988887777"),
    ("phone", None),
    ("flow", "both"),
    ("organizationId", "not a uuid"),
    ("enrolmentId", ""),
    ("enrolmentId", "a\x00b"),
    ("enrolmentId", 7),
    ("studentName", "  "),
    ("studentName", "line\nbreak"),
    ("studentName", "\ud800"),
    ("groupLink", "ftp://x"),
    ("groupLink", "https://x y"),
    ("templateName", "Welcome Group"),
    ("templateLanguage", "portuguese"),
    ("delayMs", "soon"),
    ("delayMs", "30"),
    ("delayMs", True),
    ("delayMs", None),
    ("delayMs", [1]),
    ("delayMs", 10**18),
    ("maxAttempts", "many"),
    ("maxAttempts", {}),
    ("surprise", 1),
]


async def test_what_is_out_of_contract_is_422_and_names_the_field(
    serve: Serve, connection: Connection
) -> None:
    async with serve() as service:
        for field, value in OUT_OF_CONTRACT:
            answer = await service.post(**{field: value})
            assert answer.status_code == 422, (field, value, answer.text)
            assert [one["field"] for one in answer.json()["error"]["fields"]] == [field], value
            assert "Ana Souza" not in answer.text, "what was sent is not repeated"
            assert "98888" not in answer.text
    assert rows(connection) == 0


async def test_a_missing_field_is_422_and_named(serve: Serve) -> None:
    async with serve() as service:
        for field in service.body():
            body = service.body()
            del body[field]
            answer = await service.client.post("/", json=body, headers=service.headers)
            assert answer.status_code == 422
            assert [one["field"] for one in answer.json()["error"]["fields"]] == [field]


WHATEVER: list[tuple[bytes, int]] = [
    (b"", 422),
    (b"{", 422),
    (b"[]", 422),
    (b"null", 422),
    (b'"text"', 422),
    (b"\xff\xfe", 422),
    (b"[" * 30_000, 400),
    (b'{"delayMs": 1e999}', 422),
    (b'{"delayMs": NaN}', 422),
    (b'{"delayMs": ' + b"9" * 5_000 + b"}", 400),
]


async def test_whatever_the_body_is_it_is_no_defect(serve: Serve) -> None:
    async with serve() as service:
        headers = {**service.headers, "Content-Type": "application/json"}
        for content, status in WHATEVER:
            answer = await service.client.post("/", content=content, headers=headers)
            assert answer.status_code == status, (content[:20], answer.text)
            assert answer.json()["error"]["code"]


async def test_a_body_that_is_too_large_is_413_told_or_not(serve: Serve) -> None:
    async def pieces() -> object:
        for _ in range(100):
            yield b" " * 2_048

    async with serve(web_max_body_kb=16) as service:
        headers = {**service.headers, "Content-Type": "application/json"}
        told = await service.client.post("/", content=b" " * 17_000, headers=headers)
        untold = await service.client.post("/", content=pieces(), headers=headers)  # type: ignore[arg-type]
    assert [told.status_code, untold.status_code] == [413, 413]
    assert told.json()["error"]["code"] == untold.json()["error"]["code"] == "body_too_large"


async def test_each_token_has_its_own_rate(serve: Serve, connection: Connection) -> None:
    async with serve(web_rate_per_s=5) as service:
        answers = await asyncio.gather(*(service.post() for _ in range(30)))
        codes = [one.status_code for one in answers]
        other = {"Authorization": f"Bearer {token_of(connection, organization(connection))}"}
        another = await service.client.get(f"/jobs/{uuid4()}", headers=other)
    assert 5 <= codes.count(202) < 30 and set(codes) == {202, 429}
    late = next(one for one in answers if one.status_code == 429)
    assert int(late.headers["retry-after"]) >= 1
    assert another.status_code == 404, "nobody else is slowed"


async def test_an_organization_that_is_gone_is_named(serve: Serve, connection: Connection) -> None:
    async with serve() as service:
        assert (await service.get(f"/jobs/{uuid4()}")).status_code == 404
        connection.execute("DELETE FROM organizations")
        answer = await service.post()
    assert answer.status_code == 422
    assert [one["field"] for one in answer.json()["error"]["fields"]] == ["organizationId"]


async def test_health_needs_no_token_and_readiness_tells_what_is_missing(
    serve: Serve, connection: Connection
) -> None:
    async with serve() as service:
        bare = httpx.AsyncClient(base_url=service.url, trust_env=False)
        assert (await bare.get("/livez")).json() == {"status": "ok"}
        await service.parts.look()
        assert (await bare.get("/readyz")).status_code == 200
        connection.execute("ALTER TABLE rajada.tokens RENAME TO elsewhere")
        await service.parts.look()
        late = await bare.get("/readyz")
        assert (late.status_code, late.json()["error"]["code"]) == (503, "not_ready")
        assert "rajada migrate" in late.json()["error"]["message"]
        assert (await bare.get("/livez")).status_code == 200
        schema = (await bare.get("/openapi.json")).json()
        await bare.aclose()
    assert {"/", "/sendreminder", "/jobs/{id}", "/livez", "/readyz"} == schema["paths"].keys()
    assert schema["components"]["schemas"]["GroupLinkBody"]["examples"][0]["flow"] == "personal"


async def test_a_defect_and_other_paths_are_told_in_the_same_shape(
    serve: Serve, connection: Connection
) -> None:
    async with serve() as service:
        assert (await service.get("/nothing")).json()["error"]["code"] == "not_found"
        assert (await service.get("/sendreminder")).json()["error"]["code"] == "method_not_allowed"
        connection.execute("ALTER TABLE group_link_dispatch_queue DROP COLUMN flow")
        answer = await service.post()
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "defect")
        connection.execute("DROP TABLE group_link_dispatch_queue")
        answer = await service.post(enrolmentId="another")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_migrated")


# -- reminders


async def test_a_reminder_is_sent_at_once_and_the_queue_is_not_touched(
    serve: Serve, connection: Connection, whatsapp: WhatsAppBeside
) -> None:
    async with serve() as service:
        answer = await service.post("/sendreminder")
    assert answer.status_code == 200 and answer.json()["providerMessageId"].startswith("wamid.")
    (got,) = whatsapp.messages("+5511988887777")
    assert (got.template, got.phone_number_id, got.taken) == ("welcome_group", "1055", True)
    assert rows(connection) == 0


FAILURES = [
    (Scenario(mode="error", code=131026), 502, "whatsapp_131026"),
    (Scenario(mode="error", code=132001, status=404), 502, "whatsapp_132001"),
    (Scenario(mode="error", code=131056, status=429), 429, "whatsapp_131056"),
    (Scenario(mode="error", code=190, status=401), 502, "credentials_refused"),
    (Scenario(mode="error", code=131000, status=500), 502, "whatsapp_131000"),
    (Scenario(mode="drop"), 504, "unknown_outcome"),
    (Scenario(mode="hang"), 504, "unknown_outcome"),
]


async def test_a_reminder_answers_with_the_providers_error(serve: Serve, whatsapp: WhatsAppBeside) -> None:
    async with serve(whatsapp_timeout_s=1) as service:
        for number, (scenario, status, code) in enumerate(FAILURES):
            whatsapp.treat(scenario)
            answer = await service.post("/sendreminder")
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
            assert len(whatsapp.messages()) == number + 1, "never sent twice"


async def test_without_credentials_a_reminder_is_409_and_its_own_number_wins(
    serve: Serve, connection: Connection, whatsapp: WhatsAppBeside
) -> None:
    async with serve(whatsapp_access_token=None) as service:
        answer = await service.post("/sendreminder")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no_credentials")
    key = new_key()
    async with serve(secret_keys=key) as service:
        connection.execute(
            "INSERT INTO rajada.whatsapp_numbers VALUES (%s, '2077', %s)",
            [service.organization_id, Seals([key]).seal("stand-in-token")],
        )
        assert (await service.post("/sendreminder")).status_code == 200
    assert [one.phone_number_id for one in whatsapp.messages()] == ["2077"]
    async with serve() as service:
        connection.execute(
            "UPDATE rajada.whatsapp_numbers SET organization_id = %s", [service.organization_id]
        )
        sealed = await service.post("/sendreminder")
        assert (sealed.status_code, sealed.json()["error"]["code"]) == (409, "no_credentials")
        assert "RAJADA_SECRET_KEYS" in sealed.text
    assert len(whatsapp.messages()) == 1, "nobody is written to from another's number"
    assert "stand-in-token" not in json.dumps(answer.json())
