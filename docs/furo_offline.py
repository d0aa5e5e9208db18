"""Makes Debian's build of the Furo theme whole, after a site is built.

Its script is two files that only a bundler joins, its style sheet takes another from the root of a web server, and the
colours of a dark system are left out. Without this a page opened from a disk has no switch for light and dark.
"""

import re
from pathlib import Path

NORMALIZE = Path("/usr/share/javascript/normalize.css/normalize.css")
# What is missed most where that file is not installed.
LITTLE = "body { margin: 0; } main { display: block; } code, kbd, pre, samp { font-size: 1em; }\n"
DARK = re.compile(r'(?<=\n)  body\[data-theme="dark"\] \{(.*?)\}', re.DOTALL)


def join_scripts(folder: Path) -> None:
    furo, gumshoe = folder / "furo.js", folder / "gumshoe-patched.js"
    text = furo.read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    if first.startswith("import Gumshoe"):
        furo.write_text(gumshoe.read_text(encoding="utf-8") + rest, encoding="utf-8")


def complete_style(sheet: Path) -> None:
    text = sheet.read_text(encoding="utf-8")
    line = "@import url(/javascript/normalize.css/normalize.css);\n"
    if text.startswith(line):
        text = (NORMALIZE.read_text(encoding="utf-8") if NORMALIZE.is_file() else LITTLE) + text[len(line):]
    if "prefers-color-scheme" not in text:
        colours = DARK.search(text)[1]
        text += f'@media not print {{ @media (prefers-color-scheme: dark) {{ body:not([data-theme="light"]) {{{colours}}} }} }}\n'
    sheet.write_text(text, encoding="utf-8")


def finish(app, exception) -> None:
    if exception is None and app.builder.format == "html":
        join_scripts(Path(app.outdir) / "_static/scripts")
        complete_style(Path(app.outdir) / "_static/styles/furo.css")


def setup(app):
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
