#!/usr/bin/env python3
"""The page of `etrace verify --html`, in a real browser.

Checked: nothing overflows sideways at any width, text has contrast in both schemes, every parameter of the JSON has its
plots with one point per window and lag, links lead somewhere, the page asks for nothing and runs nothing, and a hostile
name stays text.

    ETRACE_CLI=build/bin/etrace python3 tests/tools/verify_page_test.py      exit code 77: no browser, skipped
    ETRACE_SCREENSHOTS=DIR also keeps pictures
"""

import math
import re

import browser as web


class VerifyPage(web.PageTest):
    VERB = "verify"
    # Exact throughout; approximate; several groups; spikes with long names of windows; a batch.
    RUNS = {
        "lru": [web.REFERENCE / "cell_LRUCell.json"],
        "gru": ["gru"],
        "two_layers": ["two_layer_gru", "--rule", "pp_prop", "--decay", "0.9"],
        "spiking": ["lif", "--scale", "3", "--steps", "40", "--window", "1", "2", "3", "4", "5", "8", "13", "40"],
        "batch": ["mini_gru", "--batch", "3", "--rtrl", "--finite-differences"],
    }

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


if __name__ == "__main__":
    web.main()
