"""Have libraries that choose between widgets and text choose text: a rank's progress is a line of it."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from ipykernel.zmqshell import ZMQDisplayPublisher, ZMQInteractiveShell
from traitlets import Type

from ..errors import GroupError
from .traceback import readers_part


class RankDisplay(ZMQDisplayPublisher):
    """Send figures and tables behind the text that was printed before them."""

    def _flush_streams(self) -> None:
        self.parent.kernel.capture.send()


class RankShell(ZMQInteractiveShell):
    """A rank's IPython; rich tells by the name of this class what it may draw."""

    display_pub_class = Type(RankDisplay)

    def _get_exc_info(self, exc_tuple: Any = None) -> tuple[Any, Any, Any]:
        """Show the reader's lines only; those of an error of the group, too, which is a message elsewhere."""
        kind, error, trace = super()._get_exc_info(exc_tuple)
        part = readers_part(trace)
        if isinstance(error, GroupError):
            render = self.InteractiveTB.structured_traceback
            error._render_traceback_ = lambda: render(kind, error, part)  # type: ignore[method-assign]
        return kind, error, part


def prefer_text(config: Any) -> None:
    """Make tqdm.auto and those who look for a notebook in IPython's `config` find a terminal."""
    config.pop("IPKernelApp", None)
    os.environ.setdefault(
        "TTY_COMPATIBLE", "1"
    )  # rich: there is no terminal, but who reads this follows the cursor
    auto = ModuleType("tqdm.autonotebook")
    auto.__getattr__ = lambda name: getattr(importlib.import_module("tqdm.std"), name)  # type: ignore[method-assign]
    sys.modules.setdefault(auto.__name__, auto)
