"""Output that a cell did not ask for in this form: floods, C code, children, threads, progress bars."""

from __future__ import annotations

import json
import re

from ..notebook import Notebook, Result, who_said

LINES = 100_000


def _size(result: Result) -> int:
    """Return the bytes that a front end is sent."""
    return sum(len(json.dumps(content)) for _, _, content in result.messages)


def test_a_flood_is_cut_in_the_notebook_and_whole_in_the_log(notebook: Notebook) -> None:
    flood = notebook.ok(f"%%distributed\nfor i in range({LINES}): print('flood', i, rank)")
    assert _size(flood) < 1_000_000
    for rank in range(4):
        numbers = [int(n) for n in re.findall(rf"^\[{rank}\] +flood (\d+) {rank}$", flood.stdout, re.M)]
        assert numbers == sorted(set(numbers)), "no line torn, twice or out of order"
        assert numbers[0] == 0
        assert numbers[-1] == LINES - 1
        assert (
            len(re.findall(r"… [\d,]+ lines left out here; `%nbdist logs RANK` shows all", flood.stdout)) > 0
        )
    later = notebook.ok("%%distributed\nprint('later')")
    assert who_said(later.stdout) == {"later": [0, 1, 2, 3]}
    assert _size(later) < 2_000

    log = notebook.ok(f"%nbdist logs 2 --last {LINES + 100}").stdout.splitlines()
    assert [line for line in log if line.startswith("flood")] == [f"flood {i} 2" for i in range(LINES)]
    assert "The last 3 of " in notebook.ok("%nbdist logs 2 --last 3").stdout


def test_logs_names_what_is_not_there(notebook: Notebook) -> None:
    result = notebook.run("%nbdist logs 4")
    assert result.evalue == "There is no rank 4; the ranks are 0-3."


def test_flushed_lines_cost_what_their_text_does(notebook: Notebook) -> None:
    steps = notebook.ok(
        "%%distributed --ranks 0\nfor i in range(2000): print('step', i, 'loss', i / 7, flush=True)"
    )
    assert len(steps.stdout.splitlines()) == 2000
    assert _size(steps) < 3 * len(steps.stdout)


def test_what_is_written_past_python_is_caught(notebook: Notebook) -> None:
    result = notebook.ok(
        "%%distributed\n"
        "import ctypes, multiprocessing, os, subprocess, sys, threading\n"
        "libc = ctypes.CDLL(None)\n"
        "os.write(1, b'descriptor\\n'); os.write(2, b'error\\n'); libc.printf(b'printf\\n')\n"
        "subprocess.run(['echo', 'program']); subprocess.run(['echo', 'stream'], stdout=sys.stdout)\n"
        "thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()\n"
        "child = multiprocessing.get_context('fork').Process(target=print, args=('fork',))\n"
        "child.start(); child.join()\n"
        "!echo shell\n"
        "length = libc.printf(b'no newline')"
    )
    said = {"descriptor", "printf", "program", "stream", "thread", "fork", "shell", "no newline"}
    assert who_said(result.stdout) == {what: [0, 1, 2, 3] for what in said}
    assert who_said(result.stderr) == {"error": [0, 1, 2, 3]}


def test_any_amount_of_stderr_ends(notebook: Notebook) -> None:
    code = (
        "%%distributed --ranks 0,1\n"
        "import ctypes, os, sys\n"
        "some = b'e' * 99 + b'\\n'\n"
        "print((some * 100_000).decode(), file=sys.stderr)\n"
        "os.write(2, some * 100_000)\n"
        "written = ctypes.PyDLL(None).write(2, some * 100_000, 10_000_000)  # under Python's lock\n"
        "print(written)"
    )
    result = notebook.ok(code)
    assert who_said(result.stdout) == {"10000000": [0, 1]}
    assert _size(result) < 1_000_000


def test_what_a_thread_says_between_cells_comes_with_the_next(notebook: Notebook) -> None:
    notebook.ok(
        "%%distributed\n"
        "import threading\n"
        "ended = threading.Event()\n"
        "def late(): ended.wait(); print('late', rank)\n"
        "threading.Thread(target=late).start()"
    )
    # Called when the cell has ended on the rank, since it runs on the loop that runs the cell.
    notebook.ok("%%distributed\nimport asyncio\nasyncio.get_running_loop().call_soon(ended.set)")
    while any(f"late {rank}" not in notebook.ok(f"%nbdist logs {rank} --last 5").stdout for rank in range(4)):
        pass
    shown = who_said(notebook.ok("%%distributed\nprint('next')").stdout)
    assert shown == {f"(between cells) late {rank}": [rank] for rank in range(4)} | {"next": [0, 1, 2, 3]}


def test_bars_are_a_line_a_rank_in_one_place(notebook: Notebook) -> None:
    result = notebook.ok(
        "%%distributed\n"
        "import time\n"
        "from tqdm.auto import tqdm\n"
        "for i in tqdm(range(40), desc=f'rank {rank}'): time.sleep(0.05)"
    )
    (shown,) = result.displays
    lines = shown["text/plain"].splitlines()
    assert [line.split(":")[0] for line in lines] == [f"[{rank}] rank {rank}" for rank in range(4)]
    assert all("40/40" in line for line in lines)
    assert shown.keys() == {"text/plain"}
    assert (result.stdout, result.stderr) == ("", "")
    updates = [c["data"]["text/plain"] for _, kind, c in result.messages if kind == "update_display_data"]
    assert 2 < len(updates) < 40, "it moves, but not at every step"
