"""The HTTP side as probes, scrapers, people and vandals see it: real requests on real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from trunkline.admin import http
from trunkline.admin.metrics import Gauges, Metrics, PartitionGauges, Scrape
from trunkline.model.stats import Stats

SOURCES = Path(__file__).parents[2] / "src"
HOST = "127.0.0.1"


class Serving(NamedTuple):
    port: int


@asynccontextmanager
async def serving(
    reason: str | None = None,
    gauges: Gauges | None = None,
    readiness: Callable[[], str | None] | None = None,
) -> AsyncIterator[Serving]:
    listening = socket.create_server((HOST, 0))
    server = await http.start(
        [listening],
        metrics=Metrics(Stats(), gauges or Gauges()),
        readiness=readiness or (lambda: reason),
        listeners={"kafka": "127.0.0.1:9092", "amqp": "<not yet>"},
        version="1.2.3",
    )
    try:
        yield Serving(listening.getsockname()[1])
    finally:
        await server.close()


async def get(server: Serving, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, content type and body."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{HOST}:{server.port}{path}") as response,
    ):
        return response.status, response.headers.get("Content-Type", ""), await response.text()


async def talk(server: Serving, request: bytes) -> bytes:
    """Everything that comes back for raw bytes until the server closes or answers."""
    reader, writer = await asyncio.open_connection(HOST, server.port)
    try:
        writer.write(request)
        await writer.drain()
        return await asyncio.wait_for(reader.read(65536), 10)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1000):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen within 20 s")


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def with_deadline() -> None:
        await asyncio.wait_for(main(), 30)

    asyncio.run(with_deadline())


def test_a_living_node_says_so() -> None:
    async def main() -> None:
        async with serving(reason="storage is full") as server:
            status, content_type, body = await get(server, "/healthz")
            assert (status, json.loads(body)) == (200, {"status": "ok"})
            assert content_type.startswith("application/json")

    run(main)


def test_a_ready_node_says_so() -> None:
    async def main() -> None:
        async with serving() as server:
            status, _, body = await get(server, "/readyz")
            assert (status, json.loads(body)) == (200, {"status": "ready"})

    run(main)


def test_a_node_that_takes_no_writes_says_why() -> None:
    async def main() -> None:
        async with serving(reason="the disk is full: 0 bytes left") as server:
            status, _, body = await get(server, "/readyz")
            assert status == 503
            assert json.loads(body) == {"status": "not ready", "reason": "the disk is full: 0 bytes left"}

    run(main)


def test_a_readiness_check_that_fails_counts_as_not_ready() -> None:
    def broken() -> str | None:
        raise RuntimeError("secret details")

    async def main() -> None:
        async with serving(readiness=broken) as server:
            status, _, body = await get(server, "/readyz")
            assert status == 503
            assert "RuntimeError" in body
            assert "secret" not in body

    run(main)


def test_prometheus_can_read_the_metrics() -> None:
    async def main() -> None:
        gauges = Gauges(partitions=lambda: [PartitionGauges("orders", 0, 10, 1, 9)])
        async with serving(gauges=gauges) as server:
            status, content_type, body = await get(server, "/metrics")
            assert status == 200
            assert content_type == "text/plain; version=0.0.4; charset=utf-8"
            names = {family.name for family in text_string_to_metric_families(body)}
            assert {"trunkline_build_info", "trunkline_messages_in", "trunkline_log_size_bytes"} <= names

    run(main)


def test_many_scrapers_at_once_share_one_scrape_and_the_next_gets_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, may_finish, render = 0, threading.Event(), Scrape.render

    def slow_render(scrape: Scrape) -> bytes:
        may_finish.wait(20)
        return render(scrape)

    def journal_bytes() -> int:
        nonlocal asked
        asked += 1
        return 1

    async def main() -> None:
        async with serving(gauges=Gauges(journal_bytes=journal_bytes)) as server:
            scrapers = [await asyncio.open_connection(HOST, server.port) for _ in range(20)]
            for _, writer in scrapers:
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            for _ in range(3):  # Sent after them, so once it is answered they have been heard.
                await get(server, "/healthz")
            may_finish.set()
            for reader, writer in scrapers:
                assert b"trunkline_journal_bytes 1" in await reader.readuntil(b"trunkline_journal_bytes 1.0\n")
                writer.close()
            assert asked == 1
            await get(server, "/metrics")
            assert asked == 2

    monkeypatch.setattr(Scrape, "render", slow_render)
    run(main)


def test_ten_thousand_partitions_are_scraped_while_probes_are_answered() -> None:
    rows = [PartitionGauges(f"topic-{number // 10}", number % 10, number, 0, number) for number in range(10_000)]

    async def main() -> None:
        async with serving(gauges=Gauges(partitions=lambda: rows)) as server:
            scrape = asyncio.create_task(get(server, "/metrics"))
            while not scrape.done():
                status, _, _ = await get(server, "/healthz")
                assert status == 200
            _, _, body = scrape.result()
            assert body.count("trunkline_log_end_offset{") == 10_000

    run(main)


def test_the_page_for_people_names_version_and_listeners_and_links_the_rest() -> None:
    async def main() -> None:
        async with serving() as server:
            status, content_type, body = await get(server, "/")
            assert status == 200
            assert content_type.startswith("text/html")
            for expected in ("Trunkline 1.2.3", "127.0.0.1:9092", "&lt;not yet&gt;", "/healthz", "/readyz", "/metrics"):
                assert expected in body

    run(main)


def test_other_paths_and_methods_are_refused() -> None:
    async def main() -> None:
        async with serving() as server:
            assert (await get(server, "/admin"))[0] == 404
            assert (await get(server, "/metrics/../etc/passwd"))[0] == 404
            assert (await get(server, "/healthz", "POST"))[0] == 405
            assert (await get(server, "/healthz", "DELETE"))[0] == 405
            assert (await get(server, "/healthz", "HEAD"))[0] == 200

    run(main)


HOSTILE = [
    b"\x00\x00\x00\x12\x00\x12\x00\x00\x00\x00\x00\x01\x00\x04test\x00\r\n\r\n",
    b"GET /healthz HTTP/9.9\r\n\r\n",
    b"GET " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(5000)) + b"\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
    b"\x1b[31m\r\n" * 50 + b"\r\n",
]


@pytest.mark.parametrize("request_bytes", HOSTILE, ids=range(len(HOSTILE)))
def test_bad_bytes_cost_only_their_own_connection(request_bytes: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving() as server:
            for _ in range(3):
                answer = await talk(server, request_bytes)
                assert answer == b"" or answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400", b"HTTP/1.1 200"))
                assert b"Traceback" not in answer
            assert (await get(server, "/healthz"))[0] == 200

    with caplog.at_level(logging.INFO):
        run(main)
    assert "Traceback" not in caplog.text
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) <= 1


def test_a_connection_that_never_finishes_its_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.2)

    async def main() -> None:
        async with serving() as server:
            assert await talk(server, b"") == b""
            assert await talk(server, b"GET /healthz HTT") == b""

    run(main)


def test_too_many_connections_are_turned_away_and_room_is_made_when_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)

    async def main() -> None:
        async with serving() as server:
            held = [await asyncio.open_connection(HOST, server.port) for _ in range(3)]
            for _, writer in held:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            for reader, _ in held:
                assert (await reader.read(4096)).startswith(b"HTTP/1.1 200")
            assert await talk(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == b""
            for _, writer in held:
                writer.close()

            async def answered() -> bool:
                return await talk(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") != b""

            await eventually(answered)

    run(main)


def test_a_scraper_that_does_not_read_makes_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from trunkline.admin import pages

    monkeypatch.setattr(pages, "UNREAD_SECONDS", 0.2)
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 1)
    rows = [PartitionGauges("t" * 200, number, 1, 2, 3) for number in range(10_000)]

    async def main() -> None:
        async with serving(gauges=Gauges(partitions=lambda: rows)) as server:
            with socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(sock, (HOST, server.port))
                await loop.sock_sendall(sock, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 3)

                async def answered() -> bool:
                    return await talk(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") != b""

                await eventually(answered)

    run(main)


def test_closing_ends_connections_and_frees_the_port() -> None:
    async def main() -> None:
        async with serving() as server:
            port = server.port
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await reader.readuntil(b"ok")
        assert (await asyncio.wait_for(reader.read(), 10)).strip(b'"}') == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOST, port)

    run(main)


def test_nothing_of_http_is_loaded_before_it_is_served() -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.path.insert(0, sys.argv[1]); import trunkline.admin.http; "
            "print([name for name in ('aiohttp', 'prometheus_client') if name in sys.modules])",
            str(SOURCES),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "[]\n"
