"""Runs: what `etrace train` does, from Python, on the same engine and in the same folders.

    run = et.train("delayed_xor", model="gru", rule="pp_prop")
    run = et.train(model=Net(), data=(xs, ys))
    run.score, run.outcome, run.folder
    run = et.resume("runs/delayed_xor-gru-pp_prop-0", updates=2000)
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import _core
from . import _errors
from ._module import Module, _in_python, node_of, states
from ._progress import Progress
from ._rules import CustomRule, LearningRule
from ._show import frame, preformatted
from ._trace import Root


class Score(NamedTuple):
    """A loss, and where the task has labels the accuracy; else None."""

    loss: float
    accuracy: float | None = None


class Predictions(NamedTuple):
    """What a run says of data: for each sample the number of its class, and the probability that the model gives it.

    `labels` are what the data says and `names` what its samples are called; empty texts where nothing is said.
    """

    classes: list[str]
    index: np.ndarray
    probability: np.ndarray
    labels: list[str]
    names: list[str]

    @property
    def answers(self) -> list[str]:
        """The name of each sample's class."""
        return [self.classes[i] for i in self.index]


def _runs_folder() -> str:
    return os.environ.get("ETRACE_RUNS") or "runs"


# --- options as texts ---------------------------------------------------------------------------------------------
def _text(name: str, value) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if name == "dtype":
        return str(getattr(value, "name", None) or getattr(value, "__name__", value))
    raise _errors.TypeError(f"{name} is a text or a number, not {type(value).__name__}", stage="train")


def _pairs(name: str, value) -> list[tuple[str, str]]:
    """{"lag": 20} is set=lag=20."""
    if isinstance(value, dict):
        return [(name, f"{key}={_text(key, v)}") for key, v in value.items() if v is not None]
    if isinstance(value, str):
        return [(name, value)]
    raise _errors.TypeError(f"{name} is a dictionary, {name}={{'name': value}}, not {type(value).__name__}", stage="train")


