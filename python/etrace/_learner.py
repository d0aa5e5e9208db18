"""Learners: a model and a learning rule, compiled.

    learner = et.compile(model, et.D_RTRL(), et.zeros((1, 3)), batch_size=1)
    result = learner.etrace_grad(xs, ys, et.loss.mse)
    optimizer.update(result.grads)
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from . import _core
from . import _errors
from ._functions import FunctionCache, require_callable
from ._module import _in_python, init_all_states, model_in_steps, node_of
from ._progress import Progress
from ._rules import python_part, rule_of
from ._show import frame, preformatted
from ._trees import flatten, unflatten

_LEARNER_OPTIONS = (
    "batch_size",
    "seed",
    "vjp_method",
    "vmap",
    "backend",
    "compat",
    "control_flow",
    "strict",
    "execution_window",
    "memory_limit",
    "trace_passes",
    "not_finite",
)


class SequenceGradient(NamedTuple):
    """What `Learner.etrace_grad` gives."""

    grads: _core.ParamValues  #: by name
    losses: Any  #: [T], as the step function gives them
    loss: float  #: weighted and reduced
    aux: Any  #: stacked over the calls of the step function


class SequenceTraining(NamedTuple):
    """What `Learner.etrace_train` gives."""

    losses: Any  #: [T]
    loss: float
    aux: Any
    updates: int  #: of the parameters


class EligibilityTrace(NamedTuple):
    name: str  #: "relation0/group0/weight"
    value: Any  #: ([B], slots…, S)
    params: list  #: whose trace it is


class Root:
    """The step of a model between flat lists of arrays, as the library calls it, and the trees that `update` takes."""

    def __init__(self, model, example):
        self.model = model
        self.node = node_of(model)
        if getattr(model, "_own_update", False):
            raise _errors.NotSupportedError(
                f"{type(model).__name__} derives from a layer of the library and has an update of its own; alone, the "
                "library's step would be recorded. Make it an attribute of an et.Module, or derive from et.Module",
                stage="trace_step",
            )
        self.leaves, self.tree = flatten(tuple(example))
        self.out_tree = None

    @property
    def update(self):
        """None: a layer of the library, which needs no function."""
        return self._call if _in_python(self.model) else None

    def _call(self, leaves):
        try:
            out = self.model.update(*unflatten(self.tree, leaves))
        except Exception as error:
            self.model._note(error)
            raise
        if out is None:
            raise _errors.TypeError(
                f"{type(self.model).__name__}.update returned nothing; return the result of the step",
                stage="trace_step",
            )
        flat, self.out_tree = flatten(out)
        return flat


class Report:
    """What is learned online, what is not, and why. `records` are all decisions of the compiler."""

    def __init__(self, graph):
        self._graph = graph
        online, excluded, dynamic, self.warnings, self.errors = graph._weights()
        self.etrace_weights = {name: groups for name, groups, _ in online}
        self.excluded_weights = dict(excluded)
        self.dynamic_states = list(dynamic)

    @property
    def records(self) -> list[dict]:
        return self._graph._records()

    def to_string(self, level: int = 1) -> str:
        """Level 2 adds warnings and errors."""
        return self._graph._report(level)

    __str__ = to_string

    def __repr__(self) -> str:
        return self.to_string()

    def _repr_html_(self) -> str:
        return preformatted(self.to_string(2))


class ETraceGraph:
    """What the compiler found: hidden groups, relations from weights to groups, and records of every decision."""

    def __init__(self, graph):
        self._graph = graph

    @property
    def hidden_groups(self) -> list[dict]:
        return self._graph._groups()

    @property
    def hidden_param_op_relations(self) -> list[dict]:
        return self._graph._relations()

    @property
    def diagnostics(self) -> list[dict]:
        return self._graph._records()

    @property
    def report(self) -> Report:
        return Report(self._graph)

    def explain(self, *notes: str) -> str:
        """For a reader: what is learned online, what is not and why, and the records by kind."""
        return self._graph.explain(list(notes))

    def to_json(self) -> str:
        return self._graph.to_json()

    def to_dot(self) -> str:
        return self._graph.to_dot()

    def to_html(self) -> str:
        """One page that loads nothing."""
        return self._graph.to_html()

    def _repr_html_(self) -> str:
        return frame(self.to_html())

    def __repr__(self) -> str:
        groups, relations = len(self.hidden_groups), len(self.hidden_param_op_relations)
        return f"ETraceGraph({groups} hidden group{'s' * (groups != 1)}, {relations} relation{'s' * (relations != 1)})"


class Plan:
    """The programs that a learner runs for one loss, by name."""

    def __init__(self, programs):
        self.programs = {p.name: p for p in programs}

    def __getitem__(self, name: str):
        if name not in self.programs:
            raise KeyError(f"no program '{name}'; there are: {', '.join(self.programs)}")
        return self.programs[name]

    def __iter__(self):
        return iter(self.programs)

    def __len__(self) -> int:
        return len(self.programs)

    def to_string(self, equations: bool = False) -> str:
        return "\n\n".join(p.text(equations) for p in self.programs.values())

    def __repr__(self) -> str:
        return self.to_string()

    def _repr_html_(self) -> str:
        return preformatted(self.to_string())


class Learner(_core._Learner):
    """A model that learns online. `et.compile` makes it.

    It continues: every call starts from the states and traces that the one before has left. Sequences run in
    windows, and a window is the unit of change: one that would leave anything that is not finite changes nothing.
    A call that is interrupted (Ctrl-C) stands where its last whole window left it.
    """

    def __init__(self, model, rule, example, options: dict):
        if isinstance(model, Model):
            super().__init__(model._core, rule._rule, options, python_part(rule))
            self._out_tree = None
        else:
            root = Root(model, example)
            super().__init__(root.node, root.update, rule._rule, root.leaves, options, python_part(rule))
            self._out_tree = root.out_tree
        self.rule = rule
        self._functions = FunctionCache()

    # Steps ---------------------------------------------------------------------------------------------------------
    def update(self, *args):
        """One step, or several with et.MultiStepData; states and traces move on, there is no gradient.

        Inside a step function that is being recorded it is the model's step in it.
        """
        leaves, _ = flatten(args)
        return self._results(self._update(leaves))

    __call__ = update

    def _results(self, flat):
        if self._out_tree is not None:
            return unflatten(self._out_tree, flat)
        return flat[0] if len(flat) == 1 else tuple(flat)

    # Sequences -----------------------------------------------------------------------------------------------------
    def _recorded(self, what, sequences, loss, step_fn, options):
        """The data, the function as the library knows it, and the function that it calls back."""
        sequences = list(sequences)
        if step_fn is None and loss is None and sequences and callable(sequences[-1]):
            loss = sequences.pop()
        if (loss is None) == (step_fn is None):
            raise _errors.TypeError(
                f"{what} takes a loss, {what}(xs, ys, et.loss.mse), or step_fn=, a function of one step's slices",
                stage=what,
            )
        data, tree = flatten(tuple(sequences))
        if loss is not None:
            require_callable("loss", loss)
            if len(data) != 2:
                raise _errors.TypeError(
                    f"{what} with a loss takes inputs and targets, two arrays, not {len(data)}; use step_fn= for others",
                    stage=what,
                )
            chunk, mask = options.get("chunk_size"), options.get("mask")
            windows = chunk is not None and chunk > 1
            per_sample = mask is not None and getattr(mask, "ndim", 1) == 2
            recorded = self._functions.find(
                loss, ("loss", windows, per_sample), lambda: _core._Function.of_loss(windows, per_sample)
            )
            return data, recorded, loss
        require_callable("step_fn", step_fn)
        recorded = self._functions.find(step_fn, ("step", repr(tree)), _core._Function.of_steps)

        def step(slices):
            out = step_fn(*unflatten(tree, slices))
            value, extra = out if isinstance(out, tuple) and len(out) == 2 else (out, ())
            flat, recorded.aux_tree = flatten(extra)
            return value, flat

        return data, recorded, step

    @staticmethod
    def _aux(recorded, flat):
        return () if recorded.aux_tree is None else unflatten(recorded.aux_tree, flat)

    def etrace_grad(self, *sequences, loss=None, step_fn=None, progress=None, **options) -> SequenceGradient:
        """Gradients of a sequence, learned online: memory does not grow with its length.

        `etrace_grad(xs, ys, et.loss.mse)` with time first, or `etrace_grad(*sequences, step_fn=f)`, where `f(*slices)`
        calls `learner(x)` once and returns a loss, or a loss and extra results.

        Options: `mask` [T] or [T, B], weights of the losses; `freeze`: steps of weight zero change nothing;
        `chunk_size`: steps of a window, for multi-step learners; `reduction`: "mean" or "sum"; `modulator`: the third
        factor, for rules that take one; `progress`: True for a bar, or a function (done, total).
        """
        data, recorded, function = self._recorded("etrace_grad", sequences, loss, step_fn, options)
        with Progress(progress, _length(data), "etrace_grad") as shown:
            grads, losses, total, aux = self._grad(data, recorded.step, function, options, shown)
        return SequenceGradient(grads, losses, total, self._aux(recorded, aux))

    def etrace_train(
        self, *sequences, optimizer=None, loss=None, step_fn=None, progress=None, **options
    ) -> SequenceTraining:
        """The same with updates of the parameters on the way.

        `etrace_train(xs, ys, et.loss.mse, optimizer)`. Options of `etrace_grad`, and `update`: "sequence" (one update
        at the end), "window" or "step"; `window`: steps between updates of "window".
        """
        sequences = list(sequences)
        if optimizer is None and sequences and isinstance(sequences[-1], _core._Optimizer):
            optimizer = sequences.pop()
        if optimizer is None:
            raise _errors.TypeError(
                "etrace_train needs an optimiser of the model: etrace_train(xs, ys, et.loss.mse, optimizer)",
                stage="etrace_train",
            )
        data, recorded, function = self._recorded("etrace_train", sequences, loss, step_fn, options)
        with Progress(progress, _length(data), "etrace_train") as shown:
            losses, total, aux, updates = self._train(data, recorded.step, function, optimizer, options, shown)
        return SequenceTraining(losses, total, self._aux(recorded, aux), updates)

    def etrace_evolve(self, *sequences, mask=None, freeze: bool = False, progress=None):
        """Runs through without gradients; the model's results, time first."""
        data, _ = flatten(sequences)
        with Progress(progress, _length(data), "etrace_evolve") as shown:
            return self._results(self._evolve(data, mask, freeze, shown))

    def train_synthetic_gradient(self, *sequences, loss=None, step_fn=None, optimizer=None, **options) -> list[float]:
        """Fits the estimate of a rule that has one (DNI); options: chunk_size, epochs, learning_rate, reset."""
        data, recorded, function = self._recorded("train_synthetic_gradient", sequences, loss, step_fn, options)
        return self._fit(data, recorded.step, function, options, optimizer)

    # Looking ---------------------------------------------------------------------------------------------------------
    @property
    def graph(self) -> ETraceGraph:
        return ETraceGraph(self._graph)

    @property
    def report(self) -> Report:
        return Report(self._graph)

    def show_graph(self, level: int = 1) -> None:
        """Prints the compilation report."""
        print(self.report.to_string(level))

    def plan(self, *sequences, loss=None, step_fn=None, optimizer=None) -> Plan:
        """The programs that run for a loss; of the sequences only the types of one step count."""
        data, recorded, function = self._recorded("plan", sequences, loss, step_fn, {})
        slices = [d[0] for d in data]
        return Plan(self._plan(slices, recorded.step, function, optimizer))

    def get_etrace_of(self, param) -> list[EligibilityTrace]:
        """The traces of a parameter, by its path."""
        return [EligibilityTrace(*t) for t in self._get_etrace_of(param)]

    @property
    def etraces(self) -> list[EligibilityTrace]:
        return [EligibilityTrace(*t) for t in self._etraces()]

    def __repr__(self) -> str:
        return f"Learner({self.describe()}, {self.backend}, {len(self.params)} parameters)"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __reduce__(self):
        raise _errors.TypeError(
            "a Learner is not pickled; write it with learner.save(path), or take learner.checkpoint()", stage="learner"
        )

    def __copy__(self):
        self.__reduce__()

    def __deepcopy__(self, memo):
        self.__reduce__()


