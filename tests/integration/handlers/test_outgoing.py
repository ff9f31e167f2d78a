"""Calls under a DNS that lies, against real servers on addresses of this machine.

`inside.example` and the others are names of a resolver that a test puts in place of the machine's; the
servers, the sockets and what they see are real. One on 127.0.0.2 stands for what must not be reached.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from ops.doctor.engine import agent_engine
from settings import Settings
from streams.handlers.http import HttpClient, Limits
from streams.handlers.outgoing import Outgoing, networks_of
from streams.handlers.replies import NoReply, Reply
from streams.reconcile.instances import Instance
from streams.reconcile.probe import Probe, Provider
from tests.integration.handlers.raw_server import OK, Talk, raw_server

LIMITS = Limits(connect_s=2.0, read_s=5.0, total_s=10.0)
Answers = Callable[[list[list[str]]], list[str]]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Makes every name lead to lists of addresses in turn, the last one for ever; gives the names asked."""
    real = socket.getaddrinfo

    def lie(answers: list[list[str]]) -> list[str]:
        asked: list[str] = []

        def resolver(name: Any, port: Any, *args: Any, **named: Any) -> Any:
            if not isinstance(name, str) or not name.endswith(".example"):
                return real(name, port, *args, **named)
            asked.append(name)
            addresses = answers.pop(0) if len(answers) > 1 else answers[0]
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0)) for address in addresses
            ]

        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        return asked

    return lie


@asynccontextmanager
async def calling(outgoing: Outgoing | None = None) -> AsyncIterator[HttpClient]:
    client = HttpClient(outgoing=outgoing)
    try:
        yield client
    finally:
        await client.close()


async def ask(client: HttpClient, url: str) -> Reply | NoReply:
    return await client.post(url, b"{}", {}, LIMITS, repeatable=True)


async def speak(talk: Talk) -> None:
    await talk.say(OK)


