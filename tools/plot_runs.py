#!/usr/bin/env python3
"""Draws what runs scored on held-out batches, over their updates, as one SVG: from the log.jsonl of their folders.

    tools/plot_runs.py "label=runs/NAME" … > picture.svg
"""

import json
import sys
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 300, 56, 190, 16, 44
COLOURS = ["#2563eb", "#d97706", "#059669", "#7c3aed", "#dc2626"]


def checks(folder):
    events = [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(e["updates"], e["accuracy"]) for e in events if e["event"] == "check"]


def smooth(points, span=3):
    """The mean of so many checks: a check has only a few batches."""
    values = [v for _, v in points]
    means = [sum(values[max(0, i - span + 1): i + 1]) / min(i + 1, span) for i in range(len(values))]
    return [(x, m) for (x, _), m in zip(points, means)]


def main():
    runs = [argument.rpartition("=")[::2] for argument in sys.argv[1:]]
    curves = [(label, smooth(checks(folder))) for label, folder in runs]
    last = max(x for _, points in curves for x, _ in points)
    low = 0.2  # below that nothing is learned

    def place(x, y):
        return LEFT + (WIDTH - LEFT - RIGHT) * x / last, TOP + (HEIGHT - TOP - BOTTOM) * (1 - (y - low) / (1 - low))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for y in (0.2, 0.4, 0.6, 0.8, 1.0):
        (a, b), (c, _) = place(0, y), place(last, y)
        out.append(f'<path d="M{a:.1f} {b:.1f}H{c:.1f}" stroke="#e5e7eb"/>'
                   f'<text x="{a - 8:.1f}" y="{b + 4:.1f}" text-anchor="end" fill="#555">{y:.1f}</text>')
    for x in range(0, last + 1, 400):
        a, b = place(x, low)
        out.append(f'<text x="{a:.1f}" y="{b + 18:.1f}" text-anchor="middle" fill="#555">{x}</text>')
    out.append(f'<text x="{place(last / 2, low)[0]:.1f}" y="{HEIGHT - 6}" text-anchor="middle" fill="#333">updates</text>')
    for i, (label, points) in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        line = "L".join("{:.1f} {:.1f}".format(*place(x, max(y, low))) for x, y in points)
        out.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = TOP + 14 + 22 * i
        out.append(f'<path d="M{WIDTH - RIGHT + 14} {y - 4}h18" stroke="{colour}" stroke-width="3"/>'
                   f'<text x="{WIDTH - RIGHT + 38}" y="{y}" fill="#222">{escape(label)}</text>')
    print("\n".join([*out, "</svg>"]))


if __name__ == "__main__":
    main()
