"""One batch of figures as a rank sends it: three frames, signed, nothing unpickled."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_INTEGERS = ("rank", "run", "rows", "bytes")


class GarbledError(ValueError):
    """A message is not signed with our key, or is not what its header says."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows one rank logged since its last message, column by column."""

    rank: int
    run: int
    moved: int
    """Bytes this rank has sent round the ring so far in this run."""
    dropped: int
    """Rows of this run that the rank could not send, so far."""
    end: bool
    """Whether this is the rank's last message of the run."""
    columns: dict[str, NDArray[np.float64]]
    """Equally long; NaN where a row did not log the column, and where it logged a NaN."""
    diverged: dict[str, list[int]]
    """The rows that did log a NaN, by column; the header may name them as `"nan"`."""

    def logged(self, name: str) -> NDArray[np.bool_]:
        """Tell for each row whether it logged this column."""
        there = ~np.isnan(self.columns[name])
        there[self.diverged.get(name, [])] = True
        return there


def decode(frames: list[bytes], key: bytes) -> Batch:
    """Check the signature, then read header and payload.

    Raises:
        GarbledError: the message is forged, damaged or no metrics message at all.
    """
    if len(frames) != 3:
        raise GarbledError(f"it has {len(frames)} frames instead of 3")
    signature, header, payload = frames
    if not hmac.compare_digest(signature, hmac.digest(key, header + payload, hashlib.sha256)):
        raise GarbledError("its signature is wrong")
    try:
        fields = json.loads(header)
    except ValueError:
        raise GarbledError("its header is not JSON") from None
    if not isinstance(fields, dict) or any(not _is_count(fields.get(name)) for name in _INTEGERS):
        raise GarbledError(f"its header lacks one of {', '.join(_INTEGERS)}")
    names = fields.get("columns")
    if not isinstance(names, list) or any(not isinstance(name, str) for name in names):
        raise GarbledError("its header names no columns")
    if len(set(names)) != len(names):
        raise GarbledError("its header names a column twice")
    if len(payload) != 8 * len(names) * fields["rows"]:
        raise GarbledError("its payload does not have the size its header says")
    diverged = fields.get("nan", {})
    if not isinstance(diverged, dict) or not all(
        _are_rows(rows, fields["rows"]) for rows in diverged.values()
    ):
        raise GarbledError("its header names NaNs in rows that are not there")
    values = np.frombuffer(payload, dtype="<f8").astype(np.float64).reshape(len(names), fields["rows"])
    return Batch(
        rank=fields["rank"],
        run=fields["run"],
        moved=fields["bytes"],
        dropped=fields["dropped"] if _is_count(fields.get("dropped")) else 0,
        end=fields.get("end") is True,
        columns=dict(zip(names, values, strict=True)),
        diverged=diverged,
    )


def _is_count(value: object) -> bool:
    # JSON's true is an int to Python, yet no number of anything.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_rows(rows: object, count: int) -> bool:
    return isinstance(rows, list) and all(_is_count(row) and row < count for row in rows)
