#!/usr/bin/env python3
"""The page of a run, at its end and while it goes (`etrace train --live`), in a real browser.

Checked beside what holds of every page: the script draws what the page shows without it; smoothing, axes and the legend
act; the CSV has every point; pages stay small; a live page grows, and at the end becomes the page of the file.

    ETRACE_CLI=build/bin/etrace python3 tests/tools/run_page_test.py      exit code 77: no browser, skipped
    ETRACE_SCREENSHOTS=DIR also keeps pictures
"""

import subprocess
import tempfile
from pathlib import Path

import browser as web

TINY = ["--set", "lag=1", "--set", "symbols=1", "--set", "alphabet=2", "--batch", "4", "--check-every", "10"]


def stream(path, names=("a", "kind")):
    rows = [f"{i * 7919 % 101},{'up' if i * 7919 % 101 > 50 else 'down'}" for i in range(400)]
    path.write_text(",".join(names) + "\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


class RunPage(web.PageTest):
    VERB = "train"
    SCRIPTS = 1

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = Path(cls.folder.name)
        runs = {
            "gru": ["copying", *TINY, "--updates", "80"],
            "spiking": ["copying", *TINY, "--updates", "40", "--model", "lif", "--hidden", "16"],
            "bptt": ["copying", *TINY, "--updates", "20", "--rule", "bptt"],
            "stream": [stream(root / "s.csv"), "--stream", "--set", "window=20"],
        }
        for name, words in runs.items():
            web.etrace("train", *words, "--name", name, "--runs", root, "--backend", "interpreter")
        web.etrace("train", "copying", *TINY, "--updates", "40", "--compare", "d_rtrl,pp_prop", "--seeds", "2", "--name",
                   "compared", "--runs", root, "--backend", "interpreter")  # fmt: skip
        cls.pages = {name: root / name / "page.html" for name in [*runs, "compared"]}
        cls.browser = web.Browser()

    def test_a_hostile_and_a_long_name_are_harmless(self):
        root = Path(self.folder.name)
        hostile = "</script><img src=x onerror=document.title='taken'>" + "very_long_name_" * 12
        web.etrace("train", stream(root / "h.csv", (hostile, "kind")), "--stream", "--name", "h", "--runs", root)
        for size in (web.DESKTOP, web.PHONE):
            self.browser.open(root / "h" / "page.html", size)
            self.assertNotEqual(self.browser.run("return document.title"), "taken")
            self.assertEqual(self.browser.run(web.PROGRAMS), 1)
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), size[0])

    def test_what_each_page_shows(self):
        headings = "return [...document.querySelectorAll('h2')].map(h => h.textContent)"
        everywhere = ["Curves", "What was learned, and how", "Configuration", "How to reproduce"]
        for name, more in {
            "gru": ["Activity", "Weights", "Gradient beside BPTT's", "Beyond the defaults", "Trace memory", "Graph"],
            "spiking": ["Activity", "Spiking layers", "Weights", "Trace memory", "Graph"],
            "bptt": ["Activity", "Weights"],
            "stream": ["Beyond the defaults", "Trace memory", "Graph"],
        }.items():
            with self.subTest(run=name):
                self.browser.open(self.pages[name])
                self.assertLessEqual({*everywhere, *more}, set(self.browser.run(headings)))
                self.assertTrue(self.browser.run("return [...document.images].every(i => i.naturalWidth > 1)"))

    def test_pictures_show_the_spikes(self):
        """A pixel for each unit and step, full or clear."""
        self.browser.open(self.pages["spiking"])
        self.browser.run(
            "Promise.all([...document.images].map(i => i.decode())).then(() => { document.body.dataset.full ="
            " JSON.stringify([...document.querySelectorAll('.picture')].slice(0, 1).map(f => [...f.querySelectorAll('img')].map(i => {"
            " const c = new OffscreenCanvas(i.naturalWidth, i.naturalHeight).getContext('2d'); c.drawImage(i, 0, 0);"
            " const pixels = c.getImageData(0, 0, i.naturalWidth, i.naturalHeight).data, opacity = [...pixels].filter((x, k) => k % 4 === 3);"
            " return [i.naturalWidth, i.naturalHeight, [...new Set(opacity)].sort()]; }))[0]); })"
        )
        self.browser.wait("document.body.dataset.full")
        samples = web.json.loads(self.browser.run("return document.body.dataset.full"))
        self.assertEqual([s[:2] for s in samples], [[3, 16]] * 3)
        for _, _, opacities in samples:
            self.assertLessEqual(set(opacities), {0, 255})

    def test_pages_are_small(self):
        for name, page in self.pages.items():
            self.assertLess(page.stat().st_size, 500_000, name)

    def test_the_script_draws_what_stood_there(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                self.browser.open(page)
                lines = "return [...document.querySelectorAll('figure.curves > svg')].map(s => [...s.querySelectorAll('.line')].map(p => p.getAttribute('d')))"
                drawn = self.browser.run(lines)
                source = "return [...new DOMParser().parseFromString(%s, 'text/html').querySelectorAll('figure.curves > svg')].map(s => [...s.querySelectorAll('.line')].map(p => p.getAttribute('d')))"
                still = self.browser.run(source % web.json.dumps(page.read_text(encoding="utf-8")))
                self.assertEqual([len(p) for p in drawn], [len(p) for p in still])
                for a, b in zip(sum(drawn, []), sum(still, [])):
                    pairs = [[float(x) for x in p.replace("M", " ").replace("L", " ").split()] for p in (a, b)]
                    self.assertEqual(len(pairs[0]), len(pairs[1]))
                    for x, y in zip(*pairs):
                        self.assertAlmostEqual(x, y, delta=1.0)

    def test_tools_act(self):
        self.browser.open(self.pages["gru"])
        line = "document.querySelector('figure.curves .line.c0').getAttribute('d')"
        act = "const t = document.querySelector('.tools'), before = %s; %%s; return [before, %s]" % (line, line)
        for what in (
            "t.elements.smooth.value = 0; t.dispatchEvent(new Event('input'))",
            "t.elements.along.value = 2; t.dispatchEvent(new Event('input'))",
            "document.querySelector('.log input').click()",
        ):
            before, after = self.browser.run(act % what)
            self.assertNotEqual(before, after, what)
        hidden = self.browser.run(
            "const b = document.querySelector('.key button'); b.click();"
            " return [b.ariaPressed, document.querySelectorAll('figure.curves')[0].querySelectorAll('.line.c0').length]"
        )
        self.assertEqual(hidden, ["false", 1])  # that of the legend alone

    def test_csv_has_every_point(self):
        self.browser.open(self.pages["gru"])
        self.browser.run("URL.createObjectURL = blob => { window.saved = blob; return '#'; }; HTMLAnchorElement.prototype.click = () => {};"
                         " document.querySelector('.tools [name=csv]').click()")  # fmt: skip
        self.browser.wait("(saved.text().then(t => document.body.dataset.csv = t), document.body.dataset.csv)")
        lines = self.browser.run("return document.body.dataset.csv").splitlines()
        self.assertEqual(lines[0], "plot,curve,x,value,seconds,batches")
        self.assertEqual(sum(row.startswith('"Loss","training",') for row in lines), 80)
        self.assertEqual(sum(row.startswith('"Accuracy","held out",') for row in lines), 8)

    def test_values_stand_under_the_pointer(self):
        self.browser.open(self.pages["gru"])
        box = self.browser.run("const b = document.querySelector('figure.curves > svg').getBoundingClientRect(); return [b.left, b.top]")
        self.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + 400, y=box[1] + 100)
        self.browser.wait("document.querySelector('figure.curves .key output').textContent.includes(' at ')")

    def test_a_live_page_grows_and_becomes_the_page_of_the_file(self):
        root = Path(self.folder.name)
        words = ["train", "copying", *TINY, "--updates", "100000000", "--name", "live", "--runs", root, "--live",
                 "--backend", "interpreter"]  # fmt: skip
        run = subprocess.Popen([web.CLI, *map(str, words)], stdout=subprocess.PIPE, text=True)
        try:
            address = next(line for line in run.stdout if line.startswith("live ")).split()[1]
            self.browser.open(address, dark=True)
            self.browser.wait("document.querySelector('.live').textContent === 'live'")
            self.browser.wait("document.querySelector('figure.curves').plot.curves[0].points.length > 100")
            self.browser.wait("document.querySelector('figure.curves .line.c0').getAttribute('d').length > 100")
            self.assertIn("updates of 100000000", self.browser.run("return document.querySelector('.tiles').textContent"))
            self.assertTrue(all(r.startswith((address, "data:")) or "favicon" in r for r in self.browser.requests))
            if web.os.environ.get("ETRACE_SCREENSHOTS"):
                self.browser.picture(Path(web.os.environ["ETRACE_SCREENSHOTS"]) / "train-live-dark.png")
            run.terminate()
            self.browser.wait("document.querySelector('.live').textContent === 'ended'")
            self.assertIn("stopped after", self.browser.run("return document.querySelector('.lead').textContent"))
        finally:
            run.kill()
            run.communicate()


if __name__ == "__main__":
    web.main()
