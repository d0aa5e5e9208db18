"""What pages of docs/ show of Python is what comes out: lines `>>>` in blocks ```python."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(p.name for p in DOCS.glob("*.md") if ">>> " in p.read_text())


@pytest.mark.parametrize("page", PAGES)
def test_page(page):
    text = (DOCS / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    shown = []
    runner.run(test, out=shown.append)
    assert runner.failures == 0, "".join(shown)
    assert runner.tries > 0


def test_there_is_a_page():
    assert "python-arrays.md" in PAGES
