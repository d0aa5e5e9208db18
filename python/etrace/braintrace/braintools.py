"""Optimisers, initialisers, surrogates and metrics by braintools' names."""

from __future__ import annotations

import types

import numpy as np

import etrace as et

from .._errors import NotSupportedError, ValueError
from ._names import missing, plain, refuse_options


def _module(name, members, instead=None):
    module = types.ModuleType(f"{__name__}.{name}")
    module.__dict__.update(members)

    def absent(attribute):
        raise missing(f"braintools.{name}", attribute, instead or {})
    module.__getattr__ = absent
    return module


# Optimisers -------------------------------------------------------------------------------------------------
class Optimizer:
    """Bound to a model when its weights are registered, as there: `opt.register_trainable_weights(states)`."""

    _kind, _names, _fixed = "", {}, {}

    def __init__(self, lr=None, *, grad_clip_norm=None, grad_clip_value=None, weight_decay=0.0, **options):
        self.lr, self._optimizer = self._default if lr is None else lr, None
        options = {**self._fixed, **self._renamed(options)}
        for name, value in (("clip_norm", grad_clip_norm), ("clip_value", grad_clip_value)):
            if value is not None:
                options[name] = value
        if weight_decay:
            options["weight_decay"] = weight_decay
        self._options = options

    def _renamed(self, options):
        out = {}
        for name, value in options.items():
            if name == "betas":
                out |= {"beta1": value[0], "beta2": value[1]}
            elif name in self._names:
                out[self._names[name]] = value
            elif value:  # amsgrad=False says nothing
                refuse_options(f"braintools.optim.{type(self).__name__}", [name])
        return {k: v for k, v in out.items() if v is not None}

    def register_trainable_weights(self, weights):
        model = getattr(weights, "model", None)
        if model is None:
            raise ValueError("register_trainable_weights takes model.states(brainstate.ParamState) or learner.param_states",
                             stage="braintools.optim")
        every, given = set(et.params(model)), {"/".join(map(str, p)) for p in weights}
        options = dict(self._options)
        if every - given:
            options["frozen"] = sorted(every - given)
        self._optimizer = getattr(et.optim, self._kind)(model, _rate(self.lr), **options)

    def update(self, grads):
        if self._optimizer is None:
            raise ValueError("register_trainable_weights comes before update", stage="braintools.optim")
        self._optimizer.update(getattr(grads, "_values", grads))

    step = update

    @property
    def current_lr(self):
        return self._optimizer.learning_rate if self._optimizer is not None else _rate(self.lr)


def _optimizer(name, kind, default, names, fixed=None):
    return type(name, (Optimizer,), {"_kind": kind, "_default": default, "_names": names, "_fixed": fixed or {}})


_ADAM = {"beta1": "beta1", "beta2": "beta2", "eps": "epsilon"}


def _rate(lr):
    return lr.schedule if isinstance(lr, LRScheduler) else lr


class LRScheduler:
    def __init__(self, schedule):
        self.schedule = schedule

    def step_epoch(self):
        """Schedules count updates by themselves."""

    step = step_epoch


def _exponential(base_lr=0.001, decay_steps=1000, decay_rate=0.96, transition_begin=0, staircase=False, end_value=None,
                 last_epoch=0):
    if transition_begin or end_value is not None or last_epoch:
        raise NotSupportedError("ExponentialDecayLR with transition_begin, end_value or last_epoch; use a function of the "
                                "count of updates as learning rate", stage="braintools.optim")
    make = et.optim.step_decay if staircase else et.optim.exponential
    return LRScheduler(make(base_lr, decay_rate, decay_steps))


def _constant(base_lr=0.001, factor=1 / 3, total_iters=5, last_epoch=0):
    return LRScheduler(lambda step: base_lr * et.where(step < total_iters, factor, 1.0))


optim = _module("optim", {
    "Optimizer": Optimizer, "LRScheduler": LRScheduler,
    "Adam": _optimizer("Adam", "Adam", 1e-3, _ADAM), "AdamW": _optimizer("AdamW", "AdamW", 1e-3, _ADAM),
    "SGD": _optimizer("SGD", "SGD", 1e-3, {"momentum": "momentum", "nesterov": "nesterov"}),
    "Momentum": _optimizer("Momentum", "SGD", 1e-3, {"momentum": "momentum"}, {"momentum": 0.9}),
    "RMSprop": _optimizer("RMSprop", "RMSprop", 1e-2, {"eps": "epsilon", "alpha": "decay"}),
    "Adagrad": _optimizer("Adagrad", "Adagrad", 1e-2, {"eps": "epsilon"}),
    "Lion": _optimizer("Lion", "Lion", 1e-4, {"beta1": "beta1", "beta2": "beta2"}),
    "ExponentialDecayLR": _exponential, "ConstantLR": _constant,
    "StepLR": lambda base_lr=0.001, step_size=30, gamma=0.1: LRScheduler(et.optim.step_decay(base_lr, gamma, step_size)),
    "CosineAnnealingLR": lambda base_lr=0.001, T_max=50, eta_min=0.0: LRScheduler(
        et.optim.cosine(base_lr, T_max, final=eta_min)),
}, {"WarmupScheduler": "et.optim.linear_warmup", "MultiStepLR": "et.optim.piecewise"})


