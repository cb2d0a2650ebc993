"""Bring names to the ranks and back: those on a `%%distributed` line, pushed ones and pulled ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..cluster import Cluster, refuse_too_large
from ..errors import TravelError, UsageError, rank_list
from ..freight import Parcel, pack
from .options import CellOptions
from .session import Session
from .travel import Consignment, fetch


@dataclass(frozen=True, kw_only=True)
class _Cargo:
    """A value of the notebook, packed: a model whole, for rank 0 to hand on; a shard in parts."""

    name: str
    value: object
    call: str
    consignment: Consignment
    keep: bool
    how: tuple[str | None, ...] = ()
    """What else the call takes."""

    @property
    def parcels(self) -> list[Parcel]:
        return list(self.consignment.parcels.values())


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
    cargos = [_model(name, here[name], how) for name in models if name in ours]
    cargos += [_shard(name, here[name], cluster.n) for name in shards if name in ours]
    fresh = [c for c in cargos if session.sent.is_new(c.name, c.value, c.parcels)]
    refuse_too_large(" and ".join(c.name for c in fresh), sum(c.consignment.nbytes for c in fresh))
    # A model that the ranks have already is one of theirs where its line says how it is to be trained.
    known = {c.name for c in cargos if c.how and c not in fresh} if options.compression else set()
    kept = [[name for name in names if name in known or name not in ours] for names in (models, shards)]

    for cargo in fresh:
        if session.sent.has(cargo.name, cargo.value):
            session.say(f"{cargo.name} has changed in the notebook and replaces the ranks' own.")
        session.sent.forget(cargo.name)
        letters = cargo.consignment.letters(cluster)
        each = {rank: (cargo.name, letters.get(rank), *cargo.how) for rank in range(cluster.n)}
        cluster.call_in_step(cargo.call, each=each)
        session.sent.note(cargo.name, cargo.value, cargo.consignment.copies(keep=cargo.keep))
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


def _model(name: str, value: Any, compression: str | None) -> _Cargo:
    consignment = Consignment({0: pack(name, value)})
    # The ranks move a model to their devices, so that a shipment would be one copy more.
    return _Cargo(
        name=name,
        value=value,
        call="receive_model",
        consignment=consignment,
        keep=False,
        how=(compression,),
    )


def _shard(name: str, value: Any, size: int) -> _Cargo:
    from ..data import cut

    try:
        shards = [cut(value, rank, size, copy=False) for rank in range(size)]
    except UsageError as problem:
        raise UsageError(f"--shard {name}: {problem}") from None
    try:
        parcels = {rank: pack(name, shard) for rank, shard in enumerate(shards)}
    except TravelError:
        pack(name, value)  # names the culprit by the reader's own path to it
        raise
    return _Cargo(name=name, value=value, call="receive_shard", consignment=Consignment(parcels), keep=True)


def push(session: Session, names: Sequence[str]) -> None:
    """Give every rank the notebook's own value of each name.

    Raises:
        UsageError: the notebook has no such name.
        TravelError: a value cannot be sent.
    """
    here = session.shell.user_ns
    if absent := [name for name in names if name not in here]:
        raise UsageError(f"There is no {' or '.join(absent)} in the notebook; define it first.")
    cluster = session.started()
    cluster.check_idle()
    parcels = [pack(name, here[name]) for name in names]
    refuse_too_large(" and ".join(names), sum(parcel.nbytes for parcel in parcels))
    cluster.prepare(range(cluster.n))
    for name, parcel in zip(names, parcels, strict=True):
        consignment = Consignment(dict.fromkeys(range(cluster.n), parcel))
        letters = consignment.letters(cluster)
        cluster.call("receive", each={rank: (name, letter) for rank, letter in letters.items()})
        session.sent.forget(name)


def pull(session: Session, name: str, rank: int | None) -> Any:
    """Bring the value a rank has under `name` into the notebook, or a list of all ranks' with None.

    From then on `--model` and `--shard` take the ranks' own under that name, until the notebook binds
    it anew.

    Raises:
        UsageError: a rank has no such name, or there is no such rank.
        TravelError: a value cannot be sent.
    """
    cluster = session.started()
    cluster.check_idle()
    if rank is not None and rank >= cluster.n:
        raise UsageError(f"--rank {rank}: the cluster has ranks 0 to {cluster.n - 1}.")
    ranks = range(cluster.n) if rank is None else [rank]
    cluster.prepare(ranks)
    missing = cluster.call("missing", each={r: ([name],) for r in ranks})
    if lacking := [r for r, absent in zip(ranks, missing, strict=True) if absent]:
        raise UsageError(
            f"There is no {name} on rank {rank_list(lacking)}; define it in a %%distributed cell."
        )
    values = fetch(cluster, name, ranks)
    value = values if rank is None else values[0]
    session.shell.user_ns[name] = value
    session.sent.leave(name, value)
    return value
