"""D04: spaces, non-ASCII letters and long temporary paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..notebook import Notebook

CELL = """\
%%distributed
import os, helper
assert helper.WORD == "żółw"
print(os.getcwd(), helper.WORD)
"""


@pytest.mark.parametrize("case", ["plain", "LANG=C", "long TMPDIR"])
def test_folders_with_odd_names(tmp_path: Path, case: str) -> None:
    home = tmp_path / "Zoë Łuk ☃"
    course = home / "my course" / "week 1"
    course.mkdir(parents=True)
    (course / "helper.py").write_text('WORD = "żółw"\n', encoding="utf-8")
    env = {"HOME": str(home)}
    if case == "LANG=C":
        env["LANG"] = env["LC_ALL"] = "C"
    if case == "long TMPDIR":
        long = tmp_path / ("t" * 100)
        long.mkdir()
        env["TMPDIR"] = str(long)
    with Notebook(course, env=env) as notebook:
        notebook.ok("%load_ext nbdist\n%nbdist start -n 2", timeout=90)
        assert notebook.ok(CELL).stdout.splitlines() == [f"[0-1] {course} żółw"]
        notebook.alive()
