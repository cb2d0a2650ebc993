"""What output costs: a flood, flushed lines, and what 300 cells leave behind.

python -m benchmarks.output [-n 2]
"""

from __future__ import annotations

import argparse
import os

import psutil

from benchmarks.kernel import Cell, kernel

LINES = 100_000
CELLS = 300


def _tell(name: str, cell: Cell) -> None:
    print(f"{name:24} {cell.seconds:7.2f} s {cell.size:10,} bytes {len(cell.messages):6,} messages")


def _processes(parent: int) -> dict[int, tuple[str, float, int]]:
    """Return name, resident MB and descriptors of the kernel and its ranks."""
    found = [psutil.Process(parent), *psutil.Process(parent).children(recursive=True)]
    return {
        p.pid: (" ".join(p.cmdline()[1:3])[-40:], p.memory_info().rss / 1e6, p.num_fds())
        for p in found
        if p.is_running() and p.status() != psutil.STATUS_ZOMBIE
    }


def main() -> None:
    """Measure with as many ranks as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2)
    ranks = parser.parse_args().n
    with kernel() as notebook:
        notebook.run(f"%load_ext nbdist\n%nbdist start -n {ranks}", timeout=100)
        _tell(
            f"{LINES:,} lines a rank", notebook.run(f"%%distributed\nfor i in range({LINES}): print(i, rank)")
        )
        flushed = "%%distributed\nfor i in range(2000): print('step', i, rank, 'x' * 30, flush=True)"
        _tell("2,000 flushed lines", notebook.run(flushed))
        empty = sorted(notebook.run("%%distributed\npass").seconds for _ in range(50))
        print(f"{'an empty cell':24} {1000 * empty[25]:7.1f} ms")
        before = _processes(notebook.pid)
        for i in range(CELLS):
            notebook.run(f"%%distributed\nprint('x' * 10_000, {i}, rank)")
        after = _processes(notebook.pid)
        for pid in before.keys() & after.keys():
            name, mb, fds = before[pid]
            print(f"{name:40} {mb:7.0f} -> {after[pid][1]:7.0f} MB {fds:4} -> {after[pid][2]:4} descriptors")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
