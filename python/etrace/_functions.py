"""Losses and step functions: Python callables that are recorded once.

A callable is known again by its identity, for as long as it lives: nothing here keeps it alive, unless it cannot be
weakly referenced. What it reads from outside is read when it is recorded; of arrays among it a warning tells, once.
"""

from __future__ import annotations

import dis
import types
import warnings
import weakref

from . import _core
from . import _errors
from ._trees import results_of

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
            _tell_constants(function)
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


_told: set[tuple] = set()


def _tell_constants(function) -> None:
    """Global arrays and arrays that are attributes, which a program that is recorded once holds as they are now."""
    own = function.__self__ if isinstance(function, types.MethodType) else None
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, types.FunctionType):
        own, plain = function, getattr(type(function).__call__, "__func__", type(function).__call__)
    if not isinstance(plain, types.FunctionType):
        return
    found = sorted(set(_arrays_read(plain, own)))
    mark = (plain.__code__.co_filename, plain.__code__.co_firstlineno, *found)
    if not found or mark in _told:
        return
    _told.add(mark)
    warnings.warn(
        f"{plain.__qualname__} ({mark[0]}:{mark[1]}) reads {', '.join(found)}: constants of the recorded program, with "
        "the values that they have now. What changes from call to call comes in as a sequence, by step_fn=",
        UserWarning,
        stacklevel=5,
    )


def _arrays_read(function: types.FunctionType, own):
    """Names such as "the global array w" and "the array o.w"; only what stands in the function itself."""
    code = function.__code__
    objects = {}  # what a name stands for, where attributes of it may be read
    if own is not None and code.co_varnames[:1]:
        objects[code.co_varnames[0]] = own
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            objects[name] = cell.cell_contents
        except ValueError:  # not set yet
            pass
    last = None
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL":
            value = function.__globals__.get(step.argval)
            if _is_array(value):
                yield f"the global array {step.argval}"
            last = (step.argval, value)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and last is not None:
            name, value = last
            held = getattr(value, "__dict__", None)
            value = held.get(step.argval) if isinstance(held, dict) and not isinstance(value, types.ModuleType) else None
            name = f"{name}.{step.argval}"
            if _is_array(value):
                yield f"the array {name}"
            last = (name, value)
        elif step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and step.argval in objects:
            last = (step.argval, objects[step.argval])
        else:
            last = None


def _is_array(value) -> bool:
    return isinstance(value, _core.Array) or type(value).__module__ in ("numpy", "torch") and hasattr(value, "dtype") and (
        getattr(value, "ndim", 0) > 0
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


def loss_of_results(loss, out_tree):
    """A loss as the library calls it, with the flat list of the model's results: it sees what the model returns."""
    return lambda flat, target: loss(results_of(out_tree, flat), target)
