"""Keep torch.compile out of the methods that torch calls."""

from __future__ import annotations

from types import FunctionType
from typing import TypeVar

from torch._C._dynamo import eval_frame

T = TypeVar("T", bound=type)


def untraced(cls: T) -> T:
    """Have Dynamo run a class's methods, and all that they call, as they are.

    They deal in addresses, which mean nothing to a compiler. `torch.compiler.disable` would say the same,
    but imports the compiler, which takes seconds.
    """
    if not hasattr(eval_frame, "set_code_exec_strategy"):  # torch before 2.7
        return cls
    skip = eval_frame._FrameAction.SKIP
    for method in vars(cls).values():
        if isinstance(method, FunctionType):
            eval_frame.set_code_exec_strategy(method.__code__, eval_frame._FrameExecStrategy(skip, skip))
    return cls
