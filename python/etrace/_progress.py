"""Progress of long calls: a bar by tqdm where it is installed, plain lines on stderr otherwise."""

from __future__ import annotations

import contextlib
import sys
import time


class _Lines:
    """A line at most every two seconds, for terminals and logs without tqdm."""

    def __init__(self, total: int, what: str):
        self.total, self.what, self.last, self.n = total, what, time.monotonic(), 0

    def update(self, n: int) -> None:
        self.n += n
        now = time.monotonic()
        if now - self.last >= 2.0:
            self.last = now
            print(f"{self.what}: {self.n} of {self.total}", file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


def _bar(total: int, what: str):
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Lines(total, what)
    return tqdm(total=total, desc=what, unit="step")


_NOBODY = contextlib.nullcontext()


def shown(wanted, data, what: str):
    """A context that gives what is told the steps that were done; None where nobody wants to know."""
    if wanted is None or wanted is False:
        return _NOBODY
    shape = getattr(data[0], "shape", None) if data else None
    return Progress(wanted, int(shape[0]) if shape else 0, what)


class Progress:
    """Shows how many of `total` steps are done. As a function it is told the count since the call began."""

    def __init__(self, wanted, total: int, what: str):
        self.total, self.seen = total, 0
        self.function = wanted if callable(wanted) else None
        self.bar = _bar(total, what) if wanted and not self.function else None
        self.wanted = bool(wanted)

    def __call__(self, done: int) -> None:
        done = min(int(done), self.total)
        if self.function is not None:
            self.function(done, self.total)
        elif self.bar is not None:
            self.bar.update(done - self.seen)
        self.seen = done

    def __enter__(self):
        return self if self.wanted else None

    def __exit__(self, kind, error, trace):
        if not self.wanted:
            return
        if kind is None:
            self(self.total)
        if self.bar is not None:
            self.bar.close()
