"""Learners: a model and a learning rule, compiled.

    learner = et.compile(model, et.D_RTRL(), et.zeros((1, 3)), batch_size=1)
    result = learner.etrace_grad(xs, ys, et.loss.mse)
    optimizer.update(result.grads)
"""

from __future__ import annotations

import numbers
import types
import weakref
from typing import Any, NamedTuple

from . import _core
from . import _errors
from ._functions import FunctionCache, loss_of_results, require_callable
from ._graph import ETraceGraph, Plan, Report
from ._module import init_all_states
from ._progress import shown as progress_of
from ._rules import python_part, rule_of
from ._trace import Model, Root
from ._trees import flatten, is_leaf, results_of, unflatten

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


def _never():
    """A reference to nothing."""
    return _never


_as_they_are = tuple.__new__  # a named tuple of the parts of another one


class SequenceGradient(NamedTuple):
    """What `Learner.etrace_grad` gives."""

    grads: _core.ParamValues  #: by name
    losses: Any  #: [T], as the step function gives them
    loss: float  #: weighted and reduced
    aux: Any  #: stacked over the calls of the step function

    def __repr__(self) -> str:
        return f"SequenceGradient(loss={self.loss:.6g}, losses: {_steps(self.losses)}, grads of {len(self.grads)} parameters)"


class SequenceTraining(NamedTuple):
    """What `Learner.etrace_train` gives."""

    losses: Any  #: [T]
    loss: float
    aux: Any
    updates: int  #: of the parameters

    def __repr__(self) -> str:
        return f"SequenceTraining(loss={self.loss:.6g}, losses: {_steps(self.losses)}, updates={self.updates})"


class EligibilityTrace(NamedTuple):
    name: str  #: "relation0/group0/weight"
    value: Any  #: ([B], slots…, S)
    params: list  #: whose trace it is


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
        self._last = _never, None  # the loss of the last call, and what was recorded of it

    # Steps ---------------------------------------------------------------------------------------------------------
    def update(self, *args):
        """One step, or several with et.MultiStepData; states and traces move on, there is no gradient.

        Inside a step function that is being recorded it is the model's step in it.
        """
        leaves, _ = flatten(args)
        return self._results(self._update(leaves))

    __call__ = update

    def _results(self, flat):
        return results_of(self._out_tree, flat)

    def bind_step(self, loss, optimizer=None) -> None:
        """The loss of steps with a target, and the optimiser that updates the parameters after each.

        The loss is a function of what the model returns and the target, recorded with the first target.
        """
        if not callable(loss):
            raise _errors.TypeError(
                f"bind_step takes a loss, a function of what the model returns and the target, not {loss!r}", stage="step"
            )
        self._bind_step(loss_of_results(loss, self._out_tree), optimizer)

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
                    f"{what} with a loss takes inputs and targets, two arrays, not {len(data)}; lists are trees of arrays: "
                    "give numpy.asarray(list), or use step_fn= for other data",
                    stage=what,
                )
            chunk, mask = options.get("chunk_size"), options.get("mask")
            windows = isinstance(chunk, numbers.Integral) and chunk > 1
            if mask is not None:
                mask = options["mask"] = _core.asarray(mask)
            per_sample = mask is not None and mask.ndim == 2
            recorded = self._functions.find(
                loss, ("loss", windows, per_sample), lambda: _core._Function.of_loss(windows, per_sample)
            )
            if isinstance(loss, types.FunctionType) and not windows and not per_sample:
                self._last = weakref.ref(loss), recorded
            return data, recorded, loss_of_results(loss, self._out_tree)
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
        if len(sequences) == 3 and not options and loss is step_fn is progress is None:
            known, recorded = self._last
            xs, ys, loss = sequences
            if known() is loss is not None and is_leaf(xs) and is_leaf(ys):  # the last call again: quickly
                function = loss_of_results(loss, self._out_tree)
                return _as_they_are(SequenceGradient, self._grad((xs, ys), recorded.step, function, options, None))
            loss = None
        data, recorded, function = self._recorded("etrace_grad", sequences, loss, step_fn, options)
        with progress_of(progress, data, "etrace_grad") as told:
            grads, losses, total, aux = self._grad(data, recorded.step, function, options, told)
        return SequenceGradient(grads, losses, total, self._aux(recorded, aux))

    def etrace_train(
        self, *sequences, optimizer=None, loss=None, step_fn=None, progress=None, **options
    ) -> SequenceTraining:
        """The same with updates of the parameters on the way.

        `etrace_train(xs, ys, et.loss.mse, optimizer)`. Options of `etrace_grad`, and `update`: "sequence" (one update
        at the end), "window" or "step"; `window`: steps between updates of "window".
        """
        if optimizer is None and sequences and isinstance(sequences[-1], _core._Optimizer):
            *sequences, optimizer = sequences
        if optimizer is None:
            raise _errors.TypeError(
                "etrace_train needs an optimiser of the model: etrace_train(xs, ys, et.loss.mse, optimizer)",
                stage="etrace_train",
            )
        data, recorded, function = self._recorded("etrace_train", sequences, loss, step_fn, options)
        with progress_of(progress, data, "etrace_train") as told:
            losses, total, aux, updates = self._train(data, recorded.step, function, optimizer, options, told)
        return SequenceTraining(losses, total, self._aux(recorded, aux), updates)

    def etrace_evolve(self, *sequences, mask=None, freeze: bool = False, progress=None):
        """Runs through without gradients; the model's results, time first."""
        data, _ = flatten(sequences)
        with progress_of(progress, data, "etrace_evolve") as told:
            return self._results(self._evolve(data, mask, freeze, told))

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
        if "rule" not in self.__dict__:  # compiling has failed, and somebody looks at what is left
            return "Learner(not compiled)"
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


def _steps(losses) -> str:
    return "1 step" if losses.shape == (1,) else f"{losses.shape[0]} steps"


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
    made = rule_of(rule, options, _LEARNER_OPTIONS)
    if own.get("batch_size") is not None and not isinstance(model, Model):
        init_all_states(model)
    learner = Learner(model, made, example, own)
    if verbose:
        print(learner.report.to_string(verbose))
        print("Sequences run " + learner.execution)
    return learner
