"""The private folder in which a running cluster keeps its files."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir

from ..errors import StartError


def create() -> Path:
    """Make a fresh folder that only this user can enter.

    Raises:
        StartError: its parent is a link, or belongs to or is open to someone else.
    """
    parent = Path(jupyter_runtime_dir()) / "nbdist"
    parent.parent.mkdir(parents=True, exist_ok=True)
    parent.mkdir(mode=0o700, exist_ok=True)
    _refuse_foreign(parent)
    # Unguessable, and made by us alone: mkdir fails if someone was first.
    folder = parent / secrets.token_hex(8)
    folder.mkdir(mode=0o700)
    for name in ("security", "log", "pid", "startup", "static"):  # an IPython profile, already private
        (folder / name).mkdir(mode=0o700)
    return folder


def close_to_others(folder: Path) -> None:
    """Take from everyone else what a lax umask gave them on the files below `folder`."""
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a log may be renamed meanwhile
            if not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)


def _refuse_foreign(folder: Path) -> None:
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise StartError(
            f"{folder} is not a folder of yours; remove it or set JUPYTER_RUNTIME_DIR elsewhere."
        )
    if info.st_mode & 0o077:
        folder.chmod(0o700)