def _length(data) -> int:
    shape = getattr(data[0], "shape", None) if data else None
    return int(shape[0]) if shape else 0


def _verify_html(report) -> str:
    return frame(report.to_html(), 640)


_core.VerifyReport._repr_html_ = _verify_html
_core.RuleComparison._repr_html_ = _verify_html
_core.VerifyReport.to_dict = lambda self: json.loads(self.to_json())
_core.RuleComparison.to_dict = lambda self: json.loads(self.to_json())


def compile(model, rule, *example, verbose: int = 0, **options) -> Learner:
    """Compiles a model and a learning rule into a learner.

    `rule`: a class such as `et.D_RTRL`, an instance, a name, or an `et.ETraceConfig`. `example`: one argument of
    `update` each, with the shapes and types of a step.

    Options: `batch_size`: all states start anew with this batch; `seed`: states that hold random keys start from it;
    `vjp_method`: "single-step" or "multi-step"; `vmap`: the model is written for one sample; `backend`: see
    `et.backends()`; `execution_window`: steps that run as one window; `memory_limit`: bytes; `not_finite`: "error" or
    "skip"; `strict`: a warning of the compiler is an error; `compat`: "none" or "braintrace"; `control_flow`,
    `trace_passes`; `verbose`: 1 prints the report, 2 with every record. Others are options of the rule.
    """
    own = {k: options.pop(k) for k in _LEARNER_OPTIONS if k in options}
    made = rule_of(rule, options)
    if own.get("batch_size") is not None and not isinstance(model, Model):
        init_all_states(model)
    learner = Learner(model, made, example, own)
    if verbose:
        print(learner.report.to_string(verbose))
        print("Sequences run " + learner.execution)
    return learner


