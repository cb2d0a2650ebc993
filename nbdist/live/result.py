"""What stays in the cell when a run is over: a picture and a table, and nothing that needs a kernel."""

from __future__ import annotations

import base64
import html

from . import picture, summary
from .store import Run

_SPACE = "&nbsp; &nbsp;"
"""Between the pictures; where the line breaks there, nothing of it is seen."""


def bundle(run: Run, title: str) -> dict[str, str]:
    """Return the result in every form a front end or a converter may want.

    In HTML the pictures are `<img>` with their data inside: these pass the sanitizers of notebooks that
    are not trusted, where inline SVG does not. There are two, so that a narrow page can stack them, or
    one or none, where there is no more to draw.
    """
    forms = {
        "text/html": (
            '<figure style="margin:0">'
            f'<figcaption style="margin-bottom:10px"><b>{html.escape(title)}</b>'
            f" &nbsp; {html.escape(summary.sentence(run))}</figcaption>"
            f"{_SPACE.join(_image(svg, about) for svg, about in picture.draw_apart(run))}"
            f"</figure>{summary.as_html(run)}"
        ),
        "text/plain": f"{title}\n{summary.as_text(run)}",
    }
    if svg := picture.draw(run):
        forms["image/svg+xml"] = svg
    return forms


def _image(svg: str, about: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(about, quote=True)}" src="data:image/svg+xml;base64,{data}">'
