"""A cluster without a notebook."""

from __future__ import annotations

import pytest

import nbdist
from nbdist.errors import NoClusterError, RankError


@pytest.mark.timeout(120)
def test_a_script_runs_cells() -> None:
    with nbdist.Cluster(2) as cluster:
        assert [info.rank for info in cluster.ranks] == [0, 1]
        run = cluster.run("import torch\nt = torch.ones(1); dist.all_reduce(t); print(int(t))")
        run.join()
        texts = [run.outputs.get().content["text"] for _ in range(2)]
        assert texts == ["2\n", "2\n"]
        with pytest.raises(RankError, match="rank 1: ValueError: no"):
            cluster.run("if rank == 1: raise ValueError('no')\ndist.barrier()").join()
        cluster.run("dist.barrier()").join()
    with pytest.raises(NoClusterError, match="start"):
        cluster.run("1")