def compile_etrace_graph(model, *example, **options) -> ETraceGraph:
    """What the compiler finds in one step of a model, without a rule.

    Options: `scope`: "diagonal" or "coupled"; `sparse_n`, `composite`, `batch_size`, `strict`, `compat`, `control_flow`.
    """
    root = Root(model, example)
    return ETraceGraph(_core._compile_graph(root.node, root.update, root.leaves, options))


class Model:
    """One traced step of a model: a program whose inputs are known by role and path."""

    def __init__(self, core):
        self._core = core

    def save(self, path) -> None:
        """As a model file, which `etrace explain` and `et.read_model` take."""
        _core._write_model(self._core, path)

    @property
    def jaxpr(self) -> str:
        return self._core.jaxpr()

    def to_json(self) -> str:
        return self._core.to_json()

    def __repr__(self) -> str:
        return self.jaxpr


def trace_step(model, *example, name: str = "model") -> Model:
    """Traces one step. Afterwards, also if it fails, every state holds what it held before."""
    root = Root(model, example)
    return Model(_core._trace_step(root.node, root.update, root.leaves, name))


def summary(model, example=None) -> str:
    """A table of the modules of a model: shapes, parameters, states, bytes, and what learning rules keep for it."""
    root = Root(model, () if example is None else (example,))
    return _core._summary(root.node, root.update, None if example is None else root.leaves[0])[0]


