"""Functions that pickles name: functions of the extension cannot be pickled themselves."""

from . import _core


def pattern(rows, cols, row, col):
    return _core.SparsePattern.coo(rows, cols, row, col)


def primitive(name):
    return _core.primitive(name)


def program(text):
    return _core.parse_jaxpr(text)
