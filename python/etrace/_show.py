"""How graphs and reports show themselves in a notebook: the library's own pages, in a frame."""

from __future__ import annotations

import html


def frame(page: str, height: int = 480) -> str:
    """A page that loads nothing, inside another one."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" style="width:100%;height:{height}px;'
        'border:1px solid #ccc" sandbox="allow-scripts"></iframe>'
    )


def preformatted(text: str) -> str:
    return f'<pre style="line-height:1.25">{html.escape(text)}</pre>'
