"""A cell is brought into IPython's form."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nbdist.errors import UsageError
from nbdist.magics import extension, options
from nbdist.magics.spelling import Spelling


@pytest.mark.parametrize(
    ("cell", "read"),
    [
        ("%%rank[0,2]\nx", "%%rank [0,2]\nx"),
        ("# why\n\n%%distributed --ranks 0\nx", "%%distributed --ranks 0\n# why\n\nx"),
        ("# why\n%%rank[0]", "%%rank [0]\n# why\n"),
        ("%%ranking[0]\nx", "%%ranking[0]\nx"),
        ("x = '''\n%%rank[0]\n'''", "x = '''\n%%rank[0]\n'''"),
        ("# only\n", "# only\n"),
        ("", ""),
    ],
)
def test_spellings(cell: str, read: str) -> None:
    assert "".join(Spelling(None).rewrite(cell.splitlines(keepends=True))) == read


@pytest.mark.parametrize(
    ("line", "ranks"), [("0", "0"), ("[0, 2]", "0,2"), ("0,2-3 --model m", "0,2-3"), ("[1] --no-wait", "1")]
)
def test_ranks_of_a_rank_cell(line: str, ranks: str) -> None:
    assert options.parse_rank_cell(line).ranks == ranks


@pytest.mark.parametrize("line", ["", "x", "--model m", "[0"])
def test_a_rank_cell_needs_ranks(line: str) -> None:
    with pytest.raises(UsageError, match=r"write %%rank 0 or %%rank \[0,2\]"):
        options.parse_rank_cell(line)


def test_another_extension_of_that_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell()

    class Theirs:
        __module__ = "nbdistributed.magic"

        def distributed(self, line: str, cell: str) -> None:
            pass

    shell.magics_manager.magics["cell"]["distributed"] = Theirs().distributed
    extension.load(shell)
    assert "`%reload_ext nbdistributed` give them back" in capsys.readouterr().out
    assert extension.taken_by(shell) == ""
    extension.unload(shell)
