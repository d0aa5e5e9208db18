"""What the tests of pages share: a browser that is driven over its debugging pipe, the balance of tags, the contrast of
text, the program that makes the pages, and what holds of each of them."""

import base64
import contextlib
import html.parser
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests" / "reference"
CLI = os.environ.get("ETRACE_CLI", str(ROOT / "build" / "bin" / "etrace"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SKIPPED = 77
DESKTOP, TABLET, PHONE = (1280, 900), (820, 1100), (390, 844)


class Browser:
    """Chromium without a window, spoken to in its DevTools protocol over a pair of pipes."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="etrace-chromium-")
        command_read, self.command = os.pipe()
        self.answers, answer_write = os.pipe()

        def connect():  # the browser reads commands on 3 and answers on 4
            for source, spare in ((command_read, 13), (answer_write, 14)):
                os.dup2(source, spare)
            os.dup2(13, 3)
            os.dup2(14, 4)

        arguments = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]  # fmt: skip
        self.process = subprocess.Popen(arguments, preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(command_read)
        os.close(answer_write)
        self.buffer, self.count, self.session, self.requests = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Network.enable")

    def close(self):
        with contextlib.suppress(Exception):
            self.session = None
            self.call("Browser.close")
        self.process.wait(timeout=30)
        os.close(self.command)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.answers, 1 << 16)
            if not piece:
                raise RuntimeError("chromium went away")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.command, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path, size=DESKTOP, dark=False):
        self.requests.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1,
                  mobile=size[0] < 500)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[scheme])
        self.call("Page.navigate", url=path if str(path).startswith("http:") else Path(path).as_uri())
        while self.receive().get("method") != "Page.loadEventFired":
            pass

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=f"(() => {{ {script} }})()", returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"script failed: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition):
        """Until the expression is true in the page, which is looked at whenever the page changes."""
        self.call("Runtime.evaluate", awaitPromise=True, expression=f"""new Promise(resolve => {{
            const look = () => {{ if ({condition}) {{ watch.disconnect(); resolve(); }} }};
            const watch = new MutationObserver(look);
            watch.observe(document, {{subtree: true, childList: true, characterData: true, attributes: true}});
            look(); }})""")

    def picture(self, path):
        area = self.run("const e = document.documentElement; return [e.scrollWidth, e.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": area[0], "height": area[1], "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        Path(path).write_bytes(base64.b64decode(data))


class Balance(html.parser.HTMLParser):
    """Every tag that is opened is closed, in order."""

    VOID = {"meta", "input", "br", "hr", "link", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")


def etrace(*arguments):
    return subprocess.run([CLI, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


CONTRAST = """
  const rgb = s => (s.match(/[\\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = c.map(x => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
                       return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
                        if (c.length === 3 || c[3] === 1) return c.slice(0, 3); } return [255, 255, 255]; };
  const bad = [];
  for (const e of document.querySelectorAll('p, h1, h2, h3, a, dt, dd, th, td, summary, code, label, .tag, .text, .sub')) {
    if (e.closest('svg') || !e.offsetParent || !e.textContent.trim()) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) bad.push(ratio.toFixed(2) + ' ' + e.outerHTML.slice(0, 80));
  }
  return bad;
"""


PROGRAMS = "return document.querySelectorAll('script:not([type])').length"


class PageTest(unittest.TestCase):
    """What holds of every page. A test of pages names the verb that makes them and its arguments for each, and goes on."""

    VERB = ""
    RUNS = {}  # name -> arguments
    SCRIPTS = 0  # of a page
    HOSTILE = "op_matmul_bias"  # a model whose names are replaced by hostile ones
    HOSTILE_ARGUMENTS = []

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages, cls.reports = {}, {}
        for name, arguments in cls.RUNS.items():
            cls.pages[name] = Path(cls.folder.name) / f"{name}.html"
            etrace(cls.VERB, *arguments, "--html", cls.pages[name])
            cls.reports[name] = json.loads(etrace(cls.VERB, *arguments, "--json"))
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
                        self.assertEqual(self.browser.run(CONTRAST), [])
                        if pictures:
                            kind = f"{self.VERB}-{name}-{size[0]}{'-dark' if dark else ''}.png"
                            self.browser.run("for (const d of document.querySelectorAll('details')) d.open = false")
                            self.browser.picture(Path(pictures) / kind)

    def test_links_lead_somewhere_and_nothing_is_loaded(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                self.browser.open(page)
                lost = self.browser.run(
                    "return [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
                    ".filter(h => !h.startsWith('#') || !document.getElementById(h.slice(1)))"
                )
                self.assertEqual(lost, [])
                self.assertEqual([r for r in self.browser.requests if not r.startswith("data:")], [page.as_uri()])
                self.assertEqual(self.browser.run(PROGRAMS), self.SCRIPTS)

    def test_tags_are_balanced_and_ids_unique(self):
        for name, page in self.pages.items():
            with self.subTest(run=name):
                parser = Balance()
                parser.feed(page.read_text(encoding="utf-8"))
                self.assertEqual((parser.faults, parser.open), ([], []))
                self.assertEqual(len(parser.ids), len(set(parser.ids)))

    def test_a_hostile_and_a_long_name_are_harmless(self):
        model = json.loads((REFERENCE / f"{self.HOSTILE}.json").read_text(encoding="utf-8"))
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
        etrace(self.VERB, source, "--html", page, *self.HOSTILE_ARGUMENTS)
        for size in (DESKTOP, PHONE):
            self.browser.open(page, size)
            self.assertNotEqual(self.browser.run("return document.title"), "taken")
            self.assertEqual(self.browser.run(PROGRAMS), self.SCRIPTS)
            self.assertEqual(self.browser.run("return document.querySelectorAll('img').length"), 0)
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), size[0])

    def test_prints_black_on_white(self):
        page = next(iter(self.pages.values()))
        self.browser.open(page, dark=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark"}
        self.browser.call("Emulation.setEmulatedMedia", media="print", features=[scheme])
        self.assertEqual(self.browser.run(CONTRAST), [])
        white = "return getComputedStyle(document.body).backgroundColor"
        self.assertEqual(self.browser.run(white), "rgb(255, 255, 255)")
        pdf = base64.b64decode(self.browser.call("Page.printToPDF")["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))


def main():
    if CHROMIUM is None:
        print("skipped: chromium is not installed; ./dev setup installs it")
        sys.exit(SKIPPED)
    unittest.main()
