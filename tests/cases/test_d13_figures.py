"""D13: figures, tables and last expressions from every rank, in rank order, none lost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..notebook import Notebook, Result

CELL = """\
%%distributed
import matplotlib.pyplot as plt, pandas as pd, torch.distributed as dist
from IPython.display import display, HTML
r = dist.get_rank()
plt.figure(); plt.plot([0, r]); plt.show()
display(HTML(f"<b>tail {r}</b>"))
pd.DataFrame({"rank": [r]})
"""


def _tagged(result: Result) -> Iterator[tuple[str, str]]:
    """Yield the tag above each figure or table, and what it says: a figure nothing."""
    tag = ""
    for _, kind, content in result.messages:
        if kind == "stream":
            tag = content["text"].splitlines()[-1]
        elif kind == "display_data":
            html = content["data"].get("text/html")
            said = re.findall(r"<td>(\d)</td>|tail (\d)", html) if html else [("figure", "")]
            assert html or content["data"]["image/png"]
            yield tag, "".join(said[0]) + ("tail" if "tail" in (html or "") else "")


def test_every_rank_shows_its_own_in_rank_order(notebook: Notebook) -> None:
    for _ in range(25):
        result = notebook.ok(CELL, timeout=100)
        shown = list(_tagged(result))
        assert len(shown) == 12
        figures = [tag for tag, said in shown if said == "figure"]
        tails = [(tag, said) for tag, said in shown if said.endswith("tail")]
        tables = [(tag, said) for tag, said in shown if said.isdecimal()]
        assert figures == [f"[{rank}]" for rank in range(4)]
        assert tails == [(f"[{rank}]", f"{rank}tail") for rank in range(4)]
        assert tables == [(f"[{rank}]", f"{rank}") for rank in range(4)]
        assert result.stderr == "", "no warning of many open figures"


def test_text_stays_before_the_figure_it_was_printed_before(notebook: Notebook) -> None:
    result = notebook.ok(
        "%%distributed --ranks 1\n"
        "from IPython.display import HTML, display\n"
        "for i in range(3): print('before', i); display(HTML(f'<b>{i}</b>'))"
    )
    order = "".join(
        content["data"]["text/html"] if kind == "display_data" else content["text"]
        for _, kind, content in result.messages
        if kind in ("display_data", "stream")
    )
    assert order == "".join(f"[1] before {i}\n[1]\n<b>{i}</b>" for i in range(3))


def test_a_display_is_updated_by_its_rank_also_from_a_later_cell(notebook: Notebook) -> None:
    first = notebook.ok(
        "%%distributed\n"
        "from IPython.display import display\n"
        "shown = display(f'first {rank}', display_id=True)\n"
        "for i in range(50): shown.update(f'state {i} of {rank}')"
    )
    assert [data["text/plain"] for data in first.displays] == [f"'state 49 of {rank}'" for rank in range(4)]
    identities = [
        content["transient"]["display_id"] for _, kind, content in first.messages if kind == "display_data"
    ]
    second = notebook.ok("%%distributed\nif rank == 2: shown.update('later')")
    updates = [content for _, kind, content in second.messages if kind == "update_display_data"]
    assert [update["transient"]["display_id"] for update in updates] == identities[2:3]


def test_clear_output_leaves_the_last_round(notebook: Notebook) -> None:
    result = notebook.ok(
        "%%distributed\n"
        "from IPython.display import clear_output\n"
        "for i in range(5): clear_output(wait=True); print(f'round {i} of {rank}')"
    )
    texts = sorted(data["text/plain"] for data in result.displays)
    assert texts == [f"[{rank}] round 4 of {rank}" for rank in range(4)]
    assert result.stdout == ""
