"""Read the idx format of the MNIST family.

A file is: two zero bytes, a type byte, the number of dimensions, each dimension as a big-endian 32-bit
integer, then the values, row after row. Only unsigned bytes are read here; nothing else is in use.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import UsageError

UNSIGNED_BYTE = 0x08


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """Read a gzipped idx file of unsigned bytes.

    Raises:
        UsageError: it is no such file, it has other dimensions, or it is cut short; fetch it again.
    """
    try:
        raw = gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _bad(path, f"it is no whole gzip file ({error})") from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != UNSIGNED_BYTE:
        raise _bad(path, "it does not begin like an idx file of unsigned bytes")
    if raw[3] != dimensions:
        raise _bad(path, f"it has {raw[3]} dimensions where {dimensions} were expected")
    start = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(raw[at : at + 4], "big") for at in range(4, start, 4))
    if len(raw) != start + math.prod(shape):
        raise _bad(path, f"it holds {len(raw) - start} bytes where {shape} needs {math.prod(shape)}")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _bad(path: Path, why: str) -> UsageError:
    return UsageError(f"cannot read {path}: {why}; install the data set again.")
