"""A real JupyterLab and a real browser, for tests of what a reader sees."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Locator, Page

START_TIMEOUT = 60.0
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

_READY = """async () => {
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
}"""

# The command's promise is that of the cell's end; it is noted on the page, not awaited.
_START = """cell => {
  const ended = (window.endedCells ??= {});
  ended[cell] = false;
  const app = window.jupyterapp;
  app.shell.currentWidget.content.deselectAll();
  app.shell.currentWidget.content.activeCellIndex = cell;
  app.commands.execute('notebook:run-cell').finally(() => { ended[cell] = true; });
}"""


def new_notebook(cells: list[str]) -> nbformat.NotebookNode:
    """Return a notebook of these code cells."""
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source.strip()) for source in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )


class LabServer:
    """A JupyterLab server on a port of its own, with settings and notebooks of its own."""

    def __init__(self, home: Path) -> None:
        self.root = home / "notebooks"
        self.root.mkdir()
        settings = home / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        quiet = {"fetchNews": "false", "checkForUpdates": False}
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
        self.token = os.urandom(16).hex()
        self._log: list[str] = []
        self._address = ""
        self._listening = threading.Event()
        self._process = subprocess.Popen(
            [
                sys.executable,
                *("-m", "jupyterlab", "--no-browser", "--allow-root"),
                *("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--ServerApp.root_dir={self.root}"),
                "--LabApp.expose_app_in_browser=True",
            ],
            env={
                **os.environ,
                "JUPYTER_TOKEN": self.token,
                "JUPYTER_CONFIG_DIR": str(home / "config"),
                "JUPYTER_DATA_DIR": str(home / "data"),
                "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
                "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
                "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
                "IPYTHONDIR": str(home / "ipython"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if not self._listening.wait(START_TIMEOUT) or not self._address:
            self.stop()
            raise RuntimeError("JupyterLab did not start:\n" + "".join(self._log[-30:]))

    def write(self, name: str, notebook: nbformat.NotebookNode) -> None:
        """Put a notebook on the server."""
        nbformat.write(notebook, self.root / name)

    def url(self, name: str) -> str:
        """Return where a notebook opens, alone in a fresh workspace."""
        return f"{self._address}/lab/tree/{name}?token={self.token}&reset"

    def stop(self) -> None:
        """End the server; it ends its kernels first."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._reader.join(10)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._log.append(line)
            if not self._address and (found := re.search(r"(http://127\.0\.0\.1:\d+)/lab", line)):
                self._address = found[1]
                self._listening.set()
        self._listening.set()


class NotebookPage:
    """A notebook open in the browser."""

    def __init__(self, page: Page, server: LabServer, name: str) -> None:
        self.page = page
        self.name = name
        self._server = server
        self.open()

    def open(self) -> None:
        """Load the page, again if need be, and wait for its cells."""
        self.page.goto(self._server.url(self.name))
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)

    def wait_for_kernel(self) -> None:
        """Wait until the kernel is there and has nothing to do."""
        self.page.evaluate(_READY)
        self.page.locator(".jp-NotebookPanel-toolbar [data-status=idle]").wait_for(timeout=120_000)

    def command(self, name: str, **arguments: Any) -> None:
        """Run one of JupyterLab's commands."""
        self.page.evaluate(
            "([n, a]) => window.jupyterapp.commands.execute(n, a).then(() => null)", [name, arguments]
        )

    def start(self, cell: int) -> None:
        """Start a cell and return while it runs."""
        self.page.evaluate(_START, cell)

    def run(self, cell: int, timeout: float = 120.0) -> None:
        """Run a cell to its end; what it raised fails the test."""
        self.start(cell)
        self.wait_for_end(cell, timeout)
        raised = self.output(cell).and_(self.page.locator('[data-mime-type$="jupyter.error"]'))
        assert raised.count() == 0, raised.first.inner_text()

    def wait_for_end(self, cell: int, timeout: float = 120.0) -> None:
        """Wait until a cell that was started on this page has ended."""
        self.page.wait_for_function("cell => window.endedCells[cell]", arg=cell, timeout=1000 * timeout)

    def ended(self, cell: int) -> bool:
        """Say whether a cell that was started on this page has ended."""
        return bool(self.page.evaluate("cell => window.endedCells[cell]", cell))

    def cell(self, index: int) -> Locator:
        """Return a code cell."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def output(self, cell: int) -> Locator:
        """Return what a cell has put out."""
        return self.cell(cell).locator(".jp-OutputArea-output")

    def save(self) -> Any:
        """Save the notebook and return what is on disk."""
        self.command("docmanager:save")
        return nbformat.read(self._server.root / self.name, as_version=4)

    def use_theme(self, name: str) -> None:
        """Change the theme, `JupyterLab Light` or `JupyterLab Dark`."""
        self.command("apputils:change-theme", theme=name)
        self.page.locator(f'body[data-jp-theme-name="{name}"]').wait_for(state="attached")
