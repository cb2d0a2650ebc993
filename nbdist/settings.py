"""Every knob nbdist has, in one place."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .errors import UsageError

PREFIX = "NBDIST_"

_MAY_BE_ZERO = ("collective_timeout", "merge_window", "interrupt_grace")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every knob, its default and its unit; `NBDIST_<NAME>` in the environment overrides it.

    Times are seconds, sizes bytes, unless the name says otherwise.
    """

    start_timeout: float = 60.0
    """How long starting may take before it is given up."""

    interrupt_grace: float = 10.0
    """How long ranks may take to answer an interrupt before the cell is left without them."""

    heartbeat_ms: int = 250
    """How often the controller looks for its engines; engines register within two of these."""

    collective_timeout: float = 0.0
    """Give a collective up after this long; 0 waits for ever, since a slow rank is not a dead one."""

    interface: str = ""
    """Where ranks on other hosts may call: an interface, an address, or a network such as 10.0.0.0/24;
    empty means the address that reaches the meeting place, or else all."""

    bucket_mib: int = 25
    """How much gradient is reduced in one collective."""

    metrics_hz: float = 10.0
    """How often ranks send their figures to the notebook."""

    merge_window: float = 0.2
    """How long a line waits for the other ranks to print the same; ranks send theirs every 0.05 s."""

    data_root: str = ""
    """Folder in which image sets are looked for; empty means where the system's package puts them."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from `NBDIST_` variables.

        Raises:
            UsageError: a variable is misspelt (the nearest valid ones are named) or has no valid value.
        """
        environ = os.environ if environ is None else environ
        kinds: dict[str, tuple[str, Any]] = {
            PREFIX + f.name.upper(): (f.name, type(f.default)) for f in fields(cls)
        }
        values: dict[str, Any] = {}
        for key, text in environ.items():
            if not key.startswith(PREFIX) or key.startswith(PREFIX + "_"):
                continue  # NBDIST__… is how a cluster talks to its own ranks
            if key not in kinds:
                near = difflib.get_close_matches(key, kinds, n=3) or sorted(kinds)
                raise UsageError(f"{key} is not a setting; did you mean {' or '.join(near)}?")
            name, kind = kinds[key]
            values[name] = _read(key, text, kind, may_be_zero=name in _MAY_BE_ZERO)
        return cls(**values)


def _read(key: str, text: str, kind: Any, may_be_zero: bool) -> Any:
    if kind is str:
        return text
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (value == 0 and not may_be_zero):
        least = "a number from 0 up" if may_be_zero else "a number above 0"
        raise UsageError(f"{key}={text!r} cannot be used; set it to {least}.")
    return value
