"""Is the gradient right, and which rule fits? A rule beside BPTT, and rules side by side."""

from __future__ import annotations

from . import _core
from . import _errors
from ._functions import loss_of_results, require_callable
from ._module import _in_python, model_in_steps, with_width_of
from ._rules import python_part, rule_of
from ._trace import Root
from ._trees import flatten, unflatten


def _recorded(root, model):
    """The model as a program, and as it was written where et.jit was met: None where it was not."""

    def record():
        return _core._trace_step(root.node, root.update, root.leaves, type(model).__name__)

    calls = _core._recorded_calls()
    core = record()
    return core, None if _core._recorded_calls() == calls else _core._record_as_written(record)


def _bench(what, model, sequences, loss, step_fn):
    """A traced model, the same as it was written, data, the function as the library knows it, and that called back."""
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
    data = [_core.asarray(d) for d in with_width_of(model, data)]
    if loss is not None:
        require_callable("loss", loss)
        if len(data) != 2:
            raise _errors.TypeError(
                f"{what} with a loss takes inputs and targets, two arrays, not {len(data)}; use step_fn= for others",
                stage=what,
            )
        root = Root(model, (data[0][0],))
        return *_recorded(root, model), data, _core._Function.of_loss(False, False), loss_of_results(loss, root.out_tree)
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
    core, as_written = _recorded(root, model)

    def step(slices):
        def call(*args):
            return unflatten(root.out_tree, _core._call_model(flatten(args)[0]))

        with model_in_steps(model, call):
            out = step_fn(*unflatten(tree, slices))
        value, extra = out if isinstance(out, tuple) and len(out) == 2 else (out, ())
        return value, flatten(extra)[0]

    return core, as_written, data, _core._Function.of_steps(), step


class _Found(BaseException):
    """Ends a step function that was only to say what it gives to the model."""


def verify(model, rule, *sequences, loss=None, step_fn=None, **options) -> _core.VerifyReport:
    """The gradient of a rule against BPTT, for every parameter, in single steps and windows, and lag by lag.

    `et.verify(model, et.D_RTRL(), xs, ys, et.loss.mse)`: the model as it stands; it is left as it was. Options:
    `windows`, `lags`, `finite_differences`, `full_rtrl`, `method`, `backend`, `compat`, `control_flow`.
    """
    core, as_written, data, step, function = _bench("verify", model, sequences, loss, step_fn)
    made = rule_of(rule)
    own = [made] if python_part(made) else []
    return _core._verify(core, as_written, made._rule, data, step, function, options, own)


def compare_rules(model, *sequences, rules=(), loss=None, step_fn=None, progress=None, **options):
    """Rules side by side on a model: memory, time, and how close each comes to BPTT.

    `et.compare_rules(model, xs, ys, et.loss.mse)`. Options: `single_step`, `windows`, `lags`, `repeats`, `seconds`,
    `backend`, `compat`, `control_flow`.
    """
    core, _, data, step, function = _bench("compare_rules", model, sequences, loss, step_fn)
    made = [rule_of(r) for r in rules]
    own = [r for r in made if python_part(r)]
    shown = None if progress is None else (lambda n, name: progress(n, name))
    return _core._compare_rules([(core, data)], [r._rule for r in made], step, function, shown, options, own)
