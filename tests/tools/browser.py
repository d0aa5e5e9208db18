"""What the tests of pages share: a browser that is driven over its debugging pipe, the balance of tags, the contrast of
text, and the program that makes the pages."""

import base64
import contextlib
import html.parser
import json
import os
import shutil
import subprocess
import tempfile
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
        self.call("Page.navigate", url=Path(path).as_uri())
        while self.receive().get("method") != "Page.loadEventFired":
            pass

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=f"(() => {{ {script} }})()", returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"script failed: {result['exceptionDetails']}")
        return result["result"].get("value")

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
