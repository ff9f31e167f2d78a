"""The service on a real Postgres, asked over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
import uvicorn

from db.queries import load
from db.tokens import new_token
from ops.clinic import Connection
from ops.whatsapp.serving import WhatsAppBeside
from settings import Settings
from web.app import build
from web.parts import Parts


def organization(connection: Connection) -> UUID:
    """An organization of its own."""
    made = uuid4()
    connection.execute("INSERT INTO organizations (id, name, status) VALUES (%s, 'school', 'active')", [made])
    return made


def token_of(connection: Connection, of: UUID) -> str:
    """A token of an organization."""
    token = new_token()
    values = {"id": token.id, "organization_id": of, "name": "test", "secret_sha256": token.digest}
    connection.execute(load("tokens_add"), {**values, "made_by": None})
    return token.text


@dataclass
class Service:
    """The service, and one organization that may ask it."""

    url: str
    client: httpx.AsyncClient
    organization_id: UUID
    token: str
    parts: Parts
    headers: dict[str, str] = field(default_factory=dict)

    def body(self, **fields: object) -> dict[str, object]:
        """A body within the contract, changed."""
        return {
            "flow": "personal",
            "organizationId": str(self.organization_id),
            "enrolmentId": "enr-1",
            "studentName": "Ana Souza",
            "phone": "+5511988887777",
            "groupLink": "https://chat.whatsapp.com/Kd8aQ1",
            "templateName": "welcome_group",
            "templateLanguage": "pt_BR",
            **fields,
        }

    async def post(self, path: str = "/", **fields: object) -> httpx.Response:
        """POST such a body."""
        content = json.dumps(self.body(**fields))
        headers = {**self.headers, "Content-Type": "application/json"}
        return await self.client.post(path, content=content, headers=headers)

    async def get(self, path: str) -> httpx.Response:
        """GET with the organization's token."""
        return await self.client.get(path, headers=self.headers)


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened


Serve = Callable[..., "asynccontextmanager[Service]"]


@pytest.fixture
def serve(database: str, connection: Connection, whatsapp: WhatsAppBeside) -> Serve:
    """Serves with further settings."""

    @asynccontextmanager
    async def serving(**more: object) -> AsyncIterator[Service]:
        settings = Settings.model_validate(
            {
                "whatsapp_url": whatsapp.url,
                "whatsapp_phone_number_id": "1055",
                "whatsapp_access_token": "stand-in-token",
                "web_rate_per_s": 0,
                **more,
            }
        )
        application = build(database, settings)
        config = uvicorn.Config(
            application, port=0, log_config=None, access_log=False, lifespan="on",
            timeout_keep_alive=120,  # on a busy machine a client may take its time
        )  # fmt: skip
        server = uvicorn.Server(config)
        task = asyncio.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        of = organization(connection)
        token = token_of(connection, of)
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(
            base_url=url, timeout=60, trust_env=False, limits=httpx.Limits(max_connections=100)
        ) as client:
            headers = {"Authorization": f"Bearer {token}"}
            try:
                yield Service(url, client, of, token, application.state.parts, headers)
            finally:
                server.should_exit = True
                await task

    return serving
