"""A pickle, and beside it the large buffers it speaks of, so that nobody copies those twice."""

from __future__ import annotations

import hashlib
import io
import mmap
import pickle
import secrets
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
from cloudpickle import cloudpickle as _inside

NONCE_BYTES = 16

Bytes = bytes | bytearray | memoryview | mmap.mmap

_ALIGNMENT = 64
_WORD = struct.Struct("<Q")


@dataclass(frozen=True)
class Parcel:
    """An object, packed. Its buffers are the object's own memory until they are written somewhere.

    Laid out flat it is a nonce, the number of pieces, the length of each, and the pieces, aligned: first
    the pickle, then the buffers.
    """

    head: bytes
    buffers: tuple[memoryview, ...]
    nonce: bytes = field(default_factory=lambda: secrets.token_bytes(NONCE_BYTES))

    @property
    def content(self) -> Iterator[Bytes]:
        """What makes two parcels equal."""
        yield self.head
        yield from self.buffers

    def pieces(self) -> Iterator[tuple[int, Bytes]]:
        """Yield what to write, and where."""
        lengths = [len(self.head), *(buffer.nbytes for buffer in self.buffers)]
        yield 0, self.nonce + b"".join(map(_WORD.pack, [len(lengths), *lengths]))
        yield from zip((start for start, _ in _places(lengths)), self.content, strict=True)

    @property
    def nbytes(self) -> int:
        """How long it is when laid out flat."""
        lengths = [len(self.head), *(buffer.nbytes for buffer in self.buffers)]
        return _places(lengths)[-1][1]

    def flat(self) -> bytes:
        """Lay it out in memory of this process."""
        parts: list[Bytes] = []
        end = 0
        for start, piece in self.pieces():
            parts += [bytes(start - end), piece]
            end = start + memoryview(piece).nbytes
        return b"".join(parts)

    def digest(self) -> bytes:
        """Return a fingerprint of the content."""
        made = hashlib.blake2b(digest_size=16)
        for piece in self.content:
            made.update(piece)
        return made.digest()


def _places(lengths: list[int]) -> list[tuple[int, int]]:
    places, end = [], NONCE_BYTES + _WORD.size * (1 + len(lengths))
    for length in lengths:
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = start + length
        places.append((start, end))
    return places


def load(flat: Bytes, *, keep_classes: bool = False) -> Any:
    """Make the object of a flat parcel; arrays and tensors in it live in the parcel's memory.

    With `keep_classes` a class that came from here and returns stays as it is; else it is redefined by
    what arrives.
    """
    whole = memoryview(flat).cast("B")
    if whole.readonly:  # what arrives has to be writable
        whole = memoryview(bytearray(whole))
    (count,) = _WORD.unpack_from(whole, NONCE_BYTES)
    lengths = [_WORD.unpack_from(whole, NONCE_BYTES + _WORD.size * (1 + i))[0] for i in range(count)]
    head, *buffers = (whole[start:end] for start, end in _places(lengths))
    reader = _Unpickler(io.BytesIO(head), buffers=buffers)
    if keep_classes:
        reader.known = set(_inside._DYNAMIC_CLASS_TRACKER_BY_CLASS)
    return reader.load()


class _Unpickler(pickle.Unpickler):
    """Leave known classes alone.

    A class written in the notebook returns with methods that see a copy of the notebook's names; put
    upon the class it came from, that would cut it off from them.
    """

    known: set[type] = set()  # noqa: RUF012  (replaced, never changed)

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return self._set_state if found is _inside._class_setstate else found

    def _set_state(self, kind: type, state: Any) -> type:
        return kind if kind in self.known else _inside._class_setstate(kind, state)


_APART = 1 << 16
"""From how many bytes on a buffer is kept out of the pickle."""


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file: io.BytesIO, reduce: Callable[[Any], Any]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL, self._take)
        self._reduce = reduce
        self.buffers: list[memoryview] = []

    def _take(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _APART:
            return True
        self.buffers.append(raw)
        return False

    def reducer_override(self, value: Any) -> Any:
        reduced = self._reduce(value)
        return super().reducer_override(value) if reduced is NotImplemented else reduced


def dump(value: object, reduce: Callable[[Any], Any]) -> Parcel:
    """Pickle `value` by value; `reduce` may say how an object is pickled, or return NotImplemented."""
    with io.BytesIO() as file:
        pickler = _Pickler(file, reduce)
        pickler.dump(value)
        return Parcel(file.getvalue(), tuple(pickler.buffers))