# Initial values ---------------------------------------------------------------------------------------------
class _Initial:
    """As option of a layer, `w_init=KaimingNormal()`, or called with a shape. Units are those of the layer: ms, mV, mA."""

    is_zero = False

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **_):
        if len(args) == 3:  # a layer asks: key, shape, type
            key, shape, dtype = args
        else:
            from . import brainstate

            shape, key, dtype = args[0], brainstate.random.split_key(), "float32"
        shape = (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)
        return self.function(key, shape, dtype)


def _scaled(maker, default):
    def make(scale=None, unit=None, **options):
        refuse_options(maker, {k for k, v in options.items() if v not in ("fan_in", "relu", 0.01)})
        law = getattr(et.nn.init.family_b, maker)(float(default if scale is None else scale))
        return _Initial(lambda key, shape, dtype: law(key, shape, dtype))
    return make


def _zero(unit=None):
    out = _Initial(lambda key, shape, dtype: et.zeros(shape, dtype=dtype))
    out.is_zero = True
    return out


def _value(value, unit=None):
    value = plain(value)
    out = _Initial(lambda key, shape, dtype: et.full(shape, value, dtype=dtype) if np.ndim(value) == 0
                   else et.broadcast_to(et.asarray(value, dtype=dtype), shape))
    out.is_zero = np.ndim(value) == 0 and float(value) == 0.0
    return out


def _param(value, shape=None, batch_size=None, allow_none=True, **_):
    """An initialiser called with the shape; a quantity as its number in ms, mV, mA, Ω or mS; numbers as they are."""
    if value is None and not allow_none:
        raise ValueError("init.param was given nothing", stage="braintools.init")
    if callable(value):
        shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
        return value(shape if batch_size is None else (batch_size, *shape))
    return plain(value)


init = _module("init", {
    "KaimingNormal": _scaled("kaiming_normal", 2.0), "KaimingUniform": _scaled("kaiming_uniform", 2.0),
    "XavierNormal": _scaled("xavier_normal", 1.0), "XavierUniform": _scaled("xavier_uniform", 1.0),
    "LecunNormal": _scaled("lecun_normal", 1.0), "LecunUniform": _scaled("lecun_uniform", 1.0),
    "Orthogonal": lambda scale=1.0, unit=None: _Initial(lambda k, s, d: et.nn.init.orthogonal(scale)(k, s, d)),
    "Identity": lambda scale=1.0, unit=None: _Initial(lambda k, s, d: et.nn.init.identity(scale)(k, s, d)),
    "ZeroInit": _zero, "Constant": _value,
    "Normal": lambda mean, std, unit=None: _Initial(
        lambda k, s, d: plain(mean) + plain(std) * et.random.normal(k, s, d)),
    "Uniform": lambda low, high, unit=None: _Initial(
        lambda k, s, d: plain(low) + (plain(high) - plain(low)) * et.random.uniform(k, s, d)),
    "param": _param,
})

# Surrogates -------------------------------------------------------------------------------------------------
_s = et.nn.surrogate
surrogate = _module("surrogate", {
    "ReluGrad": _s.relu_grad, "Sigmoid": _s.sigmoid, "Arctan": _s.arctan, "ERF": _s.erf, "SoftSign": _s.soft_sign,
    "MultiGaussianGrad": _s.multi_gaussian, "GaussianGrad": _s.gaussian, "InvSquareGrad": _s.inv_square,
    "SlayerGrad": _s.slayer, "QPseudoSpike": _s.q_pseudo_spike, "PiecewiseQuadratic": _s.piecewise_quadratic,
    "PiecewiseExp": _s.piecewise_exp, "LeakyRelu": _s.leaky_relu, "LogTailedRelu": _s.log_tailed_relu,
    "NonzeroSignLog": _s.nonzero_sign_log, "S2NN": lambda alpha=4.0, beta=1.0, epsilon=1e-8: _s.s2nn(alpha, beta),
    "PiecewiseLeakyRelu": lambda c=0.01, w=1.0: _s.piecewise_leaky_relu(c, w),
    "SquarewaveFourierSeries": lambda n=2, t_period=8.0: _s.squarewave_fourier(n, t_period),
})


# Metrics: per sample and per element, not their mean --------------------------------------------------------
def _cross_entropy(logits, labels):
    logits = et.asarray(logits)
    log = et.log_softmax(logits, axis=-1) if hasattr(et, "log_softmax") else et.nn.log_softmax(logits)
    kinds = logits.shape[-1]
    hot = et.asarray(labels)[..., None] == et.asarray(np.arange(kinds, dtype=np.int32))
    return -(et.where(hot, log, et.zeros_like(log))).sum(axis=-1)


metric = _module("metric", {
    "softmax_cross_entropy_with_integer_labels": _cross_entropy,
    "squared_error": lambda predictions, targets: (predictions - targets) ** 2,
    "absolute_error": lambda predictions, targets: et.abs(predictions - targets),
}, {"accuracy": "et.metrics.accuracy"})

_INSTEAD = {"visualize": "matplotlib itself", "cogtask": "et.tasks", "conn": "et.nn.connect", "input": "et.tasks"}


def __getattr__(name):
    raise missing("braintools", name, _INSTEAD)
