"""Where batches come from: a server of samples over TCP, an object store over HTTP, or memory; one request for each."""

from __future__ import annotations

import http.client
import json
import socket

import torch
from torch.utils.data import Dataset

from bench.faults.faults.switches import Switches

WIDTH = 512
"""Bytes of a sample, each a value between 0 and 1."""
SAMPLES = 1 << 20
PATIENCE_SECONDS = 60.0


class Remote(Dataset[torch.Tensor]):
    """Samples that lie on another machine: a request and an answer for each batch, in a loader's process where there is
    one.

    Args:
        source: "tcp://HOST:PORT" of a server of samples, "http://HOST:PORT" of an object store, "" for memory.
    """

    def __init__(self, source: str, rank: int, switches: Switches, samples: int = SAMPLES) -> None:
        self._scheme, _, self._address = source.partition("://")
        self._rank, self._switches, self._samples = rank, switches, samples
        self._socket: socket.socket | None = None
        self._http: http.client.HTTPConnection | None = None

    def __len__(self) -> int:
        return self._samples

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        data = self._fetch(len(indices))
        batch = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(len(indices), WIDTH).float() / 255
        return list(self._switches.at("load", batch))

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.__getitems__([index])[0]

    def _fetch(self, count: int) -> bytes:
        if self._scheme == "tcp":
            return self.fetch_remote(count)
        return self.fetch_object(count) if self._scheme == "http" else bytes(count * WIDTH)

    def fetch_remote(self, count: int) -> bytes:
        """Ask the server for ``count`` samples and wait for its answer."""
        if self._socket is None:  # in a loader's worker too
            host, port = self._address.rsplit(":", 1)
            self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        self._socket.sendall(json.dumps([self._rank, count * WIDTH]).encode() + b"\n")
        answer = b""
        while len(answer) < count * WIDTH:
            part = self._socket.recv(1 << 16)
            if not part:
                raise ConnectionError("the server of samples closed the connection")
            answer += part
        return answer

    def fetch_object(self, count: int) -> bytes:
        """Get an object of ``count`` samples from the store."""
        if self._http is None:
            self._http = http.client.HTTPConnection(self._address, timeout=PATIENCE_SECONDS)
        self._http.request("GET", f"/{self._rank}/{count * WIDTH}")
        return self._http.getresponse().read()
