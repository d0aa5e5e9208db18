#!/usr/bin/env python3
"""The page of `etrace rules MODEL --html`, in a real browser.

Checked: nothing overflows sideways at any width, text has contrast in both schemes, the plot has one point per row of
the JSON and numbers those on the frontier, the page asks for nothing and runs nothing, and a hostile name stays text.

    ETRACE_CLI=build/bin/etrace python3 tests/tools/rules_page_test.py      exit code 77: no browser, skipped
    ETRACE_SCREENSHOTS=DIR also keeps pictures
"""


import browser as web

QUICK = ["--steps", "12", "--window", "1", "4", "--lags", "4", "--repeats", "1"]


class RulesPage(web.PageTest):
    VERB = "rules"
    # Many rules; everything exact; one row alone.
    RUNS = {
        "gru": ["gru", *QUICK],
        "lru": [web.REFERENCE / "cell_LRUCell.json", "--window", "1", "4", "--repeats", "1"],
        "one": ["lif", "--rule", "d_rtrl", "--method", "single-step", "--steps", "8", "--scale", "3"],
    }
    HOSTILE_ARGUMENTS = QUICK

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


if __name__ == "__main__":
    web.main()
