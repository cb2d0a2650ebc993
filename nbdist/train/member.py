"""One model that was made one over all ranks."""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ..errors import UsageError
from .compression import NONE
from .layout import Layout

_LAYOUTS = 3


def has_sparse_layer(model: nn.Module) -> bool:
    """Say whether a layer, such as an embedding, will produce sparse gradients."""
    return any(getattr(layer, "sparse", False) is True for layer in model.modules())


class Member:
    """A model's parameters, in the order in which their gradients travel, and what hangs on them.

    Nothing is left on the module itself: a copy or a pickle of it is the plain model. The hooks sit on
    the parameters, which drop them when they are copied or pickled.
    """

    def __init__(self, model: nn.Module, limit: int, compression: str = NONE) -> None:
        self._model = weakref.ref(model)
        self.name = type(model).__name__
        self.limit = limit
        self.compression = compression
        self.index = 0
        # Backward produces gradients roughly in reverse order of registration. Tied ones come once.
        named = list(model.named_parameters())[::-1]
        for name, parameter in named:
            if is_lazy(parameter):
                raise UsageError(
                    f"{name} of {self.name} has no shape yet; run one batch through the model first."
                )
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.position = {id(parameter): i for i, parameter in enumerate(self.parameters)}
        self.stepped: weakref.WeakKeyDictionary[torch.optim.Optimizer, None] = weakref.WeakKeyDictionary()
        """Optimizers that stepped these parameters since the ranks last met, in that order."""
        self.checked = 0
        """How often `check_parameters` was called since the ranks last met."""
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []
        self._layouts: dict[tuple[object, ...], Layout] = {}
        self._buffers_seen: list[tuple[int, int]] = []

    # -- hooks

    def watch(self, arrived: Callable[[Member, int], None]) -> None:
        """Call `arrived` with the position of each parameter whose gradient was accumulated."""
        self_ref = weakref.ref(self)  # a parameter must not keep its siblings alive

        def hook_for(position: int) -> Callable[[torch.Tensor], None]:
            def on_gradient(_: torch.Tensor) -> None:
                member = self_ref()
                if member is not None:
                    arrived(member, position)

            return on_gradient

        for position, parameter in enumerate(self.parameters):
            if not (parameter.is_floating_point() or parameter.is_complex()):
                continue
            # Frozen ones are watched too, since they may be unfrozen; torch refuses a hook meanwhile.
            trainable = parameter.requires_grad
            parameter.requires_grad_(True)
            hook = parameter.register_post_accumulate_grad_hook(hook_for(position))  # type: ignore[no-untyped-call]
            self._hooks.append(hook)
            parameter.requires_grad_(trainable)

    def unwatch(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    # -- what travels

    def layout(self) -> Layout:
        """Return how gradients travel, arranged anew if parameters were frozen, unfrozen, moved or cast."""
        seen = tuple((p.requires_grad, p.dtype, p.device, p.shape, p.stride()) for p in self.parameters)
        layout = self._layouts.get(seen)
        if layout is None:
            # Some training freezes now one half, now the other.
            if len(self._layouts) == _LAYOUTS:
                del self._layouts[next(iter(self._layouts))]
            named = list(zip(self.names, self.parameters, strict=True))
            layout = self._layouts[seen] = Layout(self.name, named, self.limit, self.compression)
        return layout

    def structure(self) -> int:
        """Return a figure that is equal where names, shapes and dtypes of parameters and buffers are."""
        tensors = [*zip(self.names, self.parameters, strict=True), *self._named_buffers()]
        told = [(name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in tensors]
        return zlib.crc32(repr(told).encode())

    def buffers(self) -> list[torch.Tensor]:
        """Return the model's buffers, each once."""
        return [buffer for _, buffer in self._named_buffers()]

    def tensors(self) -> list[torch.Tensor]:
        """Return all parameters and buffers."""
        return [*self.parameters, *self.buffers()]

    # -- what changed

    def changed_buffers(self) -> bool:
        """Say whether a buffer was written since `note_buffers`."""
        return self._buffer_versions() != self._buffers_seen

    def note_buffers(self) -> None:
        """Take the buffers as they are now for those of all ranks."""
        self._buffers_seen = self._buffer_versions()

    def check_parameters(self) -> None:
        """Refuse to go on with a model that was rebuilt, whose new parameters nobody averages.

        To look at all of a model takes as long as many a small collective, so calls grow lax.
        """
        model = self._model()
        self.checked += 1
        if model is None or self.checked & (self.checked - 1):  # at the 1st, 2nd, 4th, 8th … time
            return
        for name, parameter in model.named_parameters():
            if id(parameter) not in self.position:
                raise UsageError(
                    f"{self.name} got a new parameter, {name}, after it was made one model over the ranks; "
                    "change it first, then distribute it (again)."
                )

    def is_training(self) -> bool:
        """Say whether the model is there and in training mode."""
        model = self._model()
        return model is not None and model.training

    def _named_buffers(self) -> list[tuple[str, torch.Tensor]]:
        model = self._model()
        return [] if model is None else list(model.named_buffers())

    def _buffer_versions(self) -> list[tuple[int, int]]:
        # A tensor made in inference mode has no version; it is taken for unchanged.
        return [(id(b), 0 if b.is_inference() else b._version) for b in self.buffers()]
