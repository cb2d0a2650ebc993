"""
Collectives: over shared memory within a host, over sockets between hosts.
"""

import enum
from collections.abc import Callable, Sequence

class DType(enum.Enum):
    """Element types."""

    float16 = 0

    bfloat16 = 1

    float32 = 2

    float64 = 3

    int8 = 4

    uint8 = 5

    int16 = 6

    int32 = 7

    int64 = 8

    bool = 9

    complex64 = 10

    complex128 = 11

    complex32 = 12

    uint16 = 13

    uint32 = 14

    uint64 = 15

    float8_e4m3fn = 16

    float8_e5m2 = 17

    float8_e4m3fnuz = 18

    float8_e5m2fnuz = 19

    float8_e8m0fnu = 20

    bytes = 21

class Op(enum.Enum):
    """Reductions."""

    none = 0

    sum = 1

    avg = 2

    product = 3

    min = 4

    max = 5

    band = 6

    bor = 7

    bxor = 8

class Kind(enum.Enum):
    """Collectives made of an exchange."""

    all_gather = 5

    gather = 7

    scatter = 8

    all_to_all = 9

def bytes_moved() -> int:
    """Count the payload bytes this process has sent to other ranks."""

ANY_SOURCE: int = -1

class Endpoint:
    """This rank's segment of shared memory."""

    def __init__(self) -> None: ...
    @property
    def address(self) -> str: ...
    def abort(self, reason: str) -> None:
        """End the group that is formed from it, now or later."""

    def close(self) -> None:
        """Tell who waits for this rank to form a group that it won't."""

class Ticket:
    """Work another thread does."""

    @property
    def done(self) -> bool: ...
    @property
    def source(self) -> int: ...
    def rethrow(self) -> None:
        """Raise the error the work ended with, if any."""

class Arena:
    """Memory of this rank that the others of its host write into; a buffer."""

    def __init__(self, length: int) -> None: ...
    @property
    def address(self) -> str: ...

class Window:
    """The arenas of all ranks of a group."""

    def __init__(self, arena: Arena, addresses: Sequence[str], rank: int) -> None: ...

class Group:
    """Ranks that communicate."""

    def __init__(
        self,
        endpoint: Endpoint,
        addresses: Sequence[str],
        rank: int,
        digests: Sequence[bytes],
        parent: Group | None = None,
        limit: float = 0.0,
        patience: float = 0.0,
        hosts: Sequence[int] = [],
        links: Sequence[tuple[int, object, object]] = [],
    ) -> None: ...
    def all_reduce(
        self, data: int, count: int, dtype: DType, op: Op, then: Callable[[Ticket], None] | None = None
    ) -> Ticket | None: ...
    def all_reduce_arena(
        self,
        window: Window | None,
        offset: int,
        count: int,
        dtype: DType,
        op: Op,
        among: Sequence[int],
        then: Callable[[Ticket], None] | None = None,
    ) -> Ticket | None: ...
    def reduce(
        self,
        data: int,
        count: int,
        dtype: DType,
        op: Op,
        root: int,
        then: Callable[[Ticket], None] | None = None,
    ) -> Ticket | None: ...
    def broadcast(
        self, data: int, count: int, dtype: DType, root: int, then: Callable[[Ticket], None] | None = None
    ) -> Ticket | None: ...
    def all_gather(
        self,
        source: int,
        outputs: Sequence[int],
        count: int,
        dtype: DType,
        then: Callable[[Ticket], None] | None = None,
    ) -> Ticket | None: ...
    def reduce_scatter(
        self,
        inputs: Sequence[int],
        output: int,
        count: int,
        dtype: DType,
        op: Op,
        then: Callable[[Ticket], None] | None = None,
    ) -> Ticket | None: ...
    def barrier(self, then: Callable[[Ticket], None] | None = None) -> Ticket | None: ...
    def exchange(
        self,
        kind: Kind,
        root: int,
        count: int,
        dtype: DType,
        sends: Sequence[tuple[int, int, int]],
        receives: Sequence[tuple[int, int, int]],
        then: Callable[[Ticket], None] | None = None,
    ) -> Ticket | None: ...
    def send(
        self,
        to: int,
        tag: int,
        data: int,
        length: int,
        dtype: DType,
        then: Callable[[Ticket], None] | None = None,
    ) -> Ticket | None: ...
    def recv(
        self,
        source: int,
        tag: int,
        data: int,
        length: int,
        dtype: DType,
        then: Callable[[Ticket], None] | None = None,
    ) -> Ticket | None: ...
    def wait(self, ticket: Ticket) -> None: ...
    def abort(self, reason: str) -> None: ...
    @property
    def is_open(self) -> bool: ...
    def is_aborted(self) -> bool: ...
    def spans_hosts(self) -> bool: ...
    def enter_cell(self, number: int) -> None: ...
    def end_lines(self) -> None: ...
    def skip_cell(self, number: int) -> None: ...
    def step(self) -> tuple[str, int, int] | None:
        """Name what a caller waits in, its number and its bytes."""

    def close(self) -> None: ...

def leave_cell(groups: Sequence[Group], number: int) -> None:
    """Leave a cell in these groups once what was issued in it is done."""

def finish_announcing() -> None:
    """Wait until nobody tells Python of work any more."""
