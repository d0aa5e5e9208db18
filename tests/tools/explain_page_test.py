#!/usr/bin/env python3
"""The page of `etrace explain --html`, in a real browser.

Chromium (Debian's package) is driven over its debugging pipe: widths of a desktop and a phone, light and dark, print.
Checked: nothing overflows sideways, the drawing has every node of the JSON, links lead somewhere, filters and
highlighting work, text has contrast, the page asks for nothing from elsewhere and a hostile path stays text.

    ETRACE_CLI=build/bin/etrace python3 tests/tools/explain_page_test.py      exit code 77: no browser, skipped
    ETRACE_SCREENSHOTS=DIR also keeps pictures
"""

import base64
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

from browser import Balance, Browser, CHROMIUM, CONTRAST, DESKTOP, etrace, PHONE, REFERENCE, SKIPPED, TABLET

# A GRU, a network of spiking neurons, mixed paths, batches, and one with most kinds of exclusion.
MODELS = ["cell_GRUCell", "cell_LSTMCell_b3", "net_TwoLayerRNN", "struct_mixed_path", "struct_nontemporal_and_plain",
          "struct_one_weight_two_groups"]  # fmt: skip


class ExplainPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages = {}
        for name in MODELS:
            cls.pages[name] = Path(cls.folder.name) / f"{name}.html"
            etrace("explain", REFERENCE / f"{name}.json", "--html", cls.pages[name])
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def test_fits_every_width_in_both_schemes(self):
        pictures = os.environ.get("ETRACE_SCREENSHOTS")
        for name, page in self.pages.items():
            for size in (DESKTOP, TABLET, PHONE):
                for dark in (False, True):
                    with self.subTest(model=name, width=size[0], dark=dark):
                        self.browser.open(page, size, dark)
                        self.browser.run("for (const d of document.querySelectorAll('details')) d.open = true")
                        widths = "const e = document.documentElement; return [e.scrollWidth, innerWidth]"
                        scroll, inner = self.browser.run(widths)
                        self.assertEqual(inner, size[0])
                        self.assertLessEqual(scroll, inner)
                        cut = self.browser.run(
                            "return [...document.querySelectorAll('section *')].filter(e => !e.closest('svg, thead') && e.clientWidth"
                            " && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible')"
                            ".map(e => e.outerHTML.slice(0, 80))"
                        )
                        self.assertEqual(cut, [])
                        self.assertEqual(self.browser.run(CONTRAST), [])
                        if pictures:
                            kind = f"{name}-{size[0]}{'-dark' if dark else ''}.png"
                            self.browser.run("for (const d of document.querySelectorAll('details')) d.open = false")
                            self.browser.picture(Path(pictures) / kind)

    def test_drawings_have_every_node_and_edge_of_the_graph(self):
        for name, page in self.pages.items():
            graph = json.loads(etrace("explain", REFERENCE / f"{name}.json", "--json"))
            nodes = len(graph["weights"]) + len(graph["relations"]) + len(graph["hidden_groups"])
            paths = sum(len(r["connected"]) for r in graph["relations"])
            self.browser.open(page)
            for drawing in (".wide", ".narrow"):
                with self.subTest(model=name, drawing=drawing):
                    count = "return document.querySelectorAll('.drawing%s %s').length"
                    self.assertEqual(self.browser.run(count % (drawing, ".node")), nodes)
                    self.assertEqual(
                        self.browser.run(count % (drawing, ":is(.edge.direct, .edge.mixed, .edge.through)")), paths)
            self.assertEqual(self.browser.run("return document.querySelectorAll('.records li').length"),
                             len(graph["diagnostics"]))
            self.assertEqual(self.browser.run("return document.querySelectorAll('.program .etp').length"),
                             sum(e["etp"] for e in graph["program"]["equations"]))

    def test_text_of_the_drawing_stays_in_its_box(self):
        for name, page in self.pages.items():
            for size in (DESKTOP, PHONE):
                with self.subTest(model=name, width=size[0]):
                    self.browser.open(page, size)
                    outside = self.browser.run(
                        "return [...document.querySelectorAll('.drawing .node')].filter(n => n.getClientRects().length)"
                        ".flatMap(n => { const b = n.querySelector('.box').getBoundingClientRect();"
                        " return [...n.querySelectorAll('text:not(.why)')].filter(t => { const r = t.getBoundingClientRect();"
                        " return r.left < b.left || r.right > b.right; }).map(t => t.textContent); })"
                    )
                    self.assertEqual(outside, [])

    def test_links_lead_somewhere_and_nothing_is_loaded(self):
        for name, page in self.pages.items():
            with self.subTest(model=name):
                self.browser.open(page)
                lost = self.browser.run(
                    "return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
                    ".filter(h => !h.startsWith('#') || !document.getElementById(h.slice(1)))"
                )
                self.assertEqual(lost, [])
                self.assertEqual(self.browser.requests, [page.as_uri()])

    def test_pointing_at_a_node_shows_its_connections(self):
        self.browser.open(self.pages["cell_GRUCell"])
        shown = self.browser.run(
            "const n = document.querySelector('.drawing.wide [data-id=r0]'); n.focus();"
            "return [document.querySelector('.details').textContent, document.querySelectorAll('.drawing.wide .node.on').length]"
        )
        self.assertIn("etp_mv", shown[0])
        self.assertEqual(shown[1], 3)  # the operator, its weight, the group
        self.browser.run("document.activeElement.blur()")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.on').length"), 0)

    def test_details_of_a_tall_graph_stay_in_view(self):
        page = Path(self.folder.name) / "tall.html"
        etrace("explain", self.tall_model(24), "--html", page)
        for size in (DESKTOP, PHONE):
            with self.subTest(width=size[0]):
                self.browser.open(page, size)
                drawing = "[...document.querySelectorAll('.drawing')].find(d => d.getClientRects().length)"
                # At first the whole graph fits the window; in full size it is taller than that.
                heights = self.browser.run(
                    f"const d = {drawing}; const h = [d.getBoundingClientRect().height];"
                    "document.querySelector('#size-full').click(); h.push(d.getBoundingClientRect().height); return h"
                )
                self.assertLess(heights[0], size[1])
                self.assertGreater(heights[1], 2 * size[1])
                # Whatever node is looked at, its details are on the screen.
                seen = self.browser.run(
                    "document.documentElement.style.scrollBehavior = 'auto';"
                    f"return [...{drawing}.querySelectorAll('.node')].map(n => {{ n.scrollIntoView({{block: 'center'}}); n.focus({{preventScroll: true}});"
                    " const r = document.querySelector('.details').getBoundingClientRect();"
                    " return r.top >= 0 && r.bottom <= innerHeight && document.querySelector('.details').textContent.length > 0; })"
                )
                self.assertGreater(len(seen), 48)
                self.assertEqual(set(seen), {True})
        self.browser.open(self.pages["cell_GRUCell"])
        self.assertEqual(self.browser.run("return document.querySelectorAll('[name=size]').length"), 0)

    def tall_model(self, layers):
        """A file of many recurrent layers one above the other."""
        width = 3
        program = {"constvars": [], "consts": [], "invars": [], "eqns": [], "outvars": []}
        count = iter(range(10**6))
        var = lambda shape: {"id": next(count), "shape": shape, "dtype": "float32"}  # noqa: E731
        array = lambda shape: {"shape": shape, "dtype": "float32", "data": [0.1] * (shape[0] * (shape[1] if len(shape) > 1 else 1))}  # noqa: E731
        x = var([width])
        program["invars"].append(x)
        inputs, outputs = [{"role": "arg", "index": 0}], []
        for i in range(layers):
            w, h, y, new = var([width, width]), var([width]), var([width]), var([width])
            program["invars"] += [w, h]
            inputs += [
                {"role": "param", "path": [f"layer{i}", "W"], "leaf": 0, "leaf_key": [], "type": "ParamState", "init": array([width, width])},
                {"role": "hidden", "path": [f"layer{i}", "h"], "leaf": 0, "leaf_key": [], "type": "HiddenState", "init": array([width])},
            ]
            program["eqns"] += [
                {"prim": "etp_mv", "in": [x["id"], w["id"]], "out": [y], "params": {"has_bias": False}},
                {"prim": "add", "in": [h["id"], y["id"]], "out": [new], "params": {}},
            ]
            program["outvars"].append(new["id"])
            outputs.append({"role": "hidden", "path": [f"layer{i}", "h"], "leaf": 0})
            x = new
        program["outvars"].append(x["id"])
        outputs.append({"role": "out", "index": 0})
        model = {"format": "etrace.model", "version": 1, "name": "tall", "source": "test", "jaxpr": program,
                 "inputs": inputs, "outputs": outputs}
        path = Path(self.folder.name) / "tall.json"
        path.write_text(json.dumps(model), encoding="utf-8")
        return path

    def test_diagnostics_are_filtered_by_level(self):
        self.browser.open(self.pages["cell_GRUCell"])
        visible = "return [...document.querySelectorAll('.records li')].filter(e => e.offsetParent).map(e => e.className)"
        self.assertEqual(set(self.browser.run(visible)), {"info", "warning"})
        self.browser.run("document.querySelector('#show-info').click()")
        self.assertEqual(set(self.browser.run(visible)), {"warning"})

    def test_prints(self):
        self.browser.open(self.pages["net_TwoLayerRNN"], dark=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark"}
        self.browser.call("Emulation.setEmulatedMedia", media="print", features=[scheme])
        self.assertEqual(self.browser.run(CONTRAST), [])
        white = "return getComputedStyle(document.body).backgroundColor"
        self.assertEqual(self.browser.run(white), "rgb(255, 255, 255)")
        pdf = base64.b64decode(self.browser.call("Page.printToPDF")["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))

    def test_tags_are_balanced_and_ids_unique(self):
        for name, page in self.pages.items():
            with self.subTest(model=name):
                parser = Balance()
                parser.feed(page.read_text(encoding="utf-8"))
                self.assertEqual((parser.faults, parser.open), ([], []))
                self.assertEqual(len(parser.ids), len(set(parser.ids)))

    def test_a_hostile_and_a_long_path_are_harmless(self):
        text = (REFERENCE / "struct_nontemporal_and_plain.json").read_text(encoding="utf-8")
        model = json.loads(text)
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
        etrace("explain", source, "--html", page)
        for size in (DESKTOP, PHONE):
            self.browser.open(page, size)
            self.assertNotEqual(self.browser.run("return document.title"), "taken")
            self.assertEqual(self.browser.run("return document.querySelectorAll('script').length"), 1)
            self.assertEqual(self.browser.run("return document.querySelectorAll('img').length"), 0)
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), size[0])


if __name__ == "__main__":
    if CHROMIUM is None:
        print("skipped: chromium is not installed; ./dev setup installs it")
        sys.exit(SKIPPED)
    unittest.main()
