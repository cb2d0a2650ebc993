"""What stays in the cell when a run is over: a picture and a table, and nothing that needs a kernel."""

from __future__ import annotations

import base64
import html

from . import picture, summary
from .store import Run


def bundle(run: Run, title: str) -> dict[str, str]:
    """Return the result in every form a front end or a converter may want.

    The picture is an `<img>` with its data inside: it passes the sanitizers of notebooks that are not
    trusted, where inline SVG does not.
    """
    svg = picture.draw(run)
    data = base64.b64encode(svg.encode()).decode()
    alt = html.escape(picture.describe(run), quote=True)
    return {
        "text/html": (
            f'<figure style="margin:0;max-width:{picture.WIDTH}px">'
            f"<figcaption><b>{html.escape(title)}</b></figcaption>"
            f'<img alt="{alt}" src="data:image/svg+xml;base64,{data}" style="width:100%;height:auto">'
            f"</figure>{summary.as_html(run)}"
        ),
        "image/svg+xml": svg,
        "text/plain": f"{title}\n{summary.as_text(run)}",
    }
