"""One Kafka connection: frames in, requests handled as they come, answers out in the order of the requests.

A request runs at once up to its first wait, so appends keep the order in which they arrived; what waits (a sync, a long
poll, a rebalance) fills its place in the line of answers later. A client that sends faster than it reads is no longer
read from, and dropped when it takes nothing for a while. Bytes that make no sense close the connection, with one line
in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Any, cast

from trunkline.broker.broker import Broker
from trunkline.model import limits
from trunkline.model.errors import TrunklineError
from trunkline.serve.admission import Admission
from trunkline.serve.complaints import Complaints
from trunkline.serve.kafka.call import Api, ApiTable, Call
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.serve.kafka.fetch_sessions import FetchSessions
from trunkline.serve.kafka.throttling import charge
from trunkline.serve.kafka.versions import listing
from trunkline.wire.kafka.apis import request_class
from trunkline.wire.kafka.codec import decode
from trunkline.wire.kafka.errors import MalformedMessage
from trunkline.wire.kafka.frame import RequestHeader, encode_response, parse_header
from trunkline.wire.kafka.stream import SCRATCH_BYTES, FrameReader

log = logging.getLogger(__name__)

Chunks = Iterable[bytes | memoryview]

_API_VERSIONS = 18


class KafkaFace:
    """What all Kafka connections of a node share."""

    def __init__(self, broker: Broker, apis: ApiTable, advertise: str | None) -> None:
        self.broker = broker
        self.apis = apis
        self.advertise = advertise
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.sessions: set[KafkaSession] = set()
        self.complaints = Complaints(log)
        self.connections = broker.stats.of_protocol("kafka")
        self.fetch_sessions = FetchSessions()
        self.admission = Admission(broker.configs, str(broker.node_id))

    def __call__(self) -> KafkaSession:
        return KafkaSession(self)

    def sweep(self, now: float) -> None:
        """Called now and then: drop who never said a word, who stalls, and who went away without a goodbye."""
        for session in tuple(self.sessions):
            session.check(now)

    def close(self) -> None:
        for session in tuple(self.sessions):
            session.close()


class _Answer:
    """A place in the line of answers. Empty chunks: there will be none (acks=0)."""

    __slots__ = ("chunks", "name", "request_bytes", "seconds", "started")

    def __init__(self, name: str, started: float) -> None:
        self.chunks: Chunks | None = None
        self.name = name
        self.started = started
        self.request_bytes = 0
        self.seconds = 0.0
        """That the loop spent on it before it waited for anything."""


class KafkaSession(asyncio.BufferedProtocol):
    def __init__(self, face: KafkaFace) -> None:
        self._face = face
        self._frames = FrameReader(face.scratch, limits.MAX_REQUEST_BYTES, limits.FIRST_REQUEST_BYTES)
        self._line: deque[_Answer] = deque()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._proven = False
        self._reading = True
        self._stalled_since: float | None = None
        self._admitted = False
        self._muted: asyncio.TimerHandle | None = None
        """While it is set, the client has taken more than its quota and is not read from."""
        self._last_heard = monotonic()

    # ── the transport's side ────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=limits.OUTPUT_PAUSE_BYTES)
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        here = transport.get_extra_info("sockname") or ("127.0.0.1", 0)
        self._peer = f"{peer[0]}:{peer[1]}"
        self._peer_host = str(peer[0])
        self._host = self._face.advertise or str(here[0])
        self._port = int(here[1])
        self._face.connections.open += 1
        refusal = self._face.admission.enter(self._peer_host)
        if refusal is not None:
            self._face.connections.refused += 1
            self._face.complaints.say("kafka client %s is turned away: %s.", self._peer, refusal)
            self._transport.abort()
            return
        self._admitted = True
        self._face.sessions.add(self)
        self._face.connections.accepted += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._face.sessions.discard(self)
        self._face.connections.open -= 1
        if self._admitted:
            self._face.admission.leave(self._peer_host)
        if self._muted is not None:
            self._muted.cancel()
        for waiting in tuple(self._waiting):
            waiting.cancel()

    def pause_writing(self) -> None:
        self._stalled_since = monotonic()
        self._update_reading()

    def resume_writing(self) -> None:
        self._stalled_since = None
        self._update_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._last_heard = monotonic()
        self._face.connections.received_bytes += nbytes
        try:
            for frame in self._frames.received(nbytes):
                self._handle(memoryview(frame))
        except MalformedMessage as error:
            self._drop(f"sent bytes that are no Kafka request: {error}")

    def eof_received(self) -> bool:
        return False

    def check(self, now: float) -> None:
        if self._stalled_since is not None and now - self._stalled_since > limits.OUTPUT_STALL_SECONDS:
            self._drop(f"read nothing for {limits.OUTPUT_STALL_SECONDS:.0f} s while answers piled up")
        elif self._line or self._stalled_since is not None or self._muted is not None:
            return
        elif (not self._proven or self._frames.is_partial) and now - self._last_heard > limits.HANDSHAKE_SECONDS:
            self._drop(f"sent no complete request within {limits.HANDSHAKE_SECONDS:.0f} s")
        elif now - self._last_heard > limits.IDLE_SECONDS:
            self.close()

    def close(self) -> None:
        self._transport.close()

    def _drop(self, why: str) -> None:
        self._face.connections.dropped += 1
        self._face.complaints.say("kafka client %s %s; the connection is closed.", self._peer, why)
        self._transport.abort()

    # ── requests ────────────────────────────────────────────────────────────────────────────────

    def _handle(self, frame: memoryview) -> None:
        if self._transport.is_closing():
            return
        header = parse_header(frame)
        api = self._face.apis.get(header.api_key)
        if api is None:
            raise MalformedMessage(f"request kind {header.api_key} is not served")
        answer = _Answer(api.name, monotonic())
        answer.request_bytes = len(frame)
        self._line.append(answer)
        if not api.min_version <= header.api_version <= api.max_version:
            self._refuse_version(header, api, answer)
            return
        request, _ = decode(request_class(api.key), header.api_version, frame, header.position)
        self._proven = True
        self._frames.first_chunk_bytes = limits.NEXT_REQUEST_BYTES
        self._run(api, header, request, answer)
        if len(self._line) >= limits.MAX_IN_FLIGHT_REQUESTS:
            self._update_reading()

    def _refuse_version(self, header: RequestHeader, api: Api, answer: _Answer) -> None:
        if api.key != _API_VERSIONS:
            raise MalformedMessage(
                f"{api.name} version {header.api_version} is not served, {api.min_version} to {api.max_version} are"
            )
        response = listing(self._face.apis, ErrorCode.UNSUPPORTED_VERSION)
        answer.chunks = encode_response(_API_VERSIONS, 0, header.correlation_id, response)
        self._answer_in_order()

    def _run(self, api: Api, header: RequestHeader, request: Any, answer: _Answer) -> None:
        call = Call(
            self._face.broker,
            header.api_version,
            header.client_id or "",
            self._peer_host,
            self._host,
            self._port,
            self._face.apis,
            self._face.fetch_sessions,
        )
        try:
            result = api.handle(call, request)
        except Exception as error:
            self._failed(api, error)
            return
        answer.seconds = monotonic() - answer.started
        if hasattr(result, "__await__"):
            waiting = asyncio.ensure_future(result)
            self._waiting.add(waiting)
            waiting.add_done_callback(lambda done: self._finished(api, header, answer, done))
        else:
            self._fill(api, header, answer, result)

    def _finished(self, api: Api, header: RequestHeader, answer: _Answer, done: asyncio.Future[Any]) -> None:
        self._waiting.discard(done)
        if done.cancelled() or self._transport.is_closing():
            return
        error = done.exception()
        if error is not None:
            self._failed(api, error)
        else:
            self._fill(api, header, answer, done.result())

    def _fill(self, api: Api, header: RequestHeader, answer: _Answer, response: Any) -> None:
        if self._face.broker.quotas.active:
            self._charge(api, header, answer, response)
        if response is None:
            answer.chunks = ()
        else:
            answer.chunks = encode_response(api.key, header.api_version, header.correlation_id, response)
        self._answer_in_order()

    def _failed(self, api: Api, error: BaseException) -> None:
        """A bug of ours, or an error that has no place in this answer: the client may try again on a new connection."""
        if isinstance(error, TrunklineError):
            self._drop(f"could not be answered: {api.name}: {error}")
        else:
            log.error("%s of kafka client %s failed: %r", api.name, self._peer, error, exc_info=error)
            self._drop(f"met an internal error in {api.name}")

    def _charge(self, api: Api, header: RequestHeader, answer: _Answer, response: Any) -> None:
        quotas, client_id = self._face.broker.quotas, header.client_id or ""
        wait = charge(quotas, api.key, client_id, answer.request_bytes, answer.seconds, response, monotonic())
        if wait > 0:
            if self._muted is not None:
                self._muted.cancel()
            self._muted = asyncio.get_running_loop().call_later(wait, self._unmute)
            self._update_reading()

    def _unmute(self) -> None:
        self._muted = None
        self._last_heard = monotonic()
        self._update_reading()

    def _answer_in_order(self) -> None:
        line, ready = self._line, list[bytes | memoryview]()
        was_full = len(line) >= limits.MAX_IN_FLIGHT_REQUESTS
        now = monotonic()
        stats = self._face.broker.stats
        while line and (chunks := line[0].chunks) is not None:
            answer = line.popleft()
            stats.of_request(answer.name).observe(now - answer.started)
            ready.extend(chunks)
        if ready:
            self._face.connections.sent_bytes += sum(map(len, ready))
            self._transport.writelines(ready)
        if was_full:
            self._update_reading()

    def _update_reading(self) -> None:
        """Read on only while the client takes its answers and does not ask too much at once."""
        calm = self._stalled_since is None and self._muted is None
        wanted = calm and len(self._line) < limits.MAX_IN_FLIGHT_REQUESTS
        if wanted != self._reading and not self._transport.is_closing():
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
