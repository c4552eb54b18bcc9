"""The demo's text server: generated sentences over TCP, one connection per rank; slow for one rank under FAULT=input.

A request is one line of JSON, [rank, bytes per sample, [index, ...]]; the answer is that many bytes. The server is a
process of its own, so that a slow answer is a blocking read in the training and nothing else.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import socketserver
import time

_NOUNS = ("rank", "kernel", "gradient", "ring", "node", "loader", "tensor", "bucket", "queue", "link")
_VERBS = ("waits for", "sends to", "reduces", "feeds", "fills", "blocks", "follows", "drains")


def sentence(index: int, length: int) -> bytes:
    """Return sample ``index`` of the endless generated text, exactly ``length`` bytes."""
    rng = random.Random(index)
    text = ""
    while len(text) < length:
        text += f"the {rng.choice(_NOUNS)} {rng.choice(_VERBS)} the {rng.choice(_NOUNS)}. "
    return text[:length].encode()


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        for line in self.rfile:
            rank, length, indices = json.loads(line)
            answer = b"".join(sentence(index, length) for index in indices)
            time.sleep(self.server.delay_seconds(rank))
            self.wfile.write(answer)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, control: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault = pathlib.Path(control, "fault.json")
        self.slow: tuple[int, float] | None = None

    def delay_seconds(self, rank: int) -> float:
        if self.slow is None and self.fault.exists():
            order = json.loads(self.fault.read_text())
            self.slow = (order["rank"], order["seconds"]) if order["fault"] == "input" else (-1, 0.0)
        return self.slow[1] if self.slow is not None and self.slow[0] == rank else 0.0


def main() -> None:
    """Serve until killed; the first line on stdout is the address."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--control", required=True, help="folder in which fault.json appears")
    with _Server(parser.parse_args().control) as server:
        print(f"127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever(poll_interval=0.2)


if __name__ == "__main__":
    main()
