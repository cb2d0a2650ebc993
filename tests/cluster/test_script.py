"""A cluster without a notebook."""

from __future__ import annotations

import pytest

import nbdist
from nbdist.errors import NbdistError, NoClusterError, RankError


@pytest.mark.timeout(120)
def test_a_script_runs_cells() -> None:
    with nbdist.Cluster(2) as cluster:
        assert [info.rank for info in cluster.ranks] == [0, 1]
        run = cluster.run("import torch\nt = torch.ones(1); dist.all_reduce(t); print(int(t))")
        run.join()
        said = {0: "", 1: ""}
        while not run.outputs.empty():
            output = run.outputs.get()
            said[output.rank] += output.content["text"]
        assert said == {0: "2\n", 1: "2\n"}
        with pytest.raises(RankError, match="rank 1: ValueError: no"):
            cluster.run("if rank == 1: raise ValueError('no')\ndist.barrier()").join()
        cluster.run("dist.barrier()").join()
        unfinished = cluster.run("import time; time.sleep(60)")
    with pytest.raises((RankError, NbdistError)):
        unfinished.join()
    with pytest.raises(NoClusterError, match="start"):
        cluster.run("1")
