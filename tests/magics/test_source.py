"""A cell is read before it runs."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nbdist.errors import CellSyntaxError
from nbdist.magics.source import assigned_names


@pytest.fixture(scope="module")
def shell() -> InteractiveShell:
    return InteractiveShell.instance()


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("a = b = 1", {"a", "b"}),
        ("(a, [b, *c]) = d", {"a", "b", "c"}),
        ("a: int = 1\nb += 1", {"a", "b"}),
        ("import os.path, numpy as np\nfrom x import y as z", {"os", "np", "z"}),
        ("for i in range(3):\n    if i:\n        j = i", {"i", "j"}),
        ("with open('f') as f:\n    pass", {"f"}),
        ("def f():\n    inner = 1\nclass C:\n    attribute = 1", {"f", "C"}),
        ("[x for x in y]\nlambda z: z\n(w := 1)", {"w"}),
        ("net.weight = 1\nd['k'] = 2", set()),
        ("out = !ls\n%time q = 1", {"out", "q"}),
        ("%%time\nm = 1", {"m"}),
        ("%prun -l 5 f()", set()),
        ("%%bash\nm=1", set()),
        ("await thing()", set()),
        (
            "match v:\n    case {'a': a, **rest}: pass\n    case [b, *c] as d: pass",
            {"a", "rest", "b", "c", "d"},
        ),
        ("from m import *", set()),
        ("", set()),
        ("# only a comment", set()),
    ],
)
def test_assigned_names(shell: InteractiveShell, cell: str, names: set[str]) -> None:
    assert assigned_names(shell, cell) == names


@pytest.mark.parametrize(
    "cell", ["for in x: pass", "def f(:\n  1", "return 1", "x = (", "'open", "%%time\nx = ("]
)
def test_a_mistake_shows_its_line(shell: InteractiveShell, cell: str) -> None:
    with pytest.raises(CellSyntaxError) as caught:
        assigned_names(shell, cell)
    assert "SyntaxError" in caught.value._render_traceback_()[-1]
