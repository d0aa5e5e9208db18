"""Losses and step functions: Python callables that are recorded once.

A callable is known again by its identity, for as long as it lives: nothing here keeps it alive, unless it cannot be
weakly referenced. What it reads from outside is read when it is recorded.
"""

from __future__ import annotations

import types
import warnings
import weakref

from . import _core
from . import _errors

_MANY = 10  # recordings of one piece of code, after which we ask whether that is meant


class Recorded:
    """A callable as the library knows it, and the structure of the extra results that it gave when it was recorded."""

    def __init__(self, step: _core._Function):
        self.step = step
        self.aux_tree = None


class FunctionCache:
    """Callables to what was made of them, by identity and form."""

    def __init__(self):
        self._entries: dict[tuple, tuple] = {}  # (identity of parts) -> (references, {form: Recorded})
        self._counts: dict[int, list] = {}  # code object -> [code, recordings]

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, function, form: tuple, make) -> Recorded:
        parts = _parts(function)
        key = tuple(id(p) for p in parts)
        entry = self._entries.get(key)
        if entry is None or any(r() is not p for r, p in zip(entry[0], parts)):
            entry = (tuple(_reference(p, key, self._entries) for p in parts), {})
            self._entries[key] = entry
            self._count(function)
        known = entry[1].get(form)
        if known is None:
            known = entry[1][form] = Recorded(make())
        return known

    def _count(self, function) -> None:
        code = getattr(function, "__code__", None)
        if code is None:
            return
        count = self._counts.setdefault(id(code), [code, 0])
        count[1] += 1
        if count[1] == _MANY:
            warnings.warn(
                f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno}) was made and recorded "
                f"{_MANY} times; define it once, outside of the loop",
                RuntimeWarning,
                stacklevel=5,
            )


def _parts(function) -> tuple:
    """What a callable is the same by: a bound method is made anew at every access."""
    if isinstance(function, types.MethodType):
        return (function.__self__, function.__func__)
    return (function,)


def _reference(part, key, entries):
    """A weak reference that takes the entry away when its object dies; a strong one where there is no other way."""
    try:
        return weakref.ref(part, lambda _: entries.pop(key, None))
    except TypeError:
        return lambda: part


def require_callable(what: str, function) -> None:
    if not callable(function):
        raise _errors.TypeError(f"{what} is a function, not a {type(function).__name__}", stage="learner")
