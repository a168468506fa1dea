"""The plain HTTP/1.1 client against replies byte by byte: whole, split anywhere, broken, hostile."""

import asyncio
import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toolcredit.llm import wire
from toolcredit.llm.retry import AttemptError
from toolcredit.llm.wire import Wire, _Connection, reaches

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class FakeTransport(asyncio.Transport):
    def __init__(self):
        super().__init__()
        self.sent, self.aborted = b"", False

    def write(self, data):
        self.sent += data

    def abort(self):
        self.aborted = True


def exchange(pieces, max_bytes=1_000_000, closes=False):
    """What one connection makes of the pieces of a reply: the reply, and whether it can be used again."""

    async def run():
        connection, transport = _Connection(), FakeTransport()
        connection.connection_made(transport)
        task = asyncio.ensure_future(connection.send(b"request", max_bytes))
        await asyncio.sleep(0)
        for piece in pieces:
            connection.data_received(piece)
        if closes:
            connection.connection_lost(None)
        await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            return None, connection
        return task.result(), connection

    return asyncio.run(run())


def sized(body, head=OK):
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*chunks, trailer=b""):
    parts = b"".join(b"%x;note=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return OK + b"Transfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n" + trailer + b"\r\n"


@pytest.mark.parametrize(
    ("reply", "reusable"),
    [
        (sized(b'{"a": 1}'), True),
        (chunked(b'{"a"', b": 1}"), True),
        (chunked(b'{"a": 1}', trailer=b"X-Sum: 1\r\n"), False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + sized(b'{"a": 1}'), True),
        (sized(b'{"a": 1}', b"HTTP/1.1 200 OK\r\nConnection: close\r\n"), False),
        (sized(b'{"a": 1}', b"HTTP/1.0 200 OK\r\n"), False),
        (sized(b'{"a": 1}') + b"HTTP/1.1 200 OK\r\n", False),
    ],
)
@settings(max_examples=30)
@given(data=st.data())
def test_a_reply_is_the_same_however_it_is_cut(reply, reusable, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(reply)), max_size=5)))
    pieces = [reply[a:b] for a, b in zip([0, *cuts], [*cuts, len(reply)], strict=True) if a < b]
    found, _ = exchange(pieces)
    assert (found.status, found.body) == (200, b'{"a": 1}')
    assert exchange([reply])[1].reusable is reusable


def test_a_reply_that_ends_with_the_connection():
    found, connection = exchange([OK + b"\r\n", b'{"a"', b": 1}"], closes=True)
    assert found.body == b'{"a": 1}' and not connection.reusable


@pytest.mark.parametrize(
    ("pieces", "reason", "transient"),
    [
        ([b"SSH-2.0-OpenSSH\r\n\r\n"], "something else than HTTP", False),
        ([b"HTTP/2 200\r\n\r\n"], "something else than HTTP", False),
        ([b"HTTP/1.1 abc\r\n\r\n"], "something else than HTTP", False),
        ([b"x" * (wire.MAX_HEAD + 1)], "endless head", False),
        ([OK + b"Content-Length: -1\r\n\r\n"], "Content-Length", False),
        ([OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n"], "Content-Length", False),
        ([OK + b"Content-Length: 9999999999999999999\r\n\r\n"], "Content-Length", False),
        ([OK + b"no colon\r\n\r\n"], "broken header", False),
        ([OK + b"Content-Encoding: gzip\r\n\r\n"], "compression", False),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"], "broken chunk", False),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n"], "broken chunk", False),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc"], "broken chunk", False),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 2000], "broken chunk", False),
        ([OK + b"Content-Length: 2000\r\n\r\n"], "larger than 1000", False),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n"], "larger than 1000", False),
        ([OK + b"\r\n" + b"x" * 1001], "larger than 1000", False),
        ([OK + b"Content-Length: 10\r\n\r\nabc"], "in the middle", True),
        ([OK], "in the middle", True),
        ([], "without an answer", True),
    ],
)
def test_what_is_no_whole_reply_is_refused_and_the_connection_closed(pieces, reason, transient):
    with pytest.raises(AttemptError, match=reason) as error:
        exchange(pieces, max_bytes=1000, closes=True)
    assert error.value.transient is transient


def test_the_beginning_of_a_long_error_page_is_enough():
    page = b"HTTP/1.1 500 Sorry\r\n\r\n" + b"x" * (wire.MAX_ERROR_BODY + 5)
    found, connection = exchange([page])
    assert (found.status, len(found.body), connection.reusable) == (500, wire.MAX_ERROR_BODY, False)


def test_bytes_that_nobody_asked_for_close_the_connection():
    _, connection = exchange([sized(b"{}")])
    connection.data_received(sized(b'{"forged": true}'))
    assert not connection.reusable


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_no_bytes_break_the_reader(pieces):
    with contextlib.suppress(AttemptError):
        exchange([OK, *pieces], max_bytes=100, closes=True)


def test_connections_are_used_again_until_the_server_closes_them():
    """A real server on loopback that closes every third connection after its reply."""
    heads, opened = [], 0

    async def serve(reader, writer):
        nonlocal opened
        opened += 1
        for number in range(3):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            heads.append(head.decode())
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            writer.write(sized(body))
            await writer.drain()
            if number == 2:
                break
        writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat/completions"
        client = Wire()
        for number in range(7):
            reply = await client.post(url, {"Authorization": "Bearer k"}, json.dumps(number).encode(), 100)
            assert reply == (str(number).encode(), "application/json")
            await asyncio.sleep(0.02)  # the server's closing arrives
        client.close()
        server.close()

    asyncio.run(run())
    assert opened == 3
    assert heads[0].startswith("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:")
    assert "\r\nAuthorization: Bearer k\r\n" in heads[0]


def test_a_cancelled_request_closes_its_connection():
    closed = asyncio.Event()

    async def serve(reader, writer):
        await reader.read()  # ends when the client goes away
        closed.set()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(Wire().post(url, {}, b"{}", 100), 0.1)
        await asyncio.wait_for(closed.wait(), 5)
        server.close()

    asyncio.run(run())


def test_nobody_listens():
    with pytest.raises(AttemptError, match="connection failed") as error:
        asyncio.run(Wire().post("http://127.0.0.1:9/v1", {}, b"{}", 100))
    assert error.value.transient


def test_only_plain_http_without_a_proxy_goes_this_way(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert reaches("http://localhost:8000/v1") and not reaches("https://api.example.org/v1")
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert not reaches("http://model.example.org/v1")
    monkeypatch.setenv("no_proxy", "model.example.org")
    assert reaches("http://model.example.org/v1")