@asynccontextmanager
async def forbidden(port: int) -> AsyncIterator[list[str]]:
    """A server on 127.0.0.2 at the same port; what it saw."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append("a connection")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.2", port)
    try:
        yield seen
    finally:
        server.close()


async def test_a_name_that_leads_inside_is_refused_before_any_connection(dns: Answers) -> None:
    dns([["127.0.0.1"]])
    async with raw_server(speak) as raw, calling() as client:
        port = raw.url.split(":")[2].split("/")[0]
        reply = await ask(client, f"http://inside.example:{port}/turns")
        assert isinstance(reply, NoReply) and not reply.may_have_arrived and reply.refused
        assert reply.reason.startswith("address_refused: inside.example leads to 127.0.0.1")
        assert raw.connections == 0


async def test_a_network_that_the_settings_name_is_called_by_its_name(dns: Answers) -> None:
    dns([["127.0.0.1"]])
    async with raw_server(speak) as raw, calling(Outgoing(networks=networks_of("private"))) as client:
        port = raw.url.split(":")[2].split("/")[0]
        reply = await ask(client, f"http://inside.example:{port}/turns")
        assert isinstance(reply, Reply) and reply.status == 200
        assert f"host: inside.example:{port}" in raw.requests[0][0].lower()


async def test_the_address_that_was_looked_at_is_the_one_that_is_called(dns: Answers) -> None:
    """Rebinding: the second answer of the DNS is another one, and nobody asks for it."""
    asked = dns([["127.0.0.1"], ["127.0.0.2"]])
    allowed = Outgoing(networks=networks_of("127.0.0.1/32"))
    async with raw_server(speak) as raw, calling(allowed) as client:
        port = int(raw.url.split(":")[2].split("/")[0])
        async with forbidden(port) as seen:
            assert isinstance(await ask(client, f"http://rebound.example:{port}/turns"), Reply)
            assert (raw.connections, seen, asked) == (1, [], ["rebound.example"])


async def test_a_name_that_moves_inside_later_is_refused_then(
    dns: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.handlers.names.KNOWN_S", 0.0)
    dns([["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2"]])
    allowed = Outgoing(networks=networks_of("127.0.0.1/32"))

    async def hang_up(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    async with raw_server(hang_up) as raw, calling(allowed) as client:
        port = int(raw.url.split(":")[2].split("/")[0])
        async with forbidden(port) as seen:
            assert isinstance(await ask(client, f"http://moving.example:{port}/turns"), Reply)
            reply = await ask(client, f"http://moving.example:{port}/turns")
            assert isinstance(reply, NoReply) and reply.refused and seen == []


async def test_one_address_inside_among_good_ones_spoils_the_name(dns: Answers) -> None:
    dns([["127.0.0.1", "169.254.169.254"]])
    async with raw_server(speak) as raw, calling(Outgoing(networks=networks_of("private"))) as client:
        port = raw.url.split(":")[2].split("/")[0]
        reply = await ask(client, f"http://mixed.example:{port}/turns")
        assert isinstance(reply, NoReply) and reply.refused and raw.connections == 0


async def test_where_nobody_listens_the_next_address_of_a_name_is_tried(dns: Answers) -> None:
    dns([["127.0.0.3", "127.0.0.1"]])
    async with raw_server(speak) as raw, calling(Outgoing(networks=networks_of("private"))) as client:
        port = raw.url.split(":")[2].split("/")[0]
        assert isinstance(await ask(client, f"http://two.example:{port}/turns"), Reply)


async def test_a_name_whose_address_answers_no_more_is_asked_for_anew(dns: Answers) -> None:
    dns([["127.0.0.3"], ["127.0.0.1"]])
    async with raw_server(speak) as raw, calling(Outgoing(networks=networks_of("private"))) as client:
        port = raw.url.split(":")[2].split("/")[0]
        gone = await ask(client, f"http://moved.example:{port}/turns")
        assert isinstance(gone, NoReply) and gone.reason.startswith("connection_refused")
        assert isinstance(await ask(client, f"http://moved.example:{port}/turns"), Reply)


async def test_a_host_that_is_not_named_is_not_called(dns: Answers) -> None:
    asked = dns([["127.0.0.1"]])
    async with raw_server(speak) as raw, calling(Outgoing("engine.example")) as client:
        for url in (raw.url, "http://other.example/turns"):
            reply = await ask(client, url)
            assert isinstance(reply, NoReply) and reply.reason.startswith("host_refused") and reply.refused
        assert (raw.connections, asked) == (0, [])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_leads_to_another_host(status: int) -> None:
    async with raw_server(speak) as inside:

        async def send_on(talk: Talk) -> None:
            head = f"HTTP/1.1 {status} On\r\nLocation: {inside.url}\r\nContent-Length: 0\r\n\r\n"
            await talk.say(head.encode())

        async with raw_server(send_on) as raw, calling() as client:
            reply = await ask(client, raw.url)
            assert isinstance(reply, Reply) and reply.status == status
            assert inside.connections == 0


async def test_the_provider_is_not_asked_where_its_name_leads_inside(dns: Answers) -> None:
    dns([["127.0.0.1"]])
    instance = Instance(str(uuid4()), str(uuid4()), None, "provisioning", 1)
    async with raw_server(speak) as raw:
        port = raw.url.split(":")[2].split("/")[0]
        for outgoing, connections in ((Outgoing(), 0), (Outgoing(networks=networks_of("private")), 1)):
            async with Probe(Provider(f"http://provider.example:{port}/{{id}}", outgoing=outgoing)) as probe:
                assert await probe.ask([instance]) == {instance.id: "unreachable"}
            assert raw.connections == connections


def test_the_doctor_tells_a_refused_engine(dns: Answers) -> None:
    dns([["10.0.0.7"]])
    found = agent_engine(Settings(agent_engine_url="http://inside.example:1/turns"))
    assert "address_refused: inside.example leads to 10.0.0.7" in str(found) and "held" in str(found)
