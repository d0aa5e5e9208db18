"""Exceptions. Each is an `et.Error`, and one of Python's own where that says the same."""

import builtins
from typing import NamedTuple


class Origin(NamedTuple):
    """Where in the model something stands: the module's path, and the line of the user's program."""

    module: tuple[str, ...] = ()
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else ""
        path = ".".join(self.module)
        return f"{path} ({place})" if path and place else path or place


class Error(Exception):
    """The base of all exceptions of etrace.

    Attributes: `stage` (what was being done), `message` (the text alone), `origin` (module path, file, line).
    """

    def __init__(self, message: str = "", *, stage: str = "", origin: Origin = Origin(), text: str | None = None):
        super().__init__(message if text is None else text)
        self.stage = stage
        self.message = message
        self.origin = origin

    def __reduce__(self):
        return _restore, (type(self), str(self), self.__dict__.copy())


def _restore(kind, text, attributes):
    error = kind(text)
    error.__dict__.update(attributes)
    return error


class CompilationError(Error, RuntimeError):
    """The program or the file is not what it must be. `records`: what the compiler noted, where there is any."""

    records: tuple = ()


class NotSupportedError(Error, NotImplementedError):
    """Legal, but not done by etrace; the text says what would work."""


class TypeError(Error, builtins.TypeError):
    """A value of the wrong kind: another element type, an object that is no array, a traced value as a number."""


class ValueError(Error, builtins.ValueError):
    """A value of the right kind but out of range: a shape, an axis, an option."""


class UnitError(ValueError):
    """Physical dimensions that do not fit."""


class IndexError(ValueError, builtins.IndexError):
    """A position outside of an array."""


class IoError(Error, OSError):
    """A file could not be read or written."""

    def __str__(self) -> str:  # OSError has a form of its own
        return str(self.args[0]) if self.args else ""


class InternalError(Error, RuntimeError):
    """A fault of etrace. Please report it with the program that led to it."""
