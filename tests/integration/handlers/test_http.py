"""The pool of HTTP connections against servers that behave badly; all of them real sockets."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import trustme

from settings import WrongSetting
from streams.handlers.http import IDLE_S, KEPT_BYTES, HttpClient, Limits
from streams.handlers.replies import NoReply, Reply
from tests.integration.handlers.raw_server import OK, Speak, Talk, raw_server

LIMITS = Limits(connect_s=2.0, read_s=5.0, total_s=10.0)


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.close()


async def ask(
    client: HttpClient, url: str, limits: Limits = LIMITS, *, repeatable: bool = True
) -> Reply | NoReply:
    return await client.post(url, b"{}", {"X-One": "1"}, limits, repeatable=repeatable)


async def asked(client: HttpClient, speak: Speak, limits: Limits = LIMITS) -> Reply | NoReply:
    """What a call of a server that speaks so comes back with."""
    async with raw_server(speak) as raw:
        return await ask(client, raw.url, limits)


def answering(*pieces: bytes) -> Speak:
    async def speak(talk: Talk) -> None:
        await talk.say(*pieces)

    return speak


async def silent(talk: Talk) -> None:
    await asyncio.sleep(60)


# -- what is asked


async def test_what_a_server_gets(client: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with raw_server(answering(OK)) as raw:
        reply = await ask(client, raw.url + "?a=b")
    assert isinstance(reply, Reply) and (reply.status, reply.body, reply.cut) == (200, b"OK", False)
    head, body = raw.requests[0]
    assert head.startswith("POST /turns?a=b HTTP/1.1\r\n") and body == b"{}"
    lines = head.lower().splitlines()
    assert "x-one: 1" in lines and "accept-encoding: identity" in lines and "user-agent: rajada" in lines


async def test_a_proxy_or_netrc_of_the_environment_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ana password s3cret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    client = HttpClient()
    async with raw_server(answering(OK)) as raw:
        assert isinstance(await ask(client, raw.url), Reply)
    await client.close()
    assert "authorization" not in raw.requests[0][0].lower()


async def test_connections_are_kept_and_used_again(client: HttpClient) -> None:
    async with raw_server(answering(OK)) as raw:
        for _ in range(20):
            await ask(client, raw.url)
        assert (raw.connections, len(raw.requests)) == (1, 20)


async def test_no_cookie_goes_from_one_job_to_the_next(client: HttpClient) -> None:
    async with raw_server(
        answering(b"HTTP/1.1 200 OK\r\nSet-Cookie: who=ana\r\nContent-Length: 0\r\n\r\n")
    ) as raw:
        for _ in range(2):
            await ask(client, raw.url)
    assert len(raw.requests) == 2 and "cookie" not in raw.requests[1][0].lower()


# -- how long it takes


async def test_br_09_a_server_that_never_answers_is_given_up(client: HttpClient) -> None:
    started = time.monotonic()
    reply = await asked(client, silent, Limits(1.0, 0.2, 5.0))
    assert reply == NoReply("read_timeout: silent for 0.2 s")
    assert time.monotonic() - started < 3


async def test_br_09_one_that_drips_is_given_up_by_the_total_time(client: HttpClient) -> None:
    async def drip(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await talk.say(b"x")
            await asyncio.sleep(0.02)

    started = time.monotonic()
    async with raw_server(drip) as raw:
        reply = await ask(client, raw.url, Limits(1.0, 1.0, 0.4))
        assert reply == NoReply("timeout: no whole answer within 0.4 s")
        assert time.monotonic() - started < 3
        await _until(lambda: raw.broken_off == 1, "the connection is closed")


async def test_one_whose_queue_of_connections_is_full_is_given_up(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        crowd = [socket.socket() for _ in range(8)]
        for one in crowd:
            one.setblocking(False)
            one.connect_ex(address)
        reply = await ask(client, f"http://127.0.0.1:{address[1]}/", Limits(0.3, 5.0, 10.0))
        for one in crowd:
            one.close()
    assert reply == NoReply("connect_timeout: no connection within 0.3 s", may_have_arrived=False)


async def test_a_cancelled_call_is_broken_off(client: HttpClient) -> None:
    async with raw_server(silent) as raw:
        call = asyncio.ensure_future(ask(client, raw.url))
        await _until(lambda: bool(raw.requests), "the request is there")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


# -- how much is read


async def test_of_a_long_answer_only_the_beginning_is_read(client: HttpClient) -> None:
    sent = 0

    async def flood(talk: Talk) -> None:
        nonlocal sent
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        for _ in range(150_000):
            await talk.say(b"x" * 65_536)
            sent += 65_536

    async with raw_server(flood) as raw:
        reply = await ask(client, raw.url)
        assert isinstance(reply, Reply) and reply.cut and len(reply.body) == KEPT_BYTES
        await _until(lambda: raw.broken_off == 1, "the connection is closed")
    assert sent < 64_000_000, "what the sockets' buffers hold, not the whole"


@pytest.mark.parametrize("size", [KEPT_BYTES - 1, KEPT_BYTES])
async def test_an_answer_that_just_fits_is_whole(client: HttpClient, size: int) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
    reply = await asked(client, answering(head, b"y" * size))
    assert isinstance(reply, Reply) and not reply.cut and reply.body == b"y" * size


async def test_chunks_without_an_end_are_cut_too(client: HttpClient) -> None:
    async def chunks(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await talk.say(b"1000\r\n", b"z" * 4_096, b"\r\n")

    reply = await asked(client, chunks)
    assert isinstance(reply, Reply) and reply.status == 500 and reply.cut


async def test_a_head_without_an_end_is_refused(client: HttpClient) -> None:
    async def endless(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\n")
        while True:
            await talk.say(b"X-More: " + b"x" * 4_096 + b"\r\n")

    reply = await asked(client, endless)
    assert isinstance(reply, NoReply) and reply.reason.startswith("broken_answer:")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "GZIP"])
async def test_an_encoded_answer_is_read_though_plain_was_asked_for(
    client: HttpClient, encoding: str
) -> None:
    plain = b'{"decision": "retry"}'
    packed = zlib.compress(plain) if encoding == "deflate" else gzip.compress(plain)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(packed)}\r\n\r\n"
    reply = await asked(client, answering(head.encode() + packed))
    assert isinstance(reply, Reply) and reply.body == plain and not reply.cut


async def test_an_encoded_bomb_is_cut(client: HttpClient) -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
    reply = await asked(client, answering(head.encode(), bomb))
    assert isinstance(reply, Reply) and reply.cut and len(reply.body) <= KEPT_BYTES


async def test_an_encoding_that_can_not_be_read_is_told(client: HttpClient) -> None:
    reply = await asked(
        client,
        answering(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 5\r\n\r\n\x8b\x00\x80ab"),
    )
    assert isinstance(reply, NoReply) and reply.reason.startswith("unreadable_answer:")


# -- where it goes


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_to_the_same_place_is_followed_with_its_body(
    client: HttpClient, status: int
) -> None:
    async def speak(talk: Talk) -> None:
        onward = f"HTTP/1.1 {status} X\r\nLocation: /turns/\r\nContent-Length: 3\r\n\r\nsee".encode()
        await talk.say(OK if talk.head.startswith("POST /turns/ ") else onward)

    async with raw_server(speak) as raw:
        reply = await ask(client, raw.url)
    assert isinstance(reply, Reply) and reply.status == 200
    assert [body for _, body in raw.requests] == [b"{}", b"{}"]
    assert all("X-One: 1" in head for head, _ in raw.requests)


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.1:1/turns", "https://127.0.0.1/turns", "//elsewhere.invalid/", "http://u:p@{here}/",
     "http://localhost:{port}/turns", "http://[", "mailto:ana"],
)  # fmt: skip
async def test_a_redirect_to_another_place_is_not_followed(client: HttpClient, location: str) -> None:
    async def speak(talk: Talk) -> None:
        here = talk.head.split("ost: ")[1].split("\r\n")[0]
        target = location.format(here=here, port=here.split(":")[1])
        await talk.say(f"HTTP/1.1 307 X\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())

    async with raw_server(speak) as raw:
        reply = await ask(client, raw.url)
        assert isinstance(reply, Reply) and reply.status == 307 and len(raw.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_would_make_a_get_of_it_is_not_followed(
    client: HttpClient, status: int
) -> None:
    reply = await asked(
        client, answering(f"HTTP/1.1 {status} X\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".encode())
    )
    assert isinstance(reply, Reply) and reply.status == status


async def test_redirects_in_a_circle_end(client: HttpClient) -> None:
    async with raw_server(
        answering(b"HTTP/1.1 308 X\r\nLocation: /turns\r\nContent-Length: 0\r\n\r\n")
    ) as raw:
        reply = await ask(client, raw.url)
        assert isinstance(reply, NoReply) and reply.reason.startswith("redirect_loop")
        assert len(raw.requests) == 4


# -- what breaks


async def test_nobody_listens(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    reply = await ask(client, f"http://127.0.0.1:{port}/")
    assert reply == NoReply("connection_refused: nobody listens there", may_have_arrived=False)


async def test_a_name_that_nobody_knows(client: HttpClient) -> None:
    reply = await ask(client, "http://no-such-engine.invalid/")
    assert isinstance(reply, NoReply) and reply.reason.startswith("name_unknown:")
    assert not reply.may_have_arrived


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ((), "broken_answer"),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",), "broken_answer"),
        ((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",), "broken_answer"),
        ((b"SSH-2.0-OpenSSH_9\r\n\r\n",), "broken_answer"),
        ((b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",), "broken_answer"),
        ((b"HTTP/1.1 2000 OK\r\n\r\n",), "broken_answer"),
    ],
)
async def test_broken_http_is_no_answer(client: HttpClient, pieces: tuple[bytes, ...], code: str) -> None:
    async def speak(talk: Talk) -> None:
        await talk.say(*pieces)
        talk.writer.close()

    reply = await asked(client, speak)
    assert isinstance(reply, NoReply) and reply.reason.startswith(f"{code}: ") and reply.may_have_arrived


async def test_a_connection_that_is_reset_is_no_answer(client: HttpClient) -> None:
    async def reset(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
        talk.hang_up()

    reply = await asked(client, reset)
    assert isinstance(reply, NoReply) and reply.may_have_arrived


async def test_a_fresh_connection_that_breaks_is_not_asked_again(client: HttpClient) -> None:
    async def hang_up(talk: Talk) -> None:
        talk.hang_up()

    async with raw_server(hang_up) as raw:
        assert isinstance(await ask(client, raw.url), NoReply)
        assert len(raw.requests) == 1


async def close_the_second_time(talk: Talk) -> None:
    """Answers the first request of a connection and hangs up on the second."""
    if talk.on_connection == 1:
        await talk.say(OK)
    else:
        talk.hang_up()


async def test_a_kept_connection_that_the_server_gives_up_costs_nothing(client: HttpClient) -> None:
    async with raw_server(close_the_second_time) as raw:
        replies = [await ask(client, raw.url) for _ in range(3)]
        assert all(isinstance(reply, Reply) for reply in replies)
        assert raw.connections == 3
        again = [head for head, _ in raw.requests if "sent-again: 1" in head.lower()]
        assert len(raw.requests) - len(again) == 3 and len(again) == 2


async def test_what_must_not_be_sent_twice_is_not(client: HttpClient) -> None:
    async with raw_server(close_the_second_time) as raw:
        assert isinstance(await ask(client, raw.url), Reply)
        reply = await ask(client, raw.url, repeatable=False)
        assert isinstance(reply, NoReply) and reply.may_have_arrived
        assert len(raw.requests) == 2


async def test_a_connection_is_not_kept_longer_than_servers_keep_it(client: HttpClient) -> None:
    assert IDLE_S < 5.0


# -- certificates


def server_side(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


async def test_an_authority_of_ones_own_is_trusted_by_its_file(tmp_path: Path) -> None:
    authority, file = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    client = HttpClient(file)
    async with raw_server(answering(OK), server_side(authority, "localhost")) as raw:
        reply = await ask(client, raw.url)
    await client.close()
    assert isinstance(reply, Reply) and reply.status == 200


async def test_an_authority_that_nobody_named_is_not(client: HttpClient) -> None:
    async with raw_server(answering(OK), server_side(trustme.CA(), "localhost")) as raw:
        reply = await ask(client, raw.url)
    assert isinstance(reply, NoReply) and not reply.may_have_arrived
    assert reply.reason.startswith("certificate: ") and "RAJADA_CA_FILE" in reply.reason
    assert not raw.requests


async def test_a_certificate_of_another_name_is_refused(tmp_path: Path) -> None:
    authority, file = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    client = HttpClient(file)
    async with raw_server(answering(OK), server_side(authority, "elsewhere.example")) as raw:
        reply = await ask(client, raw.url)
    await client.close()
    assert isinstance(reply, NoReply) and reply.reason.startswith("certificate: Hostname mismatch")


async def test_https_to_a_server_that_speaks_http(client: HttpClient) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        reply = await ask(client, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert isinstance(reply, NoReply) and reply.reason.startswith("tls: ") and not reply.may_have_arrived


def test_a_file_without_certificates_is_told_by_its_setting(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    with pytest.raises(WrongSetting, match="RAJADA_CA_FILE"):
        HttpClient(file)


async def _until(holds: object, what: str) -> None:
    assert callable(holds)
    for _ in range(200):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not within 2 s: {what}")
