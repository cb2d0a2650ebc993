"""Where gradients lie: each in its place in a bucket, which is reduced there and never copied back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

import torch
from torch.multiprocessing.reductions import StorageWeakRef

LINE = 64
"""A place begins at a multiple of this many bytes, as vector code and caches like it."""


class Place:
    """Where one parameter's gradient belongs, and the tensor on that memory.

    Once the gradient has arrived, that tensor is the parameter's `.grad`, until the user sets another.
    """

    def __init__(self, position: int, parameter: torch.Tensor, dtype: torch.dtype, offset: int) -> None:
        self.position = position
        """Of the parameter in its model."""
        self.offset = offset
        self.count = parameter.numel()
        self.dtype = dtype
        self._parameter = parameter
        # As autograd lays gradients out: in the order of the parameter's elements.
        self.stride = torch.empty_like(parameter, device="meta").stride()

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.count * self.dtype.itemsize

    def lie(self, look: Callable[[], torch.Tensor]) -> None:
        """Take the memory that `look` returns a tensor on."""
        self._look = look
        self._renew()

    def _renew(self) -> None:
        self.view = self._look().as_strided_(self._parameter.shape, self.stride)
        self._address = self.view.data_ptr()
        self._storage = StorageWeakRef(self.view.untyped_storage())  # type: ignore[no-untyped-call]

    def on(self, flat: torch.Tensor, begin: int) -> torch.Tensor:
        """Return this place on another tensor for its bucket, which begins at byte `begin`."""
        return flat.as_strided(self._parameter.shape, self.stride, (self.offset - begin) // flat.itemsize)

    def holds(self, gradient: torch.Tensor | None) -> bool:
        """Say whether a gradient lies here."""
        # The tensor alone does not tell: `model.half()` gives it other memory.
        return gradient is not None and gradient is self.view and gradient.data_ptr() == self._address

    def is_free(self) -> bool:
        """Say whether writing here would change no tensor that the user kept from an earlier step.

        Call it while no gradient lies here.
        """
        # An interrupt may end this anywhere; the next call then begins with a place that holds nothing.
        self.view = None  # type: ignore[assignment]
        free: bool = self._storage.expired()  # type: ignore[no-untyped-call]
        self._renew()
        return free

    def take(self) -> bool:
        """Lay the parameter's gradient here and make the view it, and return whether that could be.

        It must be autograd's alone: one that the user holds too, such as a part of a larger tensor, must
        stay what it is.
        """
        gradient = self._parameter.grad
        if self.holds(gradient):
            return True
        if (
            gradient is None
            or type(gradient) is not torch.Tensor
            or gradient.layout is not torch.strided
            or gradient.requires_grad  # it has a graph, for a second derivative
            or gradient.dtype != self.view.dtype
            or gradient._is_view()
            or gradient.untyped_storage().nbytes() != gradient.nbytes
            or sys.getrefcount(gradient) > _alone()
        ):
            return False
        self.view.copy_(gradient)
        self._parameter.grad = self.view
        return True


@cache
def _alone() -> int:
    """Count the holders of a gradient that only its parameter, and who looks at it here, holds."""
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    gradient = parameter.grad
    return sys.getrefcount(gradient)
