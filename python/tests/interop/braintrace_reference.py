"""What braintrace computes for a model: gradients of its online rules, as runs of a model file."""

import warnings

import brainstate
import braintrace
import jax
import jax.numpy as jnp
import numpy as np

from etrace.jax import _program

RULES = [("D_RTRL", braintrace.D_RTRL, {}),
         ("pp_prop", braintrace.pp_prop, {"decay_or_rank": 0.9}),
         ("EProp", braintrace.EProp, {"kappa_filter_decay": 0.8})]


def mantissa(value):
    return getattr(value, "mantissa", value)


def _grads(model, rule, options, xs, targets, batch):
    """Summed over all steps, from fresh states and traces."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = braintrace.compile(model, rule, xs[0], batch_size=batch, **options)
    params = model.states(brainstate.ParamState)

    def loss(x, target):
        return jnp.mean((mantissa(learner(x)) - target) ** 2)

    @brainstate.transform.jit
    def all_steps(xs, targets):
        per_step = brainstate.transform.for_loop(lambda x, t: brainstate.transform.grad(loss, params)(x, t), xs, targets)
        return jax.tree_util.tree_map(lambda g: g.sum(0), per_step)
    return all_steps(xs, targets)


def runs(make, xs, targets, batch, rules=None, outputs=True):
    """`make()` gives the model with its weights; the same ones every time."""
    model = make()
    brainstate.nn.init_all_states(model, **({} if batch is None else {"batch_size": batch}))
    results = brainstate.transform.for_loop(lambda x: mantissa(model(x)), xs)
    out = [{"id": "BPTT", "algorithm": "BPTT", "options": {}, "loss": "mse", "window": len(xs),
            "args": [_program.array(xs)], "targets": _program.array(targets), "outputs": _program.array(results)}]
    for name, rule, options in RULES:
        if rules is not None and name not in rules:
            continue
        try:
            grads = _grads(make(), rule, options, xs, targets, batch)
        except ValueError as error:
            if "only support one hidden state in a single equation" not in str(error):
                raise
            break
        out.append({"id": f"{name}/step", "algorithm": name, "options": options, "loss": "mse", "window": 1,
                    "vjp_method": "single-step", "compat": True, "graph": "diagonal",
                    "grads": {"/".join(map(str, path)): [_program.array(mantissa(g)) for g in jax.tree_util.tree_leaves(
                        value, is_leaf=lambda v: hasattr(v, "mantissa"))] for path, value in grads.items()}})
    return out


def draw(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))
