"""Ranks that exist only as messages, written from the description of the wire and not from its code."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import random
import struct
import threading
import time
from typing import Any

import zmq

KEY = b"k" * 32


def encode(
    columns: dict[str, list[float]],
    /,
    *,
    rank: Any = 0,
    run: int = 1,
    moved: int = 0,
    key: bytes = KEY,
    **more: Any,
) -> list[bytes]:
    """Return the three frames of a metrics message."""
    rows = len(next(iter(columns.values()), []))
    header = json.dumps(
        {"rank": rank, "run": run, "rows": rows, "columns": list(columns), "bytes": moved, **more}
    ).encode()
    payload = b"".join(struct.pack(f"<{rows}d", *values) for values in columns.values())
    signature = hmac.new(key, header + payload, hashlib.sha256).digest()
    return [signature, header, payload]


class Sender:
    """A socket as a rank has it."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.connect(endpoint)

    def send(self, frames: list[bytes]) -> None:
        self._socket.send_multipart(frames)

    def close(self) -> None:
        self._socket.close(linger=1000)
        self._context.term()


def train(
    endpoint: str,
    *,
    ranks: int = 4,
    seconds: float = 6.0,
    rate: float = 40.0,
    run: int = 1,
    key: bytes = KEY,
    more: tuple[str, ...] = (),
) -> None:
    """Pretend to train: every rank logs `rate` steps a second and sends them ten times a second."""
    sender = Sender(endpoint)
    pick = random.Random(0)
    total = int(seconds * rate)
    began = time.time()
    pause = threading.Event()
    sent = 0
    while sent < total:
        pause.wait(0.1)
        steps = list(range(sent, min(total, int((time.time() - began) * rate))))
        if not steps:
            continue
        sent = steps[-1] + 1
        for rank in range(ranks):
            columns: dict[str, list[float]] = {
                "time": [began + (s + 1) / rate for s in steps],
                "step": [float(s) for s in steps],
                "examples": [64.0 + 24 * math.sin(s / 9 + rank) + 3 * pick.random() for s in steps],
                "epoch": [s // (total // 3) for s in steps],
                "total_steps": [float(total)] * len(steps),
                "loss": [2.2 * math.exp(-s / total * 3) + 0.2 + 0.12 * pick.random() for s in steps],
            }
            columns["accuracy"] = [
                1 - 0.8 * math.exp(-s / total * 4) + 0.02 * pick.random() if s % 8 == 0 else math.nan
                for s in steps
            ]
            for i, name in enumerate(more):
                columns[name] = [(i + 1) * 0.4 * math.exp(-s / total) + 0.03 * pick.random() for s in steps]
            end = sent == total
            sender.send(encode(columns, rank=rank, run=run, moved=sent * 1_700_000, key=key, end=end))
    sender.close()
