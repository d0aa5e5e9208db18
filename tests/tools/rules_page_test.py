#!/usr/bin/env python3
"""The page of `etrace rules MODEL --html`, in a real browser.

Checked: nothing overflows sideways at any width, text has contrast in both schemes, every plot has one point per row of
the JSON and numbers those on the frontier, no number covers another, the page asks for nothing and runs nothing, and a
hostile name stays text.

    ETRACE_CLI=build/bin/etrace python3 tests/tools/rules_page_test.py      exit code 77: no browser, skipped
    ETRACE_SCREENSHOTS=DIR also keeps pictures
"""


import browser as web

QUICK = ["--steps", "12", "--window", "1", "4", "--lags", "4", "--repeats", "1", "--seeds", "1"]


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
                report = self.reports[name]
                rows, best = report["rows"], sum(row["best"] for row in report["rows"])
                count = "return document.querySelectorAll(%s).length"
                self.assertEqual(self.browser.run(count % "'#rules tbody tr'"), len(rows))
                self.assertEqual(self.browser.run(count % "'#rules tr.best'"), best)
                self.assertEqual(self.browser.run(count % "'ol.best > li'"), best)
                self.assertGreaterEqual(best, 1)
                plots = self.browser.run(
                    "return [...document.querySelectorAll('svg.frontier')].map(s => ["
                    " s.querySelectorAll('.point').length, s.querySelectorAll('.point.best').length,"
                    " [...s.querySelectorAll('.number')].map(t => t.textContent)])"
                )
                self.assertEqual(len(plots), 4 if report["lags"] else 3)
                for points, marked, numbers in plots:
                    self.assertEqual([points, marked], [len(rows), best])
                    self.assertEqual(numbers, [str(i + 1) for i in range(best)])

    def test_numbers_of_the_frontier_cover_neither_each_other_nor_a_marked_point(self):
        for name, page in self.pages.items():
            for size in (web.DESKTOP, (400, 900)):
                with self.subTest(run=name, width=size[0]):
                    self.browser.open(page, size)
                    covered = self.browser.run(
                        "const meet = (a, b) => a.left + 1 < b.right && b.left + 1 < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;"
                        " const found = [];"
                        " for (const s of document.querySelectorAll('svg.frontier')) {"
                        "  const texts = [...s.querySelectorAll('.number')], points = [...s.querySelectorAll('.point.best')];"
                        "  const box = e => e.getBoundingClientRect();"
                        "  texts.forEach((t, i) => { for (const u of [...texts.slice(i + 1), ...points]) if (meet(box(t), box(u)))"
                        "   found.push(t.textContent + ' in ' + s.getAttribute('aria-label')); }); }"
                        " return found"
                    )
                    self.assertEqual(covered, [])

    def test_the_plots_can_be_read_on_a_narrow_screen(self):
        self.browser.open(self.pages["gru"], (400, 900))
        sizes = self.browser.run(
            "return [...document.querySelectorAll('svg.frontier text')].map(t => t.getBoundingClientRect().height)"
        )
        self.assertGreater(min(sizes), 9.0)

    def test_drawn_text_and_points_stay_in_the_plot(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                self.browser.open(page)
                outside = self.browser.run(
                    "return [...document.querySelectorAll('svg.frontier')].flatMap(s => { const b = s.getBoundingClientRect();"
                    " return [...s.querySelectorAll('text, circle, path')].filter(t => { const r = t.getBoundingClientRect();"
                    " return r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 1 || r.bottom > b.bottom + 1; })"
                    ".map(t => t.outerHTML); })"
                )
                self.assertEqual(outside, [])


if __name__ == "__main__":
    web.main()
