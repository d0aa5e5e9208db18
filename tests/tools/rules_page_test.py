#!/usr/bin/env python3
"""The page of `etrace rules MODEL --html`, in a real browser.

Checked: nothing overflows sideways at any width, text has contrast in both schemes, the plot has one point per row of
the JSON and numbers those on the frontier, the page asks for nothing and runs nothing, and a hostile name stays text.

    ETRACE_CLI=build/bin/etrace python3 tests/tools/rules_page_test.py      exit code 77: no browser, skipped
    ETRACE_SCREENSHOTS=DIR also keeps pictures
"""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

import browser as web

QUICK = ["--steps", "12", "--window", "1", "4", "--lags", "4", "--repeats", "1"]
# Many rules; everything exact; one row alone.
RUNS = {
    "gru": ["gru", *QUICK],
    "lru": [web.REFERENCE / "cell_LRUCell.json", "--window", "1", "4", "--repeats", "1"],
    "one": ["lif", "--rule", "d_rtrl", "--method", "single-step", "--steps", "8", "--scale", "3"],
}


class RulesPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages, cls.reports = {}, {}
        for name, arguments in RUNS.items():
            cls.pages[name] = Path(cls.folder.name) / f"{name}.html"
            web.etrace("rules", *arguments, "--html", cls.pages[name])
            cls.reports[name] = json.loads(web.etrace("rules", *arguments, "--json"))
        cls.browser = web.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def test_fits_every_width_in_both_schemes(self):
        pictures = os.environ.get("ETRACE_SCREENSHOTS")
        for name, page in self.pages.items():
            for size in (web.DESKTOP, web.TABLET, web.PHONE):
                for dark in (False, True):
                    with self.subTest(run=name, width=size[0], dark=dark):
                        self.browser.open(page, size, dark)
                        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), size[0])
                        self.assertEqual(self.browser.run(web.CONTRAST), [])
                        if pictures:
                            kind = f"rules-{name}-{size[0]}{'-dark' if dark else ''}.png"
                            self.browser.picture(Path(pictures) / kind)

    def test_a_point_and_a_line_per_row_and_the_frontier_by_number(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                self.browser.open(page)
                rows = self.reports[name]["rows"]
                count = "return document.querySelectorAll(%s).length"
                self.assertEqual(self.browser.run(count % "'.frontier .point'"), len(rows))
                self.assertEqual(self.browser.run(count % "'#rules tbody tr'"), len(rows))
                best = self.browser.run(count % "'.frontier .point.best'")
                self.assertEqual(self.browser.run(count % "'ol.best li'"), best)
                self.assertEqual(self.browser.run(count % "'#rules tr.best'"), best)
                self.assertGreaterEqual(best, 1)
                numbers = self.browser.run("return [...document.querySelectorAll('.frontier .number')].map(t => t.textContent)")
                self.assertEqual(numbers, [str(i + 1) for i in range(best)])

    def test_drawn_text_and_points_stay_in_the_plot(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                self.browser.open(page)
                outside = self.browser.run(
                    "const s = document.querySelector('svg.frontier'), b = s.getBoundingClientRect();"
                    " return [...s.querySelectorAll('text, circle, path')].filter(t => { const r = t.getBoundingClientRect();"
                    " return r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 1 || r.bottom > b.bottom + 1; })"
                    ".map(t => t.outerHTML)"
                )
                self.assertEqual(outside, [])

    def test_nothing_is_loaded_or_run_and_tags_are_balanced(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                self.browser.open(page)
                self.assertEqual(self.browser.requests, [page.as_uri()])
                self.assertEqual(self.browser.run("return document.querySelectorAll('script').length"), 0)
                parser = web.Balance()
                parser.feed(page.read_text(encoding="utf-8"))
                self.assertEqual((parser.faults, parser.open), ([], []))
                self.assertEqual(len(parser.ids), len(set(parser.ids)))

    def test_a_hostile_name_is_harmless(self):
        model = json.loads((web.REFERENCE / "op_matmul_bias.json").read_text(encoding="utf-8"))
        names = {}
        for record in model["inputs"] + model["outputs"]:
            if record.get("path"):
                key = tuple(map(str, record["path"]))
                names.setdefault(key, ["<script>document.title='taken'</script>", "\"'&amp;" + "very_long_name_" * 12 + str(len(names))])
                record["path"] = names[key]
        model["name"] = "<img src=x onerror=\"document.title='taken'\">"
        model.pop("expected", None)
        source = Path(self.folder.name) / "hostile.json"
        source.write_text(json.dumps(model), encoding="utf-8")
        page = source.with_suffix(".html")
        web.etrace("rules", source, "--html", page, *QUICK)
        for size in (web.DESKTOP, web.PHONE):
            self.browser.open(page, size)
            self.assertNotEqual(self.browser.run("return document.title"), "taken")
            self.assertEqual(self.browser.run("return document.querySelectorAll('script, img').length"), 0)
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), size[0])


if __name__ == "__main__":
    if web.CHROMIUM is None:
        print("skipped: chromium is not installed; ./dev setup installs it")
        sys.exit(web.SKIPPED)
    unittest.main()