def _bench(what, model, sequences, loss, step_fn):
    """A traced model, data, the function as the library knows it, and the function that it calls back."""
    sequences = list(sequences)
    if step_fn is None and loss is None and sequences and callable(sequences[-1]):
        loss = sequences.pop()
    if (loss is None) == (step_fn is None):
        raise _errors.TypeError(
            f"{what} takes a loss, {what}(model, rule, xs, ys, et.loss.mse), or step_fn=, a function of one step's "
            "slices that calls model(x)",
            stage=what,
        )
    data, tree = flatten(tuple(sequences))
    if not data:
        raise _errors.TypeError(f"{what} needs sequences, time first", stage=what)
    data = [_core.asarray(d) for d in data]
    if loss is not None:
        require_callable("loss", loss)
        if len(data) != 2:
            raise _errors.TypeError(
                f"{what} with a loss takes inputs and targets, two arrays, not {len(data)}; use step_fn= for others",
                stage=what,
            )
        root = Root(model, (data[0][0],))
        core = _core._trace_step(root.node, root.update, root.leaves, type(model).__name__)
        return core, data, _core._Function.of_loss(False, False), loss
    require_callable("step_fn", step_fn)
    if not _in_python(model):
        raise _errors.NotSupportedError(
            f"{what} with step_fn= takes a module written in Python; put the layer into one, or give a loss", stage=what
        )
    # What the step function gives to the model says what to trace it on.
    found = []

    def look(*args):
        found.append(args)
        raise _Found

    with model_in_steps(model, look):
        try:
            step_fn(*unflatten(tree, [d[0] for d in data]))
        except _Found:
            pass
    if not found:
        raise _errors.CompilationError(f"the step function of {what} does not call model(x)", stage=what)
    root = Root(model, found[0])
    core = _core._trace_step(root.node, root.update, root.leaves, type(model).__name__)

    def step(slices):
        def call(*args):
            return unflatten(root.out_tree, _core._call_model(flatten(args)[0]))

        with model_in_steps(model, call):
            out = step_fn(*unflatten(tree, slices))
        value, extra = out if isinstance(out, tuple) and len(out) == 2 else (out, ())
        return value, flatten(extra)[0]

    return core, data, _core._Function.of_steps(), step


