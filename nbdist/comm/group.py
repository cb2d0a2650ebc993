"""torch.distributed's view of the native group."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from . import sparse
from ._native import ANY_SOURCE, Endpoint, Group, Kind, Op, Ticket
from .dtypes import NUMBERS, SUM, byte_code, number_code, op_code, premultiplier, type_code
from .ending import finish_unless_failing
from .letters import Letters
from .parcels import addresses, exchange, like, one_each, rows, splits
from .roll_call import call_the_roll
from .staging import multiply, restore, stage, stage_output
from .untraced import untraced
from .work import Finished, Pending, Several

# torch's stub lists overloads for direct callers; torch itself calls each method in the one form below.
# mypy: disable-error-code="override,assignment,call-arg"

Call = Callable[[Callable[[Ticket], None] | None], Ticket | None]
"""A collective, ready to go: called with None it runs; else it is handed over, and the callee tells."""


Split = Callable[["RingGroup", Sequence[int], int], "RingGroup"]
"""Forms a group of some ranks of another: the other, which ones, and this rank's place among them."""

_UNSET = timedelta(0)
_SUM = Op.sum
_STRIDED = torch.strided
_DONE = Finished([])


@untraced
class RingGroup(dist.ProcessGroup):
    """Collectives over CPU tensors.

    A method for each collective torch knows, under the names of all torch versions since 2.6. Each
    stages its tensors, and leaves the work to the native layer: on the caller's thread when called
    synchronously, else in order on the group's progress thread.
    """

    def __init__(self, native: Group, rank: int, size: int, split: Split) -> None:
        super().__init__(rank, size)
        self.native = native
        self._split = split
        # What this rank has offered for groups of some of the ranks, while others have not come.
        self.unmet: dict[tuple[int, ...], tuple[Letters, Endpoint]] = {}
        self._together: list[dist.Work] | None = None
        # DDP's join hands the handle of a one-element sum to C++, which keeps only half of it alive.
        self._small: deque[dist.Work] = deque(maxlen=256)
        self._rank = rank
        self._size = size
        self._name = ""
        self._description = ""

    # Names torch calls from C++, where the base class would ask a backend of its own for the answer.

    def getBackendName(self) -> str:  # noqa: N802
        return "nbdist"

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        self._description = description

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._description

    @property
    def _device_types(self) -> list[torch.device]:  # where torch puts objects, and broadcasts a state
        return [torch.device("cpu")]

    def shutdown(self) -> None:
        """Leave the group once what was issued in it is done; torch calls it from destroy_process_group."""
        try:
            finish_unless_failing([self.native])
        finally:
            self.leave()

    def leave(self) -> None:
        """Leave the group, and wait for nobody."""
        for _, endpoint in self.unmet.values():
            endpoint.close()  # who finds our letter only now would wait for us
        self.unmet.clear()
        self.native.close()

    def abort(self) -> None:
        """End the group on every rank; torch calls it from its own abort."""
        self.native.abort("torch.distributed aborted it")

    # Reductions ------------------------------------------------------------------------------------

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> dist.Work:
        if len(tensors) == 1 and opts is not None and not getattr(opts, "asyncOp", True):
            # Nearly always; and here the call itself is most of the time.
            tensor = tensors[0]
            code = NUMBERS.get(tensor.dtype)  # of no complex type, so that conjugates need no thought
            if (
                code is not None
                and tensor.is_cpu
                and tensor.layout is _STRIDED
                and tensor.is_contiguous()
                and not tensor.is_neg()
                and opts.reduceOp == SUM
            ):
                self.native.all_reduce(tensor.data_ptr(), tensor.numel(), code, _SUM)
                return _DONE
        op = op_code(opts)
        if tensors and tensors[0].layout is torch.sparse_coo:
            for tensor in tensors:
                sparse.all_reduce(self, tensor, op)
            return Finished(tensors)
        staged = multiply([stage_output(tensor) for tensor in tensors], premultiplier(opts))
        codes = [number_code(tensor, op) for tensor in staged]
        calls = [
            partial(self.native.all_reduce, flat.data_ptr(), count, code, op)
            for flat, (count, code) in zip(staged, codes, strict=True)
        ]
        work = self.launch(opts, calls, tensors, tensors, staged)
        if len(tensors) == 1 and tensors[0].numel() == 1:
            self._small.append(work)
        return work

    allreduce_coalesced = allreduce

    def reduce(self, tensors: list[Tensor], opts: Any) -> dist.Work:
        op, root = op_code(opts), opts.rootRank
        staged = multiply([stage_output(tensor) for tensor in tensors], premultiplier(opts))
        codes = [number_code(tensor, op) for tensor in staged]
        calls = [
            partial(self.native.reduce, flat.data_ptr(), count, code, op, root)
            for flat, (count, code) in zip(staged, codes, strict=True)
        ]
        outputs = tensors if self._rank == root else []
        return self.launch(opts, calls, tensors, outputs, staged if outputs else [], keep=staged)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> dist.Work:
        (output,), (parts,) = outputs, inputs
        one_each(parts, self._size)
        if any(part.numel() != parts[0].numel() for part in parts):
            return self._reduce_each(output, parts, opts)
        one_each(parts, self._size, output)
        return self._reduce_scatter([output], [[stage(part) for part in parts]], opts)

    def _reduce_each(self, output: Tensor, parts: list[Tensor], opts: Any) -> dist.Work:
        # Parts of different sizes: every rank knows all the sizes, so every rank comes this way.
        like(parts[self._rank], output)
        op, flat = op_code(opts), stage_output(output)
        sources = multiply([stage(part) for part in parts], premultiplier(opts))
        flat.copy_(sources[self._rank].view_as(flat))
        sources[self._rank] = flat
        calls = [
            partial(self.native.reduce, part.data_ptr(), *number_code(part, op), op, root)
            for root, part in enumerate(sources)
        ]
        return self.launch(opts, calls, [output], [output], [flat], keep=sources)

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> dist.Work:
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> dist.Work:
        cut = [
            rows(stage(tensor), self._size, output) for output, tensor in zip(outputs, inputs, strict=True)
        ]
        return self._reduce_scatter(outputs, cut, opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> dist.Work:
        op, factor = op_code(opts), premultiplier(opts)
        sources = [multiply(parts, factor) for parts in inputs]
        staged = [stage_output(output) for output in outputs]
        codes = [number_code(output, op) for output in staged]
        calls = [
            partial(self.native.reduce_scatter, addresses(parts), flat.data_ptr(), count, code, op)
            for flat, parts, (count, code) in zip(staged, sources, codes, strict=True)
        ]
        return self.launch(opts, calls, outputs, outputs, staged, keep=sources)

    # Copies ----------------------------------------------------------------------------------------

    def broadcast(self, tensors: list[Tensor], opts: Any) -> dist.Work:
        staged = [stage_output(tensor) for tensor in tensors]
        calls = [
            partial(self.native.broadcast, flat.data_ptr(), *byte_code(flat), opts.rootRank)
            for flat in staged
        ]
        return self.launch(opts, calls, tensors, tensors, staged)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> dist.Work:
        staged = [[stage_output(tensor) for tensor in row] for row in outputs]
        sources = [stage(tensor) for tensor in inputs]
        calls = [self._gather_call(row, source) for row, source in zip(staged, sources, strict=True)]
        flat_outputs = [tensor for row in outputs for tensor in row]
        flat_staged = [tensor for row in staged for tensor in row]
        return self.launch(opts, calls, outputs, flat_outputs, flat_staged, keep=sources)

    def allgather_coalesced(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> dist.Work:
        one_each(outputs, self._size)  # a row holds what one rank has, not what becomes of one input
        if any(len(row) != len(inputs) for row in outputs):
            raise ValueError(f"each rank gathers {len(inputs)} tensors; give as many outputs for each")
        columns = [list(column) for column in zip(*outputs, strict=True)]
        return self.allgather(columns, inputs, opts)

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> dist.Work:
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> dist.Work:
        staged = [stage_output(output) for output in outputs]
        sources = [stage(tensor) for tensor in inputs]
        calls = [
            self._gather_call(rows(output, self._size, source), source)
            for output, source in zip(staged, sources, strict=True)
        ]
        return self.launch(opts, calls, outputs, outputs, staged, keep=sources)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _gather_call(self, row: Sequence[Tensor], source: Tensor) -> Call:
        count, code = byte_code(source)
        if all(tensor.numel() == source.numel() for tensor in row):
            one_each(row, self._size, source)
            return partial(self.native.all_gather, source.data_ptr(), addresses(row), count, code)
        # Uneven: every rank knows all the sizes, so every rank comes this way.
        one_each(row, self._size)
        sends = dict.fromkeys(range(self._size), source)
        return exchange(self.native, Kind.all_gather, -1, source, sends, dict(enumerate(row)))

    # Exchanges -------------------------------------------------------------------------------------

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> dist.Work:
        (tensor,) = inputs
        source, root = stage(tensor), opts.rootRank
        row = outputs[0] if self._rank == root else []
        staged = [stage_output(output) for output in row]
        if self._rank == root:
            one_each(row, self._size)
        call = exchange(self.native, Kind.gather, root, source, {root: source}, dict(enumerate(staged)))
        return self.launch(opts, [call], outputs, row, staged, keep=source)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> dist.Work:
        (output,) = outputs
        flat, root = stage_output(output), opts.rootRank
        row = [stage(tensor) for tensor in inputs[0]] if self._rank == root else []
        if self._rank == root:
            one_each(row, self._size)
        call = exchange(self.native, Kind.scatter, root, flat, dict(enumerate(row)), {root: flat})
        return self.launch(opts, [call], outputs, outputs, [flat], keep=row)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> dist.Work:
        staged = [stage_output(output) for output in outputs]
        sources = [stage(tensor) for tensor in inputs]
        sends, receives = one_each(sources, self._size), one_each(staged, self._size)
        call = exchange(self.native, Kind.all_to_all, -1, staged[0], sends, receives)
        return self.launch(opts, [call], outputs, outputs, staged, keep=sources)

    def all_to_all_single(
        self,
        output: Tensor,
        tensor: Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        opts: Any = None,
    ) -> dist.Work:
        flat, source = stage_output(output), stage(tensor)
        receives = splits(flat, output_sizes, self._size)
        sends = splits(source, input_sizes, self._size)
        call = exchange(self.native, Kind.all_to_all, -1, flat, sends, receives)
        return self.launch(opts, [call], [output], [output], [flat], keep=source)

    alltoall_base = all_to_all_single

    # Messages --------------------------------------------------------------------------------------

    def send(self, tensors: list[Tensor], to: int, tag: int = 0) -> Pending:
        (tensor,) = tensors
        source = stage(tensor)
        call = partial(self.native.send, to, tag, source.data_ptr(), source.nbytes, type_code(source))
        return self.hand_over([call], tensors, keep=source)

    def recv(self, tensors: list[Tensor], source: int, tag: int = 0) -> Pending:
        (tensor,) = tensors
        flat = stage_output(tensor)
        call = partial(self.native.recv, source, tag, flat.data_ptr(), flat.nbytes, type_code(flat))
        return self.hand_over([call], tensors, tensors, [flat])

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Pending:
        return self.recv(tensors, ANY_SOURCE, tag)

    # Meetings --------------------------------------------------------------------------------------

    def barrier(self, opts: Any = None) -> dist.Work:
        timeout = opts.timeout if opts is not None else _UNSET
        if timeout <= _UNSET:
            if opts is not None and not getattr(opts, "asyncOp", True):
                self.native.barrier()
                return _DONE
            return self.launch(opts, [self.native.barrier], [])
        work = self.hand_over([self.native.barrier], [])
        if not work.is_done_within(timeout.total_seconds()):
            seconds = f"{timeout.total_seconds():g} s"
            self.native.abort(f"rank {self._rank} gave up waiting in barrier after a timeout of {seconds}")
        return work

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Wait for every rank; when the time is over, end the group on all with the names of the missing.

        `torch.distributed.monitored_barrier` refuses every backend but gloo: call this one, as in
        `torch.distributed.group.WORLD.monitored_barrier(timedelta(seconds=30))`.

        Raises:
            GroupAborted: a rank has not come within `timeout`.
        """
        call_the_roll(self, timeout)  # all the missing are named, however many were asked for

    def splitGroup(  # noqa: N802
        self, ranks: list[int], *_: Any, **__: Any
    ) -> RingGroup | None:
        """Form a group of some ranks of this one, each of which calls it with the same list.

        `torch.distributed.split_group` refuses groups without a GPU: call this one, or `new_group`.
        """
        if self._rank not in ranks:
            return None
        return self._split(self, ranks, ranks.index(self._rank))

    split_group = splitGroup

    def _start_coalescing(self, device: torch.device) -> None:
        self._together = []

    def _end_coalescing(self, device: torch.device) -> dist.Work:
        works, self._together = self._together or [], None
        return Several(works)

    # Launching -------------------------------------------------------------------------------------

    def launch(
        self,
        opts: Any,
        calls: Sequence[Call],
        result: Any,
        outputs: Sequence[Tensor] = (),
        staged: Sequence[Tensor] = (),
        keep: Any = None,
    ) -> dist.Work:
        """Run calls to the native layer in order, then bring what was staged back.

        `keep` is what must stay in memory meanwhile.
        """
        if opts is not None and not getattr(opts, "asyncOp", True):  # older torch does not say
            for call in calls:
                call(None)
            restore(outputs, staged)
            return Finished(result)
        return self.hand_over(calls, result, outputs, staged, keep) if calls else Finished(result)

    def hand_over(
        self,
        calls: Sequence[Call],
        result: Any,
        outputs: Sequence[Tensor] = (),
        staged: Sequence[Tensor] = (),
        keep: Any = None,
    ) -> Pending:
        """Give calls to the native layer's threads."""
        work = Pending(self.native, result, lambda: restore(outputs, staged), (keep, calls))
        for call in calls[:-1]:
            call(work.ignore)
        work.ticket = calls[-1](work.complete)
        if self._together is not None:
            self._together.append(work)
        return work
