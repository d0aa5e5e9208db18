#!/usr/bin/env python3
"""The page of `etrace verify --html`, in a real browser.

Checked: nothing overflows sideways at any width, text has contrast in both schemes, every parameter of the JSON has its
plots with one point per window and lag, links lead somewhere, the page asks for nothing and runs nothing, and a hostile
name stays text.

    ETRACE_CLI=build/bin/etrace python3 tests/tools/verify_page_test.py      exit code 77: no browser, skipped
    ETRACE_SCREENSHOTS=DIR also keeps pictures
"""

import json
import math
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

import browser as web

# Exact throughout; approximate; several groups; spikes with long names of windows; a batch.
RUNS = {
    "lru": [web.REFERENCE / "cell_LRUCell.json"],
    "gru": ["gru"],
    "two_layers": ["two_layer_gru", "--rule", "pp_prop", "--decay", "0.9"],
    "spiking": ["lif", "--scale", "3", "--steps", "40", "--window", "1", "2", "3", "4", "5", "8", "13", "40"],
    "batch": ["mini_gru", "--batch", "3", "--rtrl", "--finite-differences"],
}


class VerifyPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages, cls.reports = {}, {}
        for name, arguments in RUNS.items():
            cls.pages[name] = Path(cls.folder.name) / f"{name}.html"
            web.etrace("verify", *arguments, "--html", cls.pages[name])
            cls.reports[name] = json.loads(web.etrace("verify", *arguments, "--json"))
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
                        self.browser.run("for (const d of document.querySelectorAll('details')) d.open = true")
                        widths = "const e = document.documentElement; return [e.scrollWidth, innerWidth]"
                        scroll, inner = self.browser.run(widths)
                        self.assertEqual(inner, size[0])
                        self.assertLessEqual(scroll, inner)
                        cut = self.browser.run(
                            "return [...document.querySelectorAll('section *')].filter(e => !e.closest('svg, thead')"
                            " && e.clientWidth && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible')"
                            ".map(e => e.outerHTML.slice(0, 80))"
                        )
                        self.assertEqual(cut, [])
                        self.assertEqual(self.browser.run(web.CONTRAST), [])
                        if pictures:
                            kind = f"verify-{name}-{size[0]}{'-dark' if dark else ''}.png"
                            self.browser.run("for (const d of document.querySelectorAll('details')) d.open = false")
                            self.browser.picture(Path(pictures) / kind)

    def test_plots_have_a_point_per_window_and_lag(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                self.browser.open(page)
                cards = self.browser.run(
                    "return [...document.querySelectorAll('.parameters article')].map(a => ({"
                    " name: a.querySelector('h3').firstChild.textContent.trim(),"
                    " plots: [...a.querySelectorAll('svg[role=img]')].map(s => s.querySelectorAll('.point').length),"
                    " rows: a.querySelectorAll('tbody tr').length }))"
                )
                parameters = self.reports[name]["parameters"]
                self.assertEqual([c["name"] for c in cards], [p["parameter"] for p in parameters])
                for card, parameter in zip(cards, parameters):
                    self.assertEqual(card["rows"], len(parameter["measures"]))
                    self.assertEqual(card["plots"], [len(parameter["measures"]), 2 * len(parameter["credit"])])

    def test_every_point_stands_where_its_number_is(self):
        """The axis is read back from its labels; zero has a place of its own, below all of them."""
        for name, page in self.pages.items():
            with self.subTest(run=name):
                self.browser.open(page)
                plots = self.browser.run(
                    "return [...document.querySelectorAll('svg[role=img]')].map(s => ({"
                    " labels: [...s.querySelectorAll('.grid')].map(g => [g.nextSibling.textContent, g.getBBox().y]),"
                    " points: [...s.querySelectorAll('.point')].map(p => [p.querySelector('title').textContent, +p.getAttribute('cy')]),"
                    " height: s.viewBox.baseVal.height }))"
                )
                below, compared = ("0", "≈0", "exact"), 0
                for plot in plots:
                    axis = sorted((float(t), y) for t, y in plot["labels"] if t not in below)
                    self.assertGreaterEqual(len(axis), 2)
                    floor = [y for t, y in plot["labels"] if t in below]
                    (low, y0), (high, y1) = axis[0], axis[-1]
                    for title, y in plot["points"]:
                        value = float(re.search(r"([-+.0-9e]+|inf)(, |$)", title).group(1))
                        if value == 0 or [y] == floor:
                            self.assertEqual([y], floor, title)
                            self.assertLess(value, low, title)
                            continue
                        expected = y0 + (y1 - y0) * math.log(value / low) / math.log(high / low)
                        self.assertAlmostEqual(y, expected, delta=3, msg=title)  # titles have two digits
                        compared += 1
                self.assertGreater(compared, 0)

    def test_plots_of_credit_use_their_height(self):
        self.browser.open(self.pages["gru"])
        used = self.browser.run(
            "return [...document.querySelectorAll('svg[role=img]')].filter(s => s.querySelector('.bptt')).map(s => {"
            " const ys = [...s.querySelectorAll('.point')].map(p => +p.getAttribute('cy'));"
            " return (Math.max(...ys) - Math.min(...ys)) / s.viewBox.baseVal.height; })"
        )
        self.assertGreater(min(used), 0.4)

    def test_reasons_are_said_once(self):
        self.browser.open(self.pages["two_layers"])
        texts = self.browser.run("return [...document.querySelectorAll('.reasons li')].map(e => e.textContent)")
        self.assertEqual(len(texts), len(set(texts)))
        expected = {r["text"] for r in self.reports["two_layers"]["reasons"]}
        self.assertEqual({t for t in texts if any(e in t for e in expected)}, set(texts))
        cards = self.browser.run("return document.querySelector('.parameters').textContent")
        for text in expected:
            self.assertNotIn(text, cards)

    def test_drawn_text_and_points_stay_in_their_plots(self):
        for name, page in self.pages.items():
            for size in (web.DESKTOP, web.PHONE):
                with self.subTest(run=name, width=size[0]):
                    self.browser.open(page, size)
                    outside = self.browser.run(
                        "return [...document.querySelectorAll('svg[role=img]')].flatMap(s => { const b = s.getBoundingClientRect();"
                        " return [...s.querySelectorAll('text, circle, path')].filter(t => { const r = t.getBoundingClientRect();"
                        " return r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 1 || r.bottom > b.bottom + 1; })"
                        ".map(t => t.outerHTML); })"
                    )
                    self.assertEqual(outside, [])
                    smallest = self.browser.run(
                        "return Math.min(...[...document.querySelectorAll('svg[role=img] text')].map(t => t.getBoundingClientRect().height))"
                    )
                    self.assertGreater(smallest, 9)

    def test_links_lead_somewhere_and_nothing_is_loaded_or_run(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                self.browser.open(page)
                lost = self.browser.run(
                    "return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
                    ".filter(h => !h.startsWith('#') || !document.getElementById(h.slice(1)))"
                )
                self.assertEqual(lost, [])
                self.assertEqual(self.browser.requests, [page.as_uri()])
                self.assertEqual(self.browser.run("return document.querySelectorAll('script').length"), 0)

    def test_tags_are_balanced_and_ids_unique(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                parser = web.Balance()
                parser.feed(page.read_text(encoding="utf-8"))
                self.assertEqual((parser.faults, parser.open), ([], []))
                self.assertEqual(len(parser.ids), len(set(parser.ids)))

    def test_a_hostile_and_a_long_name_are_harmless(self):
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
        web.etrace("verify", source, "--html", page)
        for size in (web.DESKTOP, web.PHONE):
            self.browser.open(page, size)
            self.assertNotEqual(self.browser.run("return document.title"), "taken")
            self.assertEqual(self.browser.run("return document.querySelectorAll('script, img').length"), 0)
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), size[0])

    def test_prints(self):
        self.browser.open(self.pages["gru"], dark=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark"}
        self.browser.call("Emulation.setEmulatedMedia", media="print", features=[scheme])
        self.assertEqual(self.browser.run(web.CONTRAST), [])
        white = "return getComputedStyle(document.body).backgroundColor"
        self.assertEqual(self.browser.run(white), "rgb(255, 255, 255)")


if __name__ == "__main__":
    if web.CHROMIUM is None:
        print("skipped: chromium is not installed; ./dev setup installs it")
        sys.exit(web.SKIPPED)
    unittest.main()
