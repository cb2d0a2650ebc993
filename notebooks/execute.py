"""Execute a notebook in a real kernel, showing its text as it comes, and keep it as HTML.

python notebooks/execute.py notebooks/01_quickstart.ipynb [--out out]
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

from nbdist.live import state

_PERIOD = 3.0
"""How often a running training is told of, in seconds."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class _Shown(NotebookClient):
    """Write a notebook's text output to the terminal while the notebook runs."""

    _told = 0.0

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        content = msg["content"]
        if msg["msg_type"] == "stream":
            sys.stdout.write(content["text"])
        elif msg["msg_type"] in ("display_data", "update_display_data", "execute_result"):
            text = content["data"].get("text/plain", "")
            if "widget-view" not in " ".join(content["data"]):
                sys.stdout.write(f"{text}\n")
        elif msg["msg_type"] == "comm_msg" and time.monotonic() - self._told >= _PERIOD:
            # What the live view draws in a notebook is one line here.
            drawn = content["data"].get("content", {}).get("state")
            if drawn:
                self._told = time.monotonic()
                sys.stdout.write(f"  {state.one_line(drawn)}\n")
        elif msg["msg_type"] == "error":
            sys.stdout.write(_COLOUR.sub("", "\n".join(content["traceback"])) + "\n")
        sys.stdout.flush()
        return super().process_message(msg, cell, cell_index)


def main() -> int:
    """Run the notebook named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()

    notebook = nbformat.read(options.notebook, as_version=4)
    client = _Shown(
        notebook,
        timeout=1200,
        kernel_name="python3",
        store_widget_state=False,  # the live view has left its picture; its data need not stay as well
        resources={"metadata": {"path": str(options.notebook.parent)}},
    )
    failed = False
    try:
        client.execute()
    except CellExecutionError:
        failed = True  # the cell's own traceback is on the terminal already
    options.out.mkdir(exist_ok=True)
    executed = options.out / options.notebook.name
    nbformat.write(notebook, executed)
    page = executed.with_suffix(".html")
    html, _ = HTMLExporter().from_notebook_node(notebook)
    page.write_text(html, encoding="utf-8")
    sys.stdout.write(f"\nThe executed notebook: {page.resolve().as_uri()}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
