"""The site: `./dev docs` builds it into build/docs. Sphinx, MyST and Furo of Debian; nothing is loaded from the network."""

from pathlib import Path

project = "etrace"
author = "the etrace authors"
release = version = (Path(__file__).parent.parent / "VERSION").read_text().strip()

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_inline_tabs"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# Links to sources, headers and examples leave the site on purpose.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
nitpicky = True

html_theme = "furo"
html_title = f"etrace {version}"
html_static_path = ["_static"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = "$ "
html_show_copyright = False
