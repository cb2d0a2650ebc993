"""Call a rank's service functions between cells."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipyparallel as ipp
from ipyparallel.error import RemoteError

from .. import errors
from ..errors import NbdistError, rank_list

if TYPE_CHECKING:
    from ipyparallel import Client

# Evaluated on the rank: the kernel's `rank` object dispatches by name, so that this side needs
# nothing of the engine's code.
_RANK = ipp.Reference("get_ipython().kernel.rank")


def call(
    client: Client,
    name: str,
    arguments: Mapping[int, Sequence[Any]],
    timeout: float,
) -> list[Any]:
    """Call `name` on the ranks of `arguments`, each with its own, and return the results in rank order.

    Raises:
        NbdistError: what the first failing rank raised, where it is one of our errors; else one that
            names the ranks and what they raised.
        StartError: a rank did not answer in time.
    """
    ranks = sorted(arguments)
    targets, _ = client._build_targets(ranks)
    futures = [
        client.send_apply_request(client._mux_stream, _RANK, args=(name, *arguments[rank]), ident=target)
        for rank, target in zip(ranks, targets, strict=True)
    ]
    deadline = time.monotonic() + timeout
    late = [
        r for r, f in zip(ranks, futures, strict=True) if not f.wait(max(0.0, deadline - time.monotonic()))
    ]
    if late:
        raise errors.StartError(
            f"Rank {rank_list(late)} did not answer within {timeout:g} s; "
            "`%nbdist restart` starts the ranks afresh."
        )
    results = [future.result() for future in futures]
    failed = {rank: r for rank, r in zip(ranks, results, strict=True) if isinstance(r, RemoteError)}
    if failed:
        raise _our_error(failed)
    return results


def _kind_of(error: RemoteError) -> Any:
    return getattr(errors, error.ename, None)


def _our_error(failed: dict[int, RemoteError]) -> NbdistError:
    # A rank that was only released tells less than the one that released it.
    first = min(
        failed.values(), key=lambda error: _kind_of(error) in (errors.GroupAborted, errors.GroupError)
    )
    kind = _kind_of(first)
    if isinstance(kind, type) and issubclass(kind, NbdistError) and kind is not errors.RankError:
        return kind(first.evalue)
    ranks = rank_list(list(failed))
    if first.ename == "EngineError":
        return NbdistError(f"Rank {ranks} died; `%nbdist restart` starts the ranks afresh.")
    return NbdistError(f"Rank {ranks}: {first.ename}: {first.evalue}")
