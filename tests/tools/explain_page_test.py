#!/usr/bin/env python3
"""The page of `etrace explain --html`, in a real browser.

Chromium (Debian's package) is driven over its debugging pipe: widths of a desktop and a phone, light and dark, print.
Checked: nothing overflows sideways, the drawing has every node of the JSON, links lead somewhere, filters and
highlighting work, text has contrast, the page asks for nothing from elsewhere and a hostile path stays text.

    ETRACE_CLI=build/bin/etrace python3 tests/tools/explain_page_test.py      exit code 77: no browser, skipped
    ETRACE_SCREENSHOTS=DIR also keeps pictures
"""

import json
from pathlib import Path

import browser as web

# A GRU, a network of spiking neurons, mixed paths, batches, and one with most kinds of exclusion.
MODELS = ["cell_GRUCell", "cell_LSTMCell_b3", "net_TwoLayerRNN", "struct_mixed_path", "struct_nontemporal_and_plain",
          "struct_one_weight_two_groups"]  # fmt: skip


class ExplainPage(web.PageTest):
    VERB = "explain"
    RUNS = {name: [web.REFERENCE / f"{name}.json"] for name in MODELS}
    SCRIPTS = 1
    HOSTILE = "struct_nontemporal_and_plain"

    def test_drawings_have_every_node_and_edge_of_the_graph(self):
        for name, page in self.pages.items():
            graph = self.reports[name]
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
            for size in (web.DESKTOP, web.PHONE):
                with self.subTest(model=name, width=size[0]):
                    self.browser.open(page, size)
                    outside = self.browser.run(
                        "return [...document.querySelectorAll('.drawing .node')].filter(n => n.getClientRects().length)"
                        ".flatMap(n => { const b = n.querySelector('.box').getBoundingClientRect();"
                        " return [...n.querySelectorAll('text:not(.why)')].filter(t => { const r = t.getBoundingClientRect();"
                        " return r.left < b.left || r.right > b.right; }).map(t => t.textContent); })"
                    )
                    self.assertEqual(outside, [])

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
        web.etrace("explain", self.tall_model(24), "--html", page)
        for size in (web.DESKTOP, web.PHONE):
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


if __name__ == "__main__":
    web.main()
