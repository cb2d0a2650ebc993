"""Look at the names that a rank's cells have defined, for the reader's tables and completions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_OURS = ("rank", "size", "local_rank", "device", "dist")

_LARGE = 1 << 30
"""Bytes beyond which values are not compared: it would take the reader's time."""

_PIECE = 1 << 24
"""Bytes of a tensor that are looked at in one go; those of a GPU are copied for it."""

Seen = tuple[str, str, str]
"""A value's type, its shape, and a digest of its content, empty where it has none that can be compared."""


def who(shell: Any) -> dict[str, Seen]:
    """Describe each variable of the rank, except modules and what nbdist set up."""
    return {
        name: (type(value).__name__, _shape(value), _digest(value))
        for name, value in list(shell.user_ns.items())
        if not name.startswith("_")
        and name not in shell.user_ns_hidden
        and name not in _OURS
        and not isinstance(value, ModuleType)
    }


def complete(shell: Any, line: str) -> tuple[str, list[str]]:
    """Return the end of `line` that may be replaced, and what by."""
    shell.Completer.use_jedi = False  # it reads files for seconds, while a reader waits
    fragment, matches = shell.complete("", line, len(line))
    return fragment, list(matches)


def inspect(shell: Any, name: str, detail: int) -> dict[str, str]:
    """Return what `name?` would show, by type of content; nothing where there is no such name."""
    try:
        return dict(shell.object_inspect_mime(name, detail_level=detail))
    except KeyError:
        return {}


def _shape(value: Any) -> str:
    if isinstance(value, type):
        return ""
    try:
        if hasattr(value, "shape"):
            kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
            return f"{tuple(value.shape)} {kind}".rstrip()
        if hasattr(value, "parameters"):
            return f"{sum(parameter.numel() for parameter in value.parameters()):,} parameters"
        return f"length {len(value):,}" if hasattr(value, "__len__") else ""
    except Exception:  # noqa: BLE001  (foreign objects: a loader without a length, a lazy layer)
        return ""


def _digest(value: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)
    left = _LARGE
    try:
        for part in _content(value):
            left -= memoryview(part).nbytes
            if left < 0:
                return ""
            digest.update(part)
    except Exception:  # noqa: BLE001  (foreign objects: what cannot be compared is not)
        return ""
    return digest.hexdigest()


def _content(value: Any) -> Iterator[Any]:
    """Yield the bytes that make up a value.

    Raises:
        TypeError: it is none that can be compared.
    """
    import numpy as np
    import torch

    if isinstance(value, torch.nn.Module):
        for name, tensor in value.state_dict().items():
            yield name.encode()
            yield from _content(tensor)
    elif isinstance(value, torch.Tensor):
        yield repr((value.dtype, tuple(value.shape))).encode()
        flat = value.detach().contiguous().reshape(-1).view(torch.uint8)
        for start in range(0, len(flat), _PIECE):
            yield flat[start : start + _PIECE].cpu().numpy()
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield repr((value.dtype, value.shape)).encode()
        yield np.ascontiguousarray(value).view(np.uint8)
    elif isinstance(value, int | float | complex | str | bytes | None):
        yield repr(value).encode()
    elif isinstance(value, list | tuple | dict) and len(value) <= 1000:
        said = repr(value)
        if " at 0x" in said or "..." in said:
            raise TypeError("its parts are not told apart by what they show")
        yield said.encode()
    else:
        raise TypeError("of unknown content")
