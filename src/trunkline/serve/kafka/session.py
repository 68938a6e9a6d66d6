"""One Kafka connection: frames in, requests handled as they come, answers out in the order of the requests.

A request runs at once up to its first wait, so appends keep the order in which they arrived; what waits (a sync, a long
poll, a rebalance) fills its place in the line of answers later. A client that sends faster than it reads is no longer
read from, and dropped when it takes nothing for a while; so is one that asks for more than may wait for it at once. Its
requests that came already are held until there is room. Bytes that make no sense close the connection, with one line in
the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Any, Final, cast

from trunkline.broker.broker import Broker
from trunkline.model import limits
from trunkline.model.errors import TrunklineError, in_one_line
from trunkline.model.limits import ClientLimits
from trunkline.serve.complaints import Complaints
from trunkline.serve.kafka.call import Api, ApiTable, Call
from trunkline.serve.kafka.errors import ErrorCode
from trunkline.serve.kafka.versions import listing
from trunkline.wire.kafka.apis import request_class
from trunkline.wire.kafka.codec import decode
from trunkline.wire.kafka.errors import MalformedMessage
from trunkline.wire.kafka.frame import RequestHeader, encode_response, parse_header
from trunkline.wire.kafka.stream import SCRATCH_BYTES, FrameReader

log = logging.getLogger(__name__)

Chunks = Iterable[bytes | memoryview]

_PRODUCE: Final = 0
_FETCH: Final = 1
_API_VERSIONS: Final = 18
_PATIENCE_SECONDS: Final = 2.0
"""How long a reader keeps its output whatever others hold: a busy one pauses, too."""


class KafkaFace:
    """What all Kafka connections of a node share."""

    def __init__(
        self, broker: Broker, apis: ApiTable, advertise: str | None, client_limits: ClientLimits | None = None
    ) -> None:
        self.limits = client_limits or ClientLimits()
        self.broker = broker
        self.apis = apis
        self.advertise = advertise
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.sessions: set[KafkaSession] = set()
        self.complaints = Complaints(log)
        self.connections = broker.stats.of_protocol("kafka")

    def __call__(self) -> KafkaSession:
        return KafkaSession(self)

    def sweep(self, now: float) -> None:
        """Called now and then: drop who never said a word, who stalls, and who went away without a goodbye."""
        for session in tuple(self.sessions):
            session.check(now)
        self._free_held_output(now)

    def _free_held_output(self, now: float) -> None:
        """Each connection holds little, but many that read nothing hold much: the idlest readers go first."""
        total_bytes = sum(session.held_bytes for session in self.sessions)
        if total_bytes <= self.limits.held_output_bytes:
            return
        for session in sorted(self.sessions, key=lambda session: session.moved_at):
            if total_bytes <= self.limits.held_output_bytes or now - session.moved_at < _PATIENCE_SECONDS:
                return
            total_bytes -= session.held_bytes
            session.drop_for_room()

    def close(self) -> None:
        for session in tuple(self.sessions):
            session.close()


class _Answer:
    """A place in the line of answers. Empty chunks: there will be none (acks=0)."""

    __slots__ = ("chunks", "held_bytes", "is_fetch", "name", "started")

    def __init__(self, name: str, started: float, is_fetch: bool) -> None:
        self.chunks: Chunks | None = None
        self.held_bytes = 0
        """What it takes while it is complete, and an earlier one is not."""
        self.is_fetch = is_fetch
        self.name = name
        self.started = started


class KafkaSession(asyncio.BufferedProtocol):
    def __init__(self, face: KafkaFace) -> None:
        self._face = face
        self._limits = face.limits
        self._frames = FrameReader(face.scratch, limits.MAX_REQUEST_BYTES, limits.FIRST_REQUEST_BYTES)
        self._held: deque[bytearray] = deque()
        self._handling = False
        self._line: deque[_Answer] = deque()
        self._fetches = 0
        self._ready_bytes = 0
        """Of answers that are complete, and wait for an earlier one."""
        self._waiting: set[asyncio.Future[Any]] = set()
        self._proven = False
        self._reading = True
        self._stalled = False
        self._last_heard = self._partial_since = self.moved_at = monotonic()
        self._was_held_bytes = 0

    # ── the transport's side ────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._limits.output_pause_bytes)
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        here = transport.get_extra_info("sockname") or ("127.0.0.1", 0)
        self._peer = f"{peer[0]}:{peer[1]}"
        self._peer_host = str(peer[0])
        self._host = self._face.advertise or str(here[0])
        self._port = int(here[1])
        self._face.connections.open += 1
        if len(self._face.sessions) >= self._limits.connections:
            self._face.connections.refused += 1
            self._face.complaints.say(
                "kafka client %s is turned away: %d are open.", self._peer, self._limits.connections
            )
            self._transport.abort()
            return
        self._face.sessions.add(self)
        self._face.connections.accepted += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._face.sessions.discard(self)
        self._face.connections.open -= 1
        self._face.broker.durability.forget(self._go_on)
        self._held.clear()
        for waiting in tuple(self._waiting):
            waiting.cancel()

    def pause_writing(self) -> None:
        self._stalled = True
        self._update_reading()

    def resume_writing(self) -> None:
        self._stalled = False
        self._go_on()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._last_heard = now = monotonic()
        self._face.connections.received_bytes += nbytes
        was_partial = self._frames.is_partial
        try:
            frames = self._frames.received(nbytes)
        except MalformedMessage as error:
            self._malformed(error)
            return
        if frames or not was_partial:
            self._partial_since = now
        self._held.extend(frames)
        self._handle_held()

    def eof_received(self) -> bool:
        return False

    def check(self, now: float) -> None:
        held_bytes = self.held_bytes
        if held_bytes < self._was_held_bytes or not held_bytes:
            self.moved_at = now
        self._was_held_bytes = held_bytes
        bounds = self._limits
        if self._stalled and now - self.moved_at > bounds.output_stall_seconds:
            self._drop(f"read nothing for {bounds.output_stall_seconds:.0f} s while answers piled up")
        elif not self._reading:
            return
        elif self._frames.is_partial:
            patience = bounds.handshake_seconds + self._frames.partial_bytes / bounds.least_request_bytes_per_second
            if now - self._partial_since > patience:
                self._drop(f"sent no complete request within {patience:.0f} s")
        elif self._line:
            return
        elif not self._proven and now - self._last_heard > bounds.handshake_seconds:
            self._drop(f"sent no complete request within {bounds.handshake_seconds:.0f} s")
        elif now - self._last_heard > bounds.idle_seconds:
            self.close()

    @property
    def held_bytes(self) -> int:
        """Answers that this client has asked for and not taken yet."""
        return self._ready_bytes + self._transport.get_write_buffer_size()

    def drop_for_room(self) -> None:
        self._drop(f"takes none of the {self.held_bytes} bytes that wait for it, and others need the room")

    def close(self) -> None:
        self._transport.close()

    def _drop(self, why: str) -> None:
        self._face.connections.dropped += 1
        self._face.complaints.say("kafka client %s %s; the connection is closed.", self._peer, why)
        self._transport.abort()

    def _malformed(self, error: MalformedMessage) -> None:
        self._drop(f"sent bytes that are no Kafka request: {error}")

    # ── requests ────────────────────────────────────────────────────────────────────────────────

    def _handle_held(self) -> None:
        """What came and may run, in order. The rest stays, and no more is read until it may run, too."""
        if self._handling:
            return
        self._handling = True
        held = self._held
        try:
            while held and self._may_run(held[0]):
                self._handle(memoryview(held.popleft()))
        except MalformedMessage as error:
            held.clear()
            self._malformed(error)
        finally:
            self._handling = False
        self._update_reading()

    def _may_run(self, frame: bytearray) -> bool:
        bounds = self._limits
        if (
            self._stalled
            or len(self._line) >= bounds.in_flight_requests
            or self._ready_bytes > bounds.output_pause_bytes
        ):
            return False
        key = frame[0] << 8 | frame[1]
        if key == _FETCH:
            return self._fetches < bounds.in_flight_fetches and self.held_bytes <= bounds.output_pause_bytes
        if key == _PRODUCE and self._face.broker.durability.behind:
            self._face.broker.durability.when_caught_up(self._go_on)
            return False
        return True

    def _go_on(self) -> None:
        """There may be room again."""
        if self._held:
            self._handle_held()
        else:
            self._update_reading()

    def _handle(self, frame: memoryview) -> None:
        if self._transport.is_closing():
            return
        header = parse_header(frame)
        api = self._face.apis.get(header.api_key)
        if api is None:
            raise MalformedMessage(f"request kind {header.api_key} is not served")
        answer = _Answer(api.name, monotonic(), api.key == _FETCH)
        self._line.append(answer)
        self._fetches += answer.is_fetch
        if not api.min_version <= header.api_version <= api.max_version:
            self._refuse_version(header, api, answer)
            return
        request, _ = decode(request_class(api.key), header.api_version, frame, header.position)
        self._proven = True
        self._frames.first_chunk_bytes = limits.NEXT_REQUEST_BYTES
        self._run(api, header, request, answer)

    def _refuse_version(self, header: RequestHeader, api: Api, answer: _Answer) -> None:
        if api.key != _API_VERSIONS:
            raise MalformedMessage(
                f"{api.name} version {header.api_version} is not served, {api.min_version} to {api.max_version} are"
            )
        response = listing({_API_VERSIONS: api}, ErrorCode.UNSUPPORTED_VERSION)
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
        )
        try:
            result = api.handle(call, request)
        except Exception as error:
            self._failed(api, error)
            return
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
        if response is None:
            answer.chunks = ()
        else:
            try:
                answer.chunks = encode_response(api.key, header.api_version, header.correlation_id, response)
            except MalformedMessage as error:
                self._failed(api, error)
                return
        if self._line and self._line[0] is not answer:
            answer.held_bytes = sum(map(len, answer.chunks))
            self._ready_bytes += answer.held_bytes
        else:
            self._answer_in_order()

    def _failed(self, api: Api, error: BaseException) -> None:
        """A bug of ours, or an error that has no place in this answer: the client may try again on a new connection."""
        if isinstance(error, TrunklineError):
            self._drop(f"could not be answered: {api.name}: {error}")
        else:
            log.debug("%s of kafka client %s failed", api.name, self._peer, exc_info=error)
            self._drop(f"met an error of ours in {api.name}: {in_one_line(error)}")

    def _answer_in_order(self) -> None:
        line, ready = self._line, list[bytes | memoryview]()
        now = monotonic()
        stats = self._face.broker.stats
        while line and (chunks := line[0].chunks) is not None:
            answer = line.popleft()
            self._ready_bytes -= answer.held_bytes
            self._fetches -= answer.is_fetch
            stats.of_request(answer.name).observe(now - answer.started)
            ready.extend(chunks)
        if ready:
            self._face.connections.sent_bytes += sum(map(len, ready))
            self._transport.writelines(ready)
        if self._held:
            self._handle_held()

    def _update_reading(self) -> None:
        """Read on only while the client takes its answers, and nothing that it sent has to wait."""
        wanted = not self._stalled and not self._held
        if wanted != self._reading and not self._transport.is_closing():
            self._reading = wanted
            if wanted:
                self._last_heard = self._partial_since = monotonic()
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
