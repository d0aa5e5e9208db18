"""Learners and rules with braintrace's signatures and return forms."""

from __future__ import annotations

from collections.abc import Mapping

import etrace as et

from .._errors import NotSupportedError, TypeError, ValueError
from .._learner import _LEARNER_OPTIONS, Learner
from .._module import init_all_states
from .._rules import LearningRule, rule_of
from .brainstate import States

_WITHOUT_EFFECT = ("fast_solve", "chunked_trace", "name")


class Gradients(Mapping):
    """Gradients by path, a tuple; `"a/b"` is accepted, too. An optimiser of this module takes them."""

    def __init__(self, values):
        self._values = values

    @staticmethod
    def _path(name):
        return tuple(int(p) if p.isdigit() else p for p in name.split("/"))

    def __getitem__(self, path):
        return self._values[path if isinstance(path, str) else "/".join(map(str, path))]

    def __iter__(self):
        return map(self._path, self._values)

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        return repr({path: self[path] for path in self})


class ETraceAlgorithm(Learner):
    """A learner with braintrace's return forms. `compile` makes it; so does `D_RTRL(model).compile_graph(x)`."""

    def __init__(self, model, rule, example, options):
        super().__init__(model, rule, example, options)
        self.model = model

    def etrace_grad(self, *sequences, step_fn=None, mask=None, chunk_size=None, weights=None, reduction="mean",
                    loss_output="per_step", has_aux=False, return_value=False):
        """grads, (grads, losses), (grads, aux) or (grads, losses, aux)."""
        if step_fn is None:
            raise TypeError("etrace_grad needs step_fn=, a function of one step's slices that calls the learner",
                            stage="etrace_grad")
        if weights is not None:
            raise NotSupportedError("etrace_grad(weights=) has no counterpart: gradients of all parameters are given; choose "
                                    "among them", stage="etrace_grad")
        if loss_output not in ("per_step", "masked", "scalar"):
            raise ValueError(f"loss_output is {loss_output!r}; there are 'per_step', 'masked' and 'scalar'",
                             stage="etrace_grad")
        options = {k: v for k, v in (("mask", mask), ("chunk_size", chunk_size)) if v is not None}
        result = super().etrace_grad(*sequences, step_fn=step_fn, reduction=reduction, **options)
        out = [Gradients(result.grads)]
        if return_value:
            losses = result.losses
            out.append({"per_step": losses, "scalar": et.asarray(result.loss),
                        "masked": losses if mask is None else losses * et.asarray(mask, dtype=losses.dtype)}[loss_output])
        if has_aux:
            out.append(result.aux)
        return out[0] if len(out) == 1 else tuple(out)

    def etrace_evolve(self, *sequences, step_fn=None, chunk_size=None, return_outputs=True):
        if step_fn is not None:
            raise NotSupportedError("etrace_evolve(step_fn=) has no counterpart: it gives the model's outputs; compute from "
                                    "them", stage="etrace_evolve")
        outputs = super().etrace_evolve(*sequences)
        return outputs if return_outputs else None

    @property
    def param_states(self):
        return States(self.model, et.ParamState)

    @property
    def hidden_states(self):
        return States(self.model, et.HiddenState)

    @property
    def other_states(self):
        return States(self.model, None, but=(et.ParamState, et.HiddenState))

    def reset_state(self, batch_size=None):
        """Traces start anew; brainstate.nn.reset_all_states does so for the states."""
        super().reset_state()

    def reset_model_state(self):
        super().reset_model_state()

    def compile_graph(self, *example):
        """Done by compile."""

    init_etrace_state = compile_graph

    @property
    def executor(self):
        raise NotSupportedError("learner.executor has no counterpart: programs are compiled as a whole; learner.plan shows "
                                "them", stage="braintrace")


ETraceVjpAlgorithm = SequenceDriverMixin = ETraceVmap = ETraceAlgorithm


class _Algorithm:
    """A rule by braintrace's name: `D_RTRL` in compile, `D_RTRL(**options)`, or `D_RTRL(model, **options)`, whose
    compile_graph(x) compiles."""

    def __init__(self, rule):
        self.rule = rule
        self.__doc__ = rule.__doc__
        self.__name__ = rule.__name__

    def __call__(self, model=None, **options):
        if model is None:
            return self.rule(**_without(options))
        return _Pending(model, self.rule, options)

    def __repr__(self):
        return f"braintrace.{self.__name__}"


class _Pending:
    """An algorithm that knows its model and no example yet."""

    def __init__(self, model, rule, options):
        self._parts, self._learner = (model, rule, options), None

    def compile_graph(self, *example):
        model, rule, options = self._parts
        self._learner = compile(model, rule, *example, **options)

    def __call__(self, *args):
        return self._ready()(*args)

    def _ready(self):
        if self._learner is None:
            raise ValueError("the algorithm has not been compiled; call compile_graph(example) first", stage="braintrace")
        return self._learner

    def __getattr__(self, name):
        return getattr(self._ready(), name)


def _without(options):
    return {k: v for k, v in options.items() if k not in _WITHOUT_EFFECT}


D_RTRL = ParamDimVjpAlgorithm = _Algorithm(et.D_RTRL)
pp_prop = ES_D_RTRL = IODimVjpAlgorithm = _Algorithm(et.pp_prop)
EProp, OSTLRecurrent, OSTLFeedforward = _Algorithm(et.EProp), _Algorithm(et.OSTLRecurrent), _Algorithm(et.OSTLFeedforward)
SnAp, ThreeFactor, DNI = _Algorithm(et.SnAp), _Algorithm(et.ThreeFactor), _Algorithm(et.DNI)
UORO = RandomProjectionVjpAlgorithm = _Algorithm(et.UORO)
_BY_NAME = {"ParamDimVjpAlgorithm": et.D_RTRL, "IODimVjpAlgorithm": et.pp_prop, "ES_D_RTRL": et.pp_prop,
            "RandomProjectionVjpAlgorithm": et.UORO}


def compile(model, algorithm, *example, batch_size=None, seed=None, verbose=0, vmap=False, **options):
    """A model and a rule as a learner. `algorithm`: a name of this module, a text, an ETraceConfig or a rule with its
    options; options of rule and learner stand in one list."""
    if isinstance(algorithm, _Algorithm):
        algorithm = algorithm.rule
    elif isinstance(algorithm, str):
        algorithm = _BY_NAME.get(algorithm, algorithm)
    options = _without(options)
    own = {k: options.pop(k) for k in _LEARNER_OPTIONS if k in options}
    own |= {k: v for k, v in (("batch_size", batch_size), ("seed", seed), ("vmap", vmap or None)) if v is not None}
    made = algorithm if isinstance(algorithm, LearningRule) and not options else rule_of(algorithm, options, _LEARNER_OPTIONS)
    if batch_size is not None:
        init_all_states(model)
    learner = ETraceAlgorithm(model, made, example, own)
    if verbose:
        print(learner.report.to_string(int(verbose)))
    return learner