class _Found(BaseException):
    """Ends a step function that was only to say what it gives to the model."""


def verify(model, rule, *sequences, loss=None, step_fn=None, **options) -> _core.VerifyReport:
    """The gradient of a rule against BPTT, for every parameter, in single steps and windows, and lag by lag.

    `et.verify(model, et.D_RTRL(), xs, ys, et.loss.mse)`: the model as it stands; it is left as it was. Options:
    `windows`, `lags`, `finite_differences`, `full_rtrl`, `method`, `backend`, `compat`, `control_flow`.
    """
    core, data, step, function = _bench("verify", model, sequences, loss, step_fn)
    made = rule_of(rule)
    own = [made] if python_part(made) else []
    return _core._verify(core, made._rule, data, step, function, options, own)


def compare_rules(model, *sequences, rules=(), loss=None, step_fn=None, progress=None, **options):
    """Rules side by side on a model: memory, time, and how close each comes to BPTT.

    `et.compare_rules(model, xs, ys, et.loss.mse)`. Options: `single_step`, `windows`, `lags`, `repeats`, `seconds`,
    `backend`, `compat`, `control_flow`.
    """
    core, data, step, function = _bench("compare_rules", model, sequences, loss, step_fn)
    made = [rule_of(r) for r in rules]
    own = [r for r in made if python_part(r)]
    shown = None if progress is None else (lambda n, name: progress(n, name))
    return _core._compare_rules([(core, data)], [r._rule for r in made], step, function, shown, options, own)


def read_model(path) -> Model:
    """A model file: one traced step of a model, which `et.compile` takes in place of a module."""
    return Model(_core._read_model(path))


def save_parameters(model, path) -> None:
    """Parameters as a .safetensors or .npz file."""
    _core._save_parameters(node_of(model), path)


def load_parameters(model, path) -> None:
    """Nothing is changed unless all of them fit."""
    _core._load_parameters(node_of(model), path)
