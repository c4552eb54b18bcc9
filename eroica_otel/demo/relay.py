"""Carries TCP over a Unix socket: into a network namespace that shares nothing with this one but the file system.

    python -m eroica_otel.demo.relay FROM TO [FROM TO ...]     each an address "HOST:PORT" or the path of a socket

The demo's nodes reach the text server and the localizer on their own loopback this way, so that both stay closed to
every network, and only the training's own traffic is on the link whose speed a fault changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
CHUNK_BYTES = 1 << 16


def _connect(where: str) -> Awaitable[Streams]:
    if where.startswith("/"):
        return asyncio.open_unix_connection(where)
    host, port = where.rsplit(":", 1)
    return asyncio.open_connection(host, int(port))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _carry(to: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await _connect(to)
        except OSError:  # nobody there yet: the caller sees a closed connection and tries again
            writer.close()
            return
        await asyncio.gather(_pump(reader, back), _pump(there, writer))
        for side in (writer, back):
            side.close()

    return carry


async def relay(pairs: list[tuple[str, str]]) -> None:
    """Listen on the first of each pair, carry to the second, until cancelled."""
    for listen, to in pairs:
        if listen.startswith("/"):
            await asyncio.start_unix_server(_carry(to), listen)
        else:
            host, port = listen.rsplit(":", 1)
            await asyncio.start_server(_carry(to), host, int(port))
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(relay(list(zip(sys.argv[1::2], sys.argv[2::2], strict=True))))
