"""A TCP proxy that a test commands: it holds bytes back, swallows them, loses replies, delays, slows, spoils, resets
and refuses connections."""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Literal
from urllib.parse import urlsplit

from tests.waiting import wait_until

Direction = Literal["to-server", "to-client"]

CHUNK = 64 * 1024
QUEUED_CHUNKS = 1024
SLICE = 0.05  # seconds between two pieces of a slowed connection


class _Way:
    """One direction of all connections."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.marker: bytes | None = None
        self.dropping = False
        self.dropped = 0
        self.spoiling: tuple[bytes, int] = (b"", 0)
        self.spoiled = 0
        self.queued: dict[socket.socket, int] = {}
        self.carried = 0

    def spoil(self, data: bytes) -> bytes:
        """One bit of the byte behind the marker is another, as often as was asked for."""
        marker, times = self.spoiling
        at = data.find(marker) + len(marker) if times and marker in data else len(data)
        if at >= len(data):
            return data
        self.spoiling, self.spoiled = (marker, times - 1), self.spoiled + 1
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


class Proxy:
    """Passes bytes on between 127.0.0.1:`port` and the server. What a method says is in force when it returns.

    Held bytes are delivered by `release`, in order, even when their sender has closed its connection or died meanwhile.
    """

    def __init__(self, host: str, port: int, listen_port: int = 0) -> None:
        self.target = (host, port)
        self._links: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._delay = 0.0
        self._rate = 0.0
        self._listener: socket.socket | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._ways: dict[Direction, _Way] = {"to-server": _Way(), "to-client": _Way()}
        self.port = listen_port
        self.accept()

    @classmethod
    def before(cls, url: str, listen_port: int = 0) -> "Proxy":
        """A proxy in front of what `url` names: a store's URL, or host:port."""
        target = urlsplit(url if "://" in url else f"tcp://{url}")
        return cls(target.hostname or "127.0.0.1", target.port or 0, listen_port)

    @property
    def url(self) -> str:
        """For Redis; a Kafka client takes 127.0.0.1:`port`, and the broker must advertise that port."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def answered(self) -> int:
        """Bytes that came from the server since the proxy was made."""
        return self._ways["to-client"].carried

    @property
    def held(self) -> int:
        """Bytes that `hold` keeps back now."""
        return sum(sum(list(way.queued.values())) for way in self._ways.values() if not way.open.is_set())

    @property
    def dropped(self) -> int:
        """Bytes of replies that were swallowed since the proxy was made."""
        return self._ways["to-client"].dropped

    @property
    def spoiled(self) -> int:
        """Bits that `spoil` has flipped since the proxy was made."""
        return sum(way.spoiled for way in self._ways.values())

    @property
    def connections(self) -> int:
        """Open sockets of clients and to the server: two for each connection."""
        return len(self._links)

    def hold(self, direction: Direction, marker: bytes | None = None) -> None:
        """Keep the bytes of a direction back from now on; with a marker, from the first read that contains it (that
        read too)."""
        self._call(self._hold(self._ways[direction], marker))

    def wait_held(self, timeout: float = 10.0) -> int:
        """Wait until bytes are held back; returns how many. Raises TimeoutError."""
        return wait_until(lambda: self.held, timeout, "held bytes")

    def release(self) -> None:
        """Deliver what is held and pass everything on again; ends `hold` and `drop_replies`. What was dropped stays
        lost."""
        self._call(self._release())

    def drop_replies(self) -> None:
        """Swallow every byte from the server until `release`."""
        self._call(self._drop_replies())

    def swallow(self) -> None:
        """Swallow every byte, each way, until `release`: neither side is told that the connection is dead."""
        self._call(self._swallow())

    def delay(self, seconds: float) -> None:
        """Pass every byte on that much later, each way."""
        self._call(self._set_delay(seconds))

    def slow(self, rate: float) -> None:
        """Pass at most so many bytes a second on, in each direction of each connection; 0: as fast as they come."""
        self._call(self._set_rate(rate))

    def spoil(self, direction: Direction, marker: bytes, times: int = 1) -> None:
        """Flip one bit of the byte behind `marker`, in the next so many reads that contain it; 0: no more."""
        self._call(self._spoil(self._ways[direction], marker, times))

    def reset(self) -> None:
        """End all connections with RST, both sides; held bytes are lost."""
        self._call(self._reset())

    def refuse(self) -> None:
        """Refuse new connections; open ones go on."""
        self._call(self._refuse())

    def accept(self) -> None:
        """Accept connections (again)."""
        self._call(self._accept())

    def close(self) -> None:
        self.refuse()
        self.reset()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, action: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(action, self._loop).result(10)

    async def _hold(self, way: _Way, marker: bytes | None) -> None:
        way.marker = marker
        if marker is None:
            way.open.clear()

    async def _release(self) -> None:
        for way in self._ways.values():
            way.marker, way.dropping = None, False
            way.open.set()

    async def _drop_replies(self) -> None:
        self._ways["to-client"].dropping = True

    async def _swallow(self) -> None:
        for way in self._ways.values():
            way.dropping = True

    async def _set_delay(self, seconds: float) -> None:
        self._delay = seconds

    async def _set_rate(self, rate: float) -> None:
        self._rate = rate

    async def _spoil(self, way: _Way, marker: bytes, times: int) -> None:
        way.spoiling = (marker, times)

    async def _reset(self) -> None:
        links, tasks = list(self._links), list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in links:
            self._abort(link)

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def _accept(self) -> None:
        if self._listener is not None:
            return
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._loop.add_reader(self._listener, self._take, self._listener)

    def _abort(self, link: socket.socket) -> None:
        # Lingering for no time makes close send RST instead of FIN.
        with suppress(OSError):
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._close(link)

    def _close(self, link: socket.socket) -> None:
        self._links.discard(link)
        for way in self._ways.values():
            way.queued.pop(link, None)
        link.close()

    def _take(self, listener: socket.socket) -> None:
        with suppress(OSError):
            client, _ = listener.accept()
            self._add(client)
            self._spawn(self._serve(client))

    def _add(self, link: socket.socket) -> None:
        link.setblocking(False)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._links.add(link)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: socket.socket) -> None:
        server = socket.socket()
        self._add(server)
        try:
            await self._loop.sock_connect(server, self.target)
        except OSError:
            self._abort(client)
            self._close(server)
            return
        await asyncio.gather(self._carry("to-server", client, server), self._carry("to-client", server, client))
        self._close(client)
        self._close(server)

    async def _carry(self, direction: Direction, source: socket.socket, sink: socket.socket) -> None:
        """Read ahead while the way is held, so that the sender may go on, close or die."""
        way = self._ways[direction]
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED_CHUNKS)
        self._spawn(self._deliver(way, queue, sink))
        data = b"?"
        while data:
            try:
                data = await self._loop.sock_recv(source, CHUNK)
            except OSError:
                data = b""
            way.carried += len(data)
            if way.dropping and data:
                way.dropped += len(data)
                continue
            if way.marker is not None and way.marker in data:
                way.open.clear()
            data = way.spoil(data)
            way.queued[sink] = way.queued.get(sink, 0) + len(data)
            await queue.put((self._loop.time() + self._delay, data))
        await queue.join()

    async def _deliver(self, way: _Way, queue: asyncio.Queue[tuple[float, bytes]], sink: socket.socket) -> None:
        data = b"?"
        while data:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            await way.open.wait()
            with suppress(OSError):
                if data:
                    await self._send(sink, data)
                else:
                    sink.shutdown(socket.SHUT_WR)
            way.queued[sink] -= len(data)
            queue.task_done()

    async def _send(self, sink: socket.socket, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            size = max(1, int(self._rate * SLICE)) if self._rate else len(rest)
            await self._loop.sock_sendall(sink, rest[:size])
            rest = rest[size:]
            if self._rate:
                await asyncio.sleep(SLICE)
