"""Compare handing an array to the ranks: our shards and pushes, ipyparallel's scatter, and one memcpy.

    python -m benchmarks.transfer [--runs 3] [--ranks 4] [--megabytes 1000] [--out figures]

All hand the same array to the same ranks of one cluster, in turn. `read` goes on until every rank has also
summed what it was given, which is when mapped pages are first touched. `memcpy` is a copy into fresh memory
in the notebook's process. A bar is held against the best run's ratio. `--out NAME` writes NAME.md, NAME.json
and a picture.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .race import Times
from .report import Bar, Report, Row, tell

MEMCPY, OURS, THEIRS = "memcpy", "nbdist", "ipyparallel"
FASTER = (Bar(OURS, MEMCPY, 0.5), Bar(OURS, THEIRS, 4.0))


def compare(arguments: Sequence[str] | None = None) -> list[str]:
    """Measure; return a line for each bar that was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="bars are held against the best run")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--out", type=Path, help="write OUT.md, OUT.json and a picture")
    options = parser.parse_args(arguments)
    report = Report("transfer", options.out)
    scene = f"{options.megabytes} MB to {options.ranks} ranks"
    title = f"an array of {scene} on {os.cpu_count()} cores, median of {options.runs} runs"
    report.add(scene, title, measure(options.ranks, options.megabytes, options.runs), 1e3, "ms")
    return report.missed


def measure(ranks: int, megabytes: int, runs: int) -> list[Row]:
    """Let the contestants take turns."""
    import numpy as np

    from nbdist import Cluster
    from nbdist.data import cut
    from nbdist.freight import pack
    from nbdist.magics.travel import Consignment

    array = np.random.default_rng(0).random(megabytes * 125_000)

    with Cluster(ranks) as cluster:
        client = cluster._connected()
        view = client[:]

        def shard() -> None:
            shards = [cut(array, rank, ranks, copy=False) for rank in range(ranks)]
            hand("receive_shard", {rank: pack("x", part) for rank, part in enumerate(shards)})

        def push() -> None:
            hand("receive", dict.fromkeys(range(ranks), pack("x", array)))

        def hand(call: str, parcels: Any) -> None:
            consignment = Consignment(parcels)
            letters = consignment.letters(cluster)
            cluster.call_in_step(call, each={rank: ("x", letter) for rank, letter in letters.items()})

        def scatter() -> None:
            view.scatter("x", array, block=True)

        def scene(name: str, contestants: dict[str, Callable[[], object]], read: str, bars: Any) -> Row:
            times: list[Times] = []
            for _ in range(runs):
                run = {}
                for contestant, give in contestants.items():
                    began = time.perf_counter()
                    kept = give()
                    if read and contestant != MEMCPY:
                        cluster.run(read).join()
                    run[contestant] = time.perf_counter() - began
                    del kept
                    cluster.run("x = None").join()
                    client.purge_everything()
                times.append(run)
            return Row(name, times, bars)

        copy = {MEMCPY: array.copy}
        shards = {OURS: shard, THEIRS: scatter}
        read = "import numpy; numpy.sum(getattr(x, 'data', x) if hasattr(x, 'total') else x)"
        for give in (shard, push, scatter):
            give()  # loads what it needs
        return [
            scene("a share each", copy | shards, "", FASTER),
            scene("a share each, read", copy | shards, read, FASTER[1:]),
            scene("all of it to each", copy | {OURS: push}, "", FASTER[:1]),
        ]


if __name__ == "__main__":
    raise SystemExit(tell(compare()))
