"""Data: the readers of the command line.

    data = et.data.load("words/", mel=40)
    run = et.train(data=data, model="alif")
    data.xs, data.labels, data.classes

`et.data.formats()` lists the readers with their options, `et.data.known()` the data sets that are known by name.
"""

from __future__ import annotations

import os

import numpy as np

from . import _core
from . import _errors


def _text(name: str, value) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (str, int, float, np.integer, np.floating)):
        return str(value)
    raise _errors.TypeError(f"the option {name} is a text or a number, not {type(value).__name__}", stage="data")


class Data:
    """Labelled series of one reader. `len(data)`, `data[i]` (one series [steps, channels]), and as arrays:

    xs f32 [samples, steps, channels], zeros behind the end of shorter series, made when it is asked for; labels i32
    [samples]; lengths i64 [samples]; classes, the name of each label. parts: "train", "valid", "test" where the data says
    so, else ""; groups: speakers, users …; names: of files or series.
    """

    def __init__(self, core, format: str, options: dict[str, str]):
        self._core, self._format, self._options = core, format, options

    def __len__(self) -> int:
        return len(self._core)

    def __getitem__(self, index: int) -> _core.Array:
        return self._core.series(index)

    @property
    def xs(self) -> _core.Array:
        return self._core.padded()

    @property
    def labels(self) -> np.ndarray:
        return np.array(self._core.labels, np.int32)

    @property
    def lengths(self) -> np.ndarray:
        return np.array(self._core.lengths, np.int64)

    @property
    def classes(self) -> list[str]:
        return self._core.classes

    @property
    def parts(self) -> list[str]:
        return self._core.parts

    @property
    def groups(self) -> list[str]:
        return self._core.groups

    @property
    def names(self) -> list[str]:
        return self._core.names

    @property
    def channels(self) -> int:
        return self._core.channels

    @property
    def channel_names(self) -> list[str]:
        """What the source calls its channels; empty: it has no names for them."""
        return self._core.channel_names

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def path(self) -> str:
        return self._core.path

    @property
    def files(self) -> list[str]:
        return self._core.files

    @property
    def notes(self) -> list[str]:
        """What the reader has decided, a line each."""
        return self._core.notes

    def part(self, name: str):
        """(xs, labels, lengths) of the samples that the data puts into a part."""
        chosen = [i for i, p in enumerate(self.parts) if p == name]
        if not chosen:
            known = sorted(set(self.parts) - {""})
            raise _errors.ValueError(
                f"the data has no part '{name}'; it has {', '.join(known) or 'none, and et.train draws them'}", stage="data"
            )
        return np.asarray(self.xs)[chosen], self.labels[chosen], self.lengths[chosen]

    def _items(self) -> list[tuple[str, str]]:
        """The task `data` of the command line."""
        out = [("task", "data"), ("set", f"file={self.path}")]
        if self._format:
            out.append(("set", f"format={self._format}"))
        for name, value in self._options.items():
            if "," in value:
                raise _errors.ValueError(
                    f"the option {name}={value!r} has a comma, which the settings of a run cannot hold; train on "
                    "data.part(…), or on (data.xs, data.labels, data.lengths)",
                    stage="data",
                )
        if self._options:
            out.append(("set", "read=" + ",".join(f"{k}={v}" for k, v in self._options.items())))
        return out

    def __repr__(self) -> str:
        return f"Data({self.name!r}: {self._core.describe()})"


def load(path, *, format: str = "", **options) -> Data:
    """Reads a file, a folder or a known data set, by the reader that recognises it or is named; options are the reader's.

    Errors name the file and the place in it.
    """
    texts = {name: _text(name, value) for name, value in options.items() if value is not None}
    return Data(_core._load_data(os.fspath(path), format, texts), format, texts)


def formats() -> dict[str, dict]:
    """The readers: {name: {"doc": …, "options": {name: (default, what it is)}}}."""
    return {
        name: {"doc": doc, "options": {o: (value, text) for o, value, text in options}}
        for name, doc, options in _core._reader_rows()
    }


def known() -> list[dict]:
    """Data sets that are known by name, the package that brings each, and whether it is here."""
    return [
        {"name": name, "doc": doc, "package": package, "installed": here}
        for name, doc, package, here in _core._known_data()
    ]
