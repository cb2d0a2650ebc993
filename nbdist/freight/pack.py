"""Pack an object, or name what in it cannot travel."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterator
from inspect import getclosurevars
from typing import Any

from ..errors import TravelError
from . import storages
from .parcel import Parcel, dump

_TRANSPARENT = ("_modules", "_parameters", "_buffers")
"""Dictionaries of a torch module whose entries a reader knows as the module's attributes."""


def pack(name: str, value: object, goal: str = "to the ranks", remedy: str | None = None) -> Parcel:
    """Pickle `value` by value: classes, lambdas and closures written in the notebook travel whole.

    Raises:
        TravelError: something in it cannot be pickled; the message names it and its type.
    """
    problem = _problem(value)
    if isinstance(problem, Parcel):
        return problem
    path, culprit = _locate(name, value)
    remedy = remedy or f"take it off {name}, or make it in a %%distributed cell"
    raise TravelError(
        f"{path} is a {type(culprit).__name__} and cannot travel {goal} ({_sentence(problem)}); {remedy}."
    )


def _sentence(problem: Exception) -> str:
    return (str(problem).strip() or type(problem).__name__).splitlines()[0].rstrip(".")


def _problem(value: object) -> Parcel | Exception:
    """Return the pickle of `value`, or what stood in its way."""
    try:
        return dump(value, storages.reducer())
    except Exception as problem:  # noqa: BLE001  (reducers are foreign code and raise what they like)
        return problem


def _locate(path: str, value: object, depth: int = 12) -> tuple[str, object]:
    """Follow what can't be pickled down to the innermost object that can be named."""
    for step, child in _children(value) if depth else ():
        if not isinstance(_problem(child), Parcel):
            return _locate(path + step, child, depth - 1)
    return path, value


def _children(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", child) for key, child in value.items())
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((f"[{i}]", child) for i, child in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((f".{part}", getattr(value, part)) for part in ("func", "args", "keywords"))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield "", value.__func__
    elif isinstance(value, types.FunctionType):
        # What a function uses is no attribute of it, so that it gets a sign of its own.
        used = getclosurevars(value)
        yield from ((f" -> {key}", child) for key, child in {**used.nonlocals, **used.globals}.items())
    elif isinstance(value, type):
        yield from ((f".{key}", child) for key, child in vars(value).items() if not key.startswith("__"))
    elif isinstance(value, property | staticmethod | classmethod):
        inner = value.fget if isinstance(value, property) else value.__func__
        yield "", inner
    else:
        yield from _attributes(value)
        yield "", type(value)


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    for attribute, child in getattr(value, "__dict__", {}).items():
        if attribute in _TRANSPARENT and isinstance(child, dict):
            yield from ((f".{key}", inner) for key, inner in child.items())
        else:
            yield f".{attribute}", child
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__") and hasattr(value, slot):
                yield f".{slot}", getattr(value, slot)
