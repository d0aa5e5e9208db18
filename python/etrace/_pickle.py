"""What pickles name, since objects of the extension cannot be pickled themselves, and functions of `et` in pickles and
copies: they are known by their name, as those of any module."""

import copyreg
import functools

from . import _core


def pattern(rows, cols, row, col):
    return _core.SparsePattern.coo(rows, cols, row, col)


def primitive(name):
    return _core.primitive(name)


def program(text):
    return _core.parse_jaxpr(text)


def function(path):
    return functools.reduce(getattr, path.split("."), _core)


def _reduced(f):
    return function, (f"{f.__module__}.{f.__qualname__}".removeprefix(_core.__name__ + "."),)


copyreg.pickle(type(_core.tanh), _reduced)
