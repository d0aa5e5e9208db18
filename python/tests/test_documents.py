"""Tutorials and the Python blocks of the documents are run, and what they print is compared."""

import contextlib
import importlib.util
import io
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "python/tutorials").glob("*.py"))
SUBJECTS = "first_model explain verify choosing_a_rule own_neuron own_operator own_rule real_time_loop units saving_and_resuming own_data"
PAGES = sorted((ROOT / "docs/tutorials").glob("*.md"))


def printed(run) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run()
    return out.getvalue()


def test_tutorials_are_these():
    assert [p.stem[3:] for p in TUTORIALS] == SUBJECTS.split()


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_tutorial(path):
    expected = re.search(r"^last line: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)[1]
    text = printed(lambda: runpy.run_path(str(path), run_name="__main__"))
    assert text.rstrip().splitlines()[-1] == expected, text
    said = next((output for page in PAGES for name, output in shown(page).items() if name == path.name), None)
    assert said, f"no page in docs/tutorials shows what {path.name} prints"
    assert check_readme().matches(said.rstrip().splitlines(), text.rstrip().splitlines()), text


def check_readme():
    spec = importlib.util.spec_from_file_location("check_readme", ROOT / "tools/check_readme.py")
    readme = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readme)
    return readme


def shown(page) -> dict:
    """What a page says the scripts in it print: `output=NAME.py`, or `output=NAME` for all languages."""
    found = list(check_readme().blocks(page.read_text(encoding="utf-8")))
    outputs = {options["output"]: body for _, _, options, body in found if "output" in options}
    scripts = [Path(options["file"]) for _, _, options, _ in found if options.get("file", "").endswith(".py")]
    return {s.name: outputs.get(s.name, outputs.get(s.stem)) for s in scripts}


def test_every_tutorial_is_on_a_page():
    assert sorted(name for page in PAGES for name in shown(page)) == [p.name for p in TUTORIALS]


def blocks():
    readme = check_readme()
    found = []
    for page in (ROOT / "README.md", ROOT / "docs/python.md", ROOT / "docs/training.md"):
        programs, outputs = {}, {}
        for line, language, options, body in readme.blocks(page.read_text(encoding="utf-8")):
            if language == "python" and "test" in options:
                programs[options["test"]] = (line, body)
            name = options.get("output", options.get("prints"))
            if name is not None:
                outputs[name] = body
        for name, (line, body) in programs.items():
            found.append(pytest.param(readme.matches, page, line, body, outputs.get(name), id=f"{page.stem}-{name}"))
    return found


@pytest.mark.parametrize("matches, page, line, body, expected", blocks())
def test_block_of_a_document(matches, page, line, body, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = compile("\n" * (line - 1) + body, str(page), "exec")
    text = printed(lambda: exec(code, {"__name__": "__main__"}))
    if expected is not None:
        assert matches(expected.rstrip().splitlines(), text.rstrip().splitlines()), text