def _layer(value) -> str:
    """{"type": "LIF", "size": 128} is type=LIF,size=128."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or "type" not in value:
        raise _errors.TypeError("a layer is a dictionary such as {'type': 'LIF', 'size': 128}", stage="train")
    first = f"type={value['type']}"
    return ",".join([first, *(f"{k}={_text(k, v)}" for k, v in value.items() if k != "type")])


def _items(options: dict) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for name, value in options.items():
        if value is None:
            continue
        if name in ("set", "rule_option"):
            out += _pairs(name, value)
        elif name == "layer":
            out += [("layer", _layer(v)) for v in ([value] if isinstance(value, (str, dict)) else value)]
        else:
            out.append((name, _text(name, value)))
    return out


def _rule_items(rule) -> list[tuple[str, str]]:
    if rule is None:
        return []
    if isinstance(rule, type) and issubclass(rule, LearningRule):
        rule = rule()
    if isinstance(rule, CustomRule):
        raise _errors.NotSupportedError(
            "a run is gone on with by other programs, and a rule written in Python lives in this one alone; use "
            "et.compile with it, or a rule that et.rules() lists",
            stage="train",
        )
    if not isinstance(rule, LearningRule):
        return [("rule", _text("rule", rule))]
    return [("rule", type(rule)._name), *_pairs("rule_option", rule._given)]


# --- objects in the place of names --------------------------------------------------------------------------------
def _labels(ys):
    """Labels as whole numbers, and their names where they are texts."""
    ys = np.asarray(ys)
    if ys.dtype.kind in "US":
        names, numbers = np.unique(ys.astype(str), return_inverse=True)
        return numbers.astype(np.int32), list(names)
    if ys.dtype.kind == "b":
        ys = ys.astype(np.int32)
    return ys.astype(np.int32) if ys.dtype.kind in "iu" else ys, None


def _triple(part, what: str):
    if part is None:
        return None
    if not isinstance(part, (tuple, list)) or not 2 <= len(part) <= 3:
        raise _errors.TypeError(
            f"{what} is (xs, ys) or (xs, ys, lengths): series [samples, steps, channels], a label of each, and how many "
            "of its steps are real",
            stage="train",
        )
    xs, ys, lengths = (*part, None)[:3]
    return np.asarray(xs), ys, None if lengths is None else np.asarray(lengths)


def _arrays(data, classes):
    """What C++ takes: train, valid and test as (xs, ys, lengths), and the names of the labels."""
    parts = data if isinstance(data, dict) else {"train": data}
    unknown = set(parts) - {"train", "valid", "test"}
    if unknown or "train" not in parts:
        raise _errors.ValueError(
            f"data has the parts {', '.join(map(repr, parts))}; expected 'train', and if it is split 'valid' and 'test'",
            stage="train",
        )
    triples = [_triple(parts.get(name), f"data['{name}']" if len(parts) > 1 else "data") for name in ("train", "valid", "test")]
    given = [t for t in triples if t is not None]
    numbers, names = _labels(np.concatenate([np.asarray(t[1]) for t in given]) if len(given) > 1 else given[0][1])
    if names is not None and classes is not None:
        wanted = [str(c) for c in classes]
        missing = sorted(set(names) - set(wanted))
        if missing:
            raise _errors.ValueError(f"the label {missing[0]!r} is none of the classes {wanted}", stage="train")
        numbers = np.array([wanted.index(names[i]) for i in numbers], np.int32)
        names = wanted
    out, at = [], 0
    for t in triples:
        if t is None:
            out.append(None)
            continue
        n = len(np.asarray(t[1])) if np.ndim(t[1]) else 0
        ys = numbers[at : at + n] if len(given) > 1 else numbers
        out.append((t[0], ys, t[2]))
        at += n
    names = names if names is not None else [str(c) for c in classes or ()]
    return [*out, names]


_TASK_PARTS = ("num_inputs", "num_outputs", "steps", "batch")


def _own_task(task, dtype):
    """The specification of a task written in Python, and its function."""
    missing = [name for name in _TASK_PARTS if not hasattr(task, name)]
    if missing:
        raise _errors.TypeError(
            f"a task is a name, or an object with {', '.join(_TASK_PARTS)}(index, batch_size), such as one derived from "
            f"et.tasks.OwnTask; {type(task).__name__} has no {missing[0]}",
            stage="train",
        )
    spec = {name: getattr(task, name) for name in _TASK_PARTS[:3]}
    spec["name"] = getattr(task, "name", None) or type(task).__name__
    spec["loss"] = getattr(task, "loss", "cross_entropy")
    spec["dtype"] = dtype or "float32"
    return spec, task.batch


class _Given:
    """What a call was given: options as texts, and objects."""

    def __init__(self, task=None, model=None, rule=None, data=None, classes=None, channels=None, options=None):
        options = dict(options or {})
        self.items: list[tuple[str, str]] = []
        self.objects: dict[str, Any] = {}
        self.module = None
        self._take_model(model, options)
        self._take_task(task, data, classes, channels, options)
        self.items += _rule_items(rule) + _items(options)

    def _take_model(self, model, options):
        if model is None:
            return
        if isinstance(model, (list, tuple)):
            self.items += [("layer", _layer(layer)) for layer in model]
        elif isinstance(model, Module):
            self.module = model
            widths = {s.dtype for s in states(model).values() if s.dtype.is_floating}
            if options.get("dtype") is None and len(widths) == 1:
                options["dtype"] = next(iter(widths))
            self.objects["module"] = node_of(model)
            self.objects["update"] = Root(model, (_core.zeros((1, 1)),)).update
            if _in_python(model):
                for module in list(model.modules()):
                    if _in_python(module) and hasattr(module, "init_state"):
                        module.init_state()
        elif isinstance(model, type) and issubclass(model, Module):
            raise _errors.TypeError(f"model is the class {model.__name__}; make one: {model.__name__}(…)", stage="train")
        else:
            self.items.append(("model", _text("model", model)))

    def _take_task(self, task, data, classes, channels, options):
        if data is not None:
            if task is not None:
                raise _errors.ValueError("task and data: a run learns one thing", stage="train")
            from .data import Data

            if isinstance(data, Data):
                self.items += data._items()
            elif isinstance(data, (str, os.PathLike)):
                self.items += [("task", "data"), ("set", f"file={os.fspath(data)}")]
            else:
                self.objects["arrays"] = [*_arrays(data, classes), [str(c) for c in channels or ()]]
                channels = None
                self.items.append(("task", "data"))
            if channels is not None:
                raise _errors.ValueError("channels are the names of those of arrays; files have their own", stage="train")
            return
        if classes is not None:
            raise _errors.ValueError("classes are the names of the labels of data=", stage="train")
        if channels is not None:
            raise _errors.ValueError("channels are the names of those of data=", stage="train")
        if isinstance(task, _core.Task):
            name, settings = task._row
            self.items.append(("task", name))
            self.items += _pairs("set", settings)
            seed = options.setdefault("seed", task.seed)
            if seed != task.seed:
                raise _errors.ValueError(f"the task has the seed {task.seed}, and the run {seed}; give one", stage="train")
            if options.get("dtype") is None:
                options["dtype"] = task.dtype
        elif isinstance(task, (str, os.PathLike)):
            self.items.append(("task", os.fspath(task)))
        elif task is not None:
            dtype = options.get("dtype")
            spec, batch = _own_task(task, dtype)
            self.objects["task"] = (spec, batch)


# --- telling ------------------------------------------------------------------------------------------------------
class _Told:
    """What a run tells: a bar, functions of the caller, and texts if they are wanted."""

    def __init__(self, progress, on_progress, on_check, verbose):
        for name, function in (("on_progress", on_progress), ("on_check", on_check)):
            if function is not None and not callable(function):
                raise _errors.TypeError(f"{name} is a function (update, score), not {type(function).__name__}", stage="train")
        self.wanted, self.on_progress, self.on_check, self.verbose = progress, on_progress, on_check, verbose
        self.bar = None
        self.begin = 0
        self.last = ""

    def say(self, text):
        self.last = text.strip() or self.last
        if self.verbose or text.startswith("live "):  # an address is for whoever asked for it
            print(text, end="", flush=True)

    def warn(self, text):
        warnings.warn("etrace: " + text, RuntimeWarning, stacklevel=4)

    def start(self, updates, total):
        self.begin = updates
        if self.wanted:
            self.bar = Progress(self.wanted, total - updates, "train")

    def progress(self, updates, loss, accuracy):
        if self.bar is not None:
            self.bar(updates - self.begin)
        if self.on_progress is not None:
            return bool(self.on_progress(updates, Score(loss, accuracy)))
        return None

    def check(self, updates, loss, accuracy):
        if self.on_check is not None:
            return bool(self.on_check(updates, Score(loss, accuracy)))
        return None

    def close(self):
        if self.bar is not None and self.bar.bar is not None:
            self.bar.bar.close()


def _told(call, told: _Told, given: _Given) -> Run:
    try:
        result = call(told)
    except KeyboardInterrupt as stop:
        if hasattr(stop, "add_note") and told.last.startswith("stopped"):
            stop.add_note(told.last)
        raise
    finally:
        told.close()
    return Run._of_result(result, given)


def train(
    task=None,
    *,
    model=None,
    rule=None,
    data=None,
    classes=None,
    channels=None,
    progress=None,
    on_progress=None,
    on_check=None,
    verbose: bool = False,
    **options,
) -> Run:
    """Learns a task online: with checks on data that is held out, the best parameters, a final score and a page.

    What is left open is as the recipe of the task has it. A run has a folder (`runs="runs"`; None: none), which the
    command line reads and goes on with: `etrace train RUN --resume`, `etrace eval RUN`, `etrace runs`.

    task: a name (`et.tasks.names()`), a file or folder of data, a task of `et.tasks`, or an object of your own: an
        `et.tasks.OwnTask`.
    data: in its place, series in memory: (xs, ys) or (xs, ys, lengths), with xs [samples, steps, channels] or [samples,
        steps], ys [samples] (whole numbers or texts) and lengths [samples], how many steps of each are real; a
        dictionary of such parts, "train", "valid", "test"; what `et.data.load` gave; or a path. The folder keeps
        arrays. `classes`: names of the labels 0, 1 …; `channels`: names of the channels, by which `run.predict` finds
        them again.
    model: a built-in name, a model file, layers ([{"type": "ALIF", "size": 100}]), or an `et.Module` of your own, whose
        step takes [batch, channels] and gives [batch, outputs]. One step of it is recorded; the folder keeps it as a
        model file. Afterwards it has the best parameters (those of the moment, if the run was stopped), and its states
        are as at the start.
    rule: a name, a rule such as `et.pp_prop(decay_or_rank=0.9)`, or "BPTT".
    progress: True for a bar, or a function (done, total). on_progress(update, score) is called after each batch and
        on_check(update, score) after each check; one that returns True stops the run. verbose: what the command prints.

    Options are those of `etrace train --help`, with underscores: hidden, batch, updates, lr, optimizer, schedule, warmup,
    clip_norm, update, method, window, memory, seed, dtype, backend, set={"lag": 20}, rule_option={…}, runs, name, patience,
    until_accuracy, check_every, every, no_fidelity, load, save, checkpoint, json, resume,
    live (True, or a port: the page of the run while it goes, in a browser of this machine; its address is printed).

    Ctrl-C ends the run at the end of its batch, with a checkpoint, and is a KeyboardInterrupt; `et.resume(folder)`
    goes on.
    """
    if "runs" not in options:
        options["runs"] = _runs_folder()
    elif options["runs"] is None:
        options["runs"] = "none"
    given = _Given(task, model, rule, data, classes, channels, options)
    told = _Told(progress, on_progress, on_check, verbose)
    return _told(lambda t: _core._train(given.items, given.objects, t), told, given)


def resume(
    folder, *, model=None, task=None, data=None, progress=None, on_progress=None, on_check=None, verbose: bool = False, **changes
) -> Run:
    """Goes on with a run where it was, bit for bit, whoever began it: `et.resume("runs/NAME")`.

    `changes`: options as for `et.train`; `lr` is the learning rate from there on, `updates` the new end. A run on a task
    written in Python is given that `task` again; a `model` gets the parameters.
    """
    if data is not None:
        raise _errors.ValueError("the folder of a run keeps its data; leave out data", stage="train")
    given = _Given(task, model, options=changes)
    if isinstance(task, (str, _core.Task)):
        raise _errors.ValueError("the folder of a run says which task it is; leave out task", stage="train")
    if given.module is not None:  # its width is no change of the run's
        given.items = [item for item in given.items if item[0] != "dtype"]
    told = _Told(progress, on_progress, on_check, verbose)
    return _told(lambda t: _core._resume(os.fspath(folder), given.items, given.objects, t), told, given)


# --- runs ---------------------------------------------------------------------------------------------------------
def _score(given) -> Score | None:
    return None if given is None else Score(given["loss"], given.get("accuracy"))


def _curves_of_log(path: Path) -> tuple[dict, dict]:
    curves: dict[str, dict[str, list]] = {"batch": {}, "check": {}}
    for line in path.read_text().splitlines():
        try:
            point = json.loads(line)
        except ValueError:
            continue
        if point.get("event") not in curves:
            continue
        curve = curves[point["event"]]
        for key in ("batches", "updates", "loss", "accuracy"):
            if key in point:
                curve.setdefault(key, []).append(float("nan") if point[key] is None else point[key])
    return curves["batch"], curves["check"]


class Run:
    """A run: what `et.train` gives, or `et.Run("runs/NAME")` for one that is there.

    score: on data never trained on, with the best parameters. outcome: "solved", "better than guessing" or "guessing" (the best
    constant answer, `guess`); None where it was stopped. reason: why it ended: "updates", "accuracy", "patience",
    "interrupted". history and checks: {"batches", "updates", "loss", "accuracy"}, lists of the same length. folder: a
    path, or None.
    """

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        info = self.info
        self.score = _score(info.get("final"))
        self.outcome = info.get("outcome")
        self.guess = _score(info.get("guess"))
        self.goal = info.get("goal")
        self.reason = info.get("reason")
        self.updates, self.batches = info.get("updates", 0), info.get("batches", 0)
        self.reached = True
        self.text = ""
        log = Path(self.folder) / "log.jsonl"
        self.history, self.checks = _curves_of_log(log) if log.exists() else ({}, {})
        self._task: dict[str, Any] = {}

    @classmethod
    def _of_result(cls, result: dict, given: _Given) -> Run:
        run = cls.__new__(cls)
        run.folder = result["folder"]
        run.score = _score(result["score"])
        run.outcome = result.get("outcome")
        run.guess = _score(result.get("guess"))
        run.goal = result.get("goal")
        run.reason = result["reason"]
        run.updates, run.batches = result["updates"], result["batches"]
        run.reached = result["reached"]
        run.text = result.get("text", "")
        run.history, run.checks = result["history"], result["checks"]
        run._task = {"task": given.objects["task"]} if "task" in given.objects else {}
        return run

    def _required_folder(self, what: str) -> str:
        if self.folder is None:
            raise _errors.ValueError(f"a run without a folder cannot be {what}; give runs=FOLDER to et.train", stage="train")
        return self.folder

    @property
    def info(self) -> dict:
        """What its run.json holds: status, scores, settings, activity of layers, memory, time."""
        path = Path(self._required_folder("looked up")) / "run.json"
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            raise _errors.ValueError(f"'{self.folder}' is no folder of a run: it has no run.json", stage="train") from None
        except ValueError as error:
            raise _errors.ValueError(f"'{path}' cannot be read: {error}", stage="train") from None

    @property
    def page(self) -> str | None:
        """The path of its page; None: it has none yet."""
        path = Path(self._required_folder("shown")) / "page.html"
        return str(path) if path.exists() else None

    def evaluate(self, *, part: str = "final", batches: int = 16, backend: str | None = None) -> Score:
        """The score of the best parameters; of `part` "final" (never trained on) or "check" (held out).

        `batches` counts for tasks that never end; of data the whole part is scored. By default the final score again.
        """
        return _score(
            _core._evaluate_run(self._required_folder("scored"), part, batches, backend or "", self._task)
        )

    def predict(
        self, data, lengths=None, *, channels=None, labelled: bool = True, backend: str | None = None
    ) -> Predictions:
        """What the best parameters of a run on data say of new data: a file, or series [samples, steps, channels].

        `lengths` [samples]: how many steps of each are real. `labelled=False`: the file says no classes. Columns of a
        file, and channels with names (`channels`), are those that the run has learned from, whatever their order; a
        warning says what is left over, and that there are no names to go by.
        """
        folder = self._required_folder("asked")
        if not isinstance(data, (str, os.PathLike)):
            names = [str(c) for c in channels or ()]
            data = (np.asarray(data), None, None if lengths is None else np.asarray(lengths), names)
        else:
            data = os.fspath(data)
        classes, index, probability, labels, names = _core._predict_run(folder, data, backend or "", labelled)
        return Predictions(classes, np.array(index, np.int64), np.array(probability), labels, names)

    def load_into(self, model) -> None:
        """Gives a model of the same parameters the best ones of the run."""
        _core._load_parameters(node_of(model), str(Path(self._required_folder("read")) / "best.safetensors"))

    def __repr__(self) -> str:
        score = "" if self.score is None else f", loss={self.score.loss:.4g}"
        if self.score is not None and self.score.accuracy is not None:
            score += f", accuracy={self.score.accuracy:.4f}"
        return f"Run({self.folder!r}, {self.reason or 'not ended'} after {self.updates} updates{score}, outcome={self.outcome!r})"

    def _repr_html_(self) -> str:
        page = self.page if self.folder is not None else None
        return frame(Path(page).read_text(), 640) if page else preformatted(repr(self))


def runs(folder=None) -> list[dict]:
    """The runs of a folder (by default "runs", or $ETRACE_RUNS): what the run.json of each holds, and its "folder"."""
    found, problems = _core._list_runs(os.fspath(folder) if folder is not None else _runs_folder())
    for problem in problems:
        warnings.warn(f"etrace: left out {problem}", RuntimeWarning, stacklevel=2)
    return [{**json.loads(text), "folder": path} for path, text in found]
