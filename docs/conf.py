"""The site: `./dev docs` builds it into build/docs. Sphinx, MyST and Furo of Debian; nothing is loaded from the network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
project = "etrace"
author = "the etrace authors"
release = version = (Path(__file__).parent.parent / "VERSION").read_text().strip()

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_inline_tabs", "breathe", "furo_offline"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# ref.ref: Breathe names classes that have no entry of their own.
suppress_warnings = ["myst.header", "misc.highlighting_failure", "ref.ref"]
nitpicky = True
# Types of the standard library, and private ones, have no page.
nitpick_ignore_regex = [("cpp:.*", ".*"), ("py:.*", ".*")]

# The C++ interface: `./dev docs` runs Doxygen on the headers first (docs/api/Doxyfile).
breathe_projects = {"etrace": "../build/doxygen/xml"}
breathe_default_project = "etrace"

html_theme = "furo"
pygments_dark_style = "one-dark"
html_title = f"etrace {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = "$ "
html_show_copyright = False
