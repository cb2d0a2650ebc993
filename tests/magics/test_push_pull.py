"""`%nbdist push` and `%nbdist pull`: values as they are, to all ranks and back."""

from __future__ import annotations

import ast

from ..notebook import Notebook


def test_pushed_values_are_every_ranks_own(notebook: Notebook) -> None:
    notebook.ok("import numpy as np\nbig = np.arange(1_000_000); rate = 0.1; triple = lambda x: 3 * x")
    assert notebook.ok("%nbdist push big rate triple").stdout == ""
    notebook.ok("big[:] = 0")
    notebook.ok(
        "%%distributed\nassert big.sum() == 499999500000 and triple(rate) == 3 * 0.1\n"
        "big += rank; dist.barrier(); assert big[0] == rank"
    )


def test_a_pull_is_rank_0s_or_another_or_all(notebook: Notebook) -> None:
    notebook.ok("%%distributed\nimport numpy as np\nmine = np.full(1_000_000, rank)")
    assert notebook.ok("%nbdist pull mine\nprint(mine.shape, mine[-1])").stdout == "(1000000,) 0\n"
    assert notebook.ok("%nbdist pull mine --rank 2\nmine += 1\nprint(mine[0])").stdout == "3\n"
    said = notebook.ok("every = %nbdist pull mine --all\nprint([int(x[0]) for x in every])").stdout
    assert ast.literal_eval(said) == [0, 1, 2, 3]
    notebook.ok("%%distributed\nassert mine[0] == rank")


def test_a_model_is_pulled_plain_and_stays_the_ranks_own(notebook: Notebook) -> None:
    notebook.ok(
        "import torch\nscale = 2\nclass Net(torch.nn.Linear):\n"
        "    def forward(self, x): return super().forward(x) * scale\n"
        "net = Net(600, 600)"
    )
    notebook.ok("%%distributed --model net\nimport torch\nwith torch.no_grad(): net.weight.fill_(rank + 1.0)")
    notebook.ok("%nbdist pull net --rank 1")
    notebook.ok(
        "assert isinstance(net, Net) and net.weight.device.type == 'cpu' and net.weight.is_leaf\n"
        "assert net.weight[0, 0] == 2 and not net.weight._post_accumulate_grad_hooks"
    )
    notebook.ok(
        "before = net(torch.ones(1, 600)); scale = 4\n"
        "assert torch.allclose(net(torch.ones(1, 600)), 2 * before), 'the class reads its notebook still'"
    )
    # The ranks' own, which an optimizer of theirs may hold, is not replaced by what was pulled.
    notebook.ok("%%distributed\nheld = net.weight")
    notebook.ok("%%distributed --model net\nassert net.weight is held")


def test_what_cannot_be_had_is_told(notebook: Notebook) -> None:
    for line, told in [
        ("push nowhere", "There is no nowhere in the notebook; define it first."),
        ("pull nowhere", "There is no nowhere on rank 0; define it in a %%distributed cell."),
        ("pull nowhere --all", "There is no nowhere on rank 0-3; define it in a %%distributed cell."),
        ("pull rank --rank 4", "--rank 4: the cluster has ranks 0 to 3."),
        ("push", "%nbdist push: needs a name; it takes names of the notebook."),
        (
            "pull rank --rank x",
            "%nbdist pull: --rank: 'x' is no rank; it takes one name and --rank R or --all.",
        ),
    ]:
        result = notebook.run(f"%nbdist {line}")
        assert (result.status, result.evalue) == ("error", told)
    notebook.ok("%%distributed\nimport threading\nstate = {'lock': threading.Lock()}")
    result = notebook.run("%nbdist pull state")
    assert result.evalue.startswith("state['lock'] is a lock and cannot travel to the notebook")
    assert result.ename == "TravelError"


def test_a_rank_holds_its_share_of_a_large_array_and_nothing_else(notebook: Notebook) -> None:
    notebook.ok("import torch\nrows = torch.arange(1_000_000)")
    look = (
        "%%distributed --shard rows\n"
        "own = rows.data\n"
        "assert own.untyped_storage().nbytes() == 2_000_000 and own[0] == {first} + 250_000 * rank\n"
        "mapped = own.data_ptr()"
    )
    notebook.ok(look.format(first=0))
    notebook.ok("%%distributed --shard rows\nassert rows.data.data_ptr() == mapped, 'sent again'")
    notebook.ok("rows += 5")
    assert notebook.ok(look.format(first=5)).stdout.startswith("rows has changed in the notebook")


def test_a_stream_written_in_the_notebook_is_split(notebook: Notebook) -> None:
    notebook.ok(
        "from torch.utils.data import IterableDataset\nclass Lines(IterableDataset):\n"
        "    def __iter__(self): return iter(range(10))\n"
        "lines = Lines()"
    )
    said = notebook.ok(
        "%%distributed --shard lines\nparts = [None] * size\n"
        "dist.all_gather_object(parts, [int(x) for b in lines.loader(2, num_workers=1) for x in b])\n"
        "if rank == 0: print(sorted(sum(parts, [])) == list(range(10)), [len(p) for p in parts])"
    ).stdout
    assert said.endswith(" True [3, 3, 2, 2]\n")
