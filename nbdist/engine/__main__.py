"""Start one rank: `python -m nbdist.engine`, under an MPI launcher."""

from __future__ import annotations

import importlib
import threading

from . import device


def main() -> None:
    """Pin the device, load torch beside the registration, and serve until stopped."""
    # Before torch is imported: a context opened on another GPU would stay there for ever.
    device.pin()
    # Registration takes about as long as importing torch, so the two go side by side.
    threading.Thread(target=importlib.import_module, args=("torch",), daemon=True).start()

    from . import ask
    from .app import RankApp

    ask.install()
    RankApp.launch_instance()


if __name__ == "__main__":
    main()
