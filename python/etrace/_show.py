"""How graphs and reports show themselves in a notebook: the library's own pages, in a frame."""

from __future__ import annotations

import html


def frame(page: str, height: int = 480) -> str:
    """A page that loads nothing, inside another one."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" style="width:100%;height:{height}px;'
        'border:1px solid #ccc" sandbox="allow-scripts"></iframe>'
    )


def preformatted(text: str, wrap: bool = False) -> str:
    """Text in columns. Pages of notebooks may show <pre> in a font of their own: it says which one it needs."""
    style = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;line-height:1.25;overflow-x:auto"
    style += ";white-space:pre-wrap" if wrap else ";white-space:pre"
    return f'<pre style="{html.escape(style, quote=True)}">{html.escape(text)}</pre>'
