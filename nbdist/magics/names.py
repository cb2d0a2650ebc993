"""Bring the names on a `%%distributed` line to the ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..cluster import Cluster
from ..errors import TravelError, UsageError
from .options import CellOptions
from .session import Session
from .travel import pack


@dataclass(frozen=True, kw_only=True)
class _Parcel:
    """A value of the notebook, packed: a model whole, for rank 0 to hand on; a shard in parts."""

    name: str
    value: object
    call: str
    parts: list[bytes | None]
    how: tuple[str | None, ...] = ()
    """What else the call takes."""

    @property
    def packed(self) -> bytes:
        return b"".join(part for part in self.parts if part is not None)


def bring(session: Session, cluster: Cluster, options: CellOptions, assigned: set[str]) -> None:
    """Send the names the cell does not assign, or distribute those that only the ranks have.

    Everything is packed and checked before the first byte leaves, so that bad input changes nothing.

    Raises:
        UsageError: a name is nowhere, is no model, or has no length to be cut by.
        TravelError: a value cannot be sent.
    """
    here = session.shell.user_ns
    models, shards = (_outside(names, assigned) for names in (options.models, options.shards))
    ours = {
        name for name in (*models, *shards) if name in here and not session.sent.is_theirs(name, here[name])
    }
    _require(cluster, [name for name in (*models, *shards) if name not in ours])

    how = options.compression
    parcels = [_model(name, here[name], cluster.n, how) for name in models if name in ours]
    parcels += [_shard(name, here[name], cluster.n) for name in shards if name in ours]
    fresh = [p for p in parcels if session.sent.is_new(p.name, p.value, p.packed)]
    # A model that the ranks have already is one of theirs where its line says how it is to be trained.
    known = {p.name for p in parcels if p.how and p not in fresh} if options.compression else set()
    kept = [[name for name in names if name in known or name not in ours] for names in (models, shards)]

    for parcel in fresh:
        if session.sent.has(parcel.name, parcel.value):
            session.say(f"{parcel.name} has changed in the notebook and replaces the ranks' own.")
        session.sent.forget(parcel.name)
        each = {rank: (parcel.name, part, *parcel.how) for rank, part in enumerate(parcel.parts)}
        cluster.call_in_step(parcel.call, each=each)
        session.sent.note(parcel.name, parcel.value, parcel.packed)
    if any(kept):
        cluster.call_in_step("distribute", *kept, how)


def _outside(names: Iterable[str], assigned: set[str]) -> list[str]:
    return [name for name in names if name not in assigned]


def _require(cluster: Cluster, names: list[str]) -> None:
    missing = {name for absent in cluster.call("missing", names) for name in absent} if names else set()
    if missing:
        raise UsageError(
            f"There is no {' or '.join(sorted(missing))}, neither in the notebook nor on every rank; "
            "define it first, or assign it in this cell."
        )


def _model(name: str, value: Any, size: int, compression: str | None) -> _Parcel:
    parts = [pack(name, value), *([None] * (size - 1))]
    return _Parcel(name=name, value=value, call="receive_model", parts=parts, how=(compression,))


def _shard(name: str, value: Any, size: int) -> _Parcel:
    from ..data import cut

    try:
        shards = [cut(value, rank, size) for rank in range(size)]
    except UsageError as problem:
        raise UsageError(f"--shard {name}: {problem}") from None
    try:
        parts: list[bytes | None] = [pack(name, shard) for shard in shards]
    except TravelError:
        pack(name, value)  # names the culprit by the reader's own path to it
        raise
    return _Parcel(name=name, value=value, call="receive_shard", parts=parts)
