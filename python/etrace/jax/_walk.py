"""A jaxpr of JAX becomes a program of a model file. Reads nothing that is private to JAX and works with 0.4.30 to
0.12: parameters are kept or dropped by table, and what stands in neither is refused by name. Start with `walk`.

Calls (`jit`, `checkpoint` …) are inlined, primitives without a counterpart are expanded (_expand.py), functions with
derivatives of their own bring their rules along."""

import os
import sysconfig

import jax
import jax.extend.core
import numpy as np

from .. import _core
from .._errors import NotSupportedError, Origin
from . import _expand, _mark
from ._program import Eqn, Literal, Program, Var, without_dead_code

_ELEMENT_TYPES = {"bool", "int32", "int64", "uint32", "float16", "bfloat16", "float32", "float64"}

# Parameters that an equation keeps, by primitive.
_KEPT = {name: params for name, (_, params) in _core._rows().items()}
# Parameters without bearing on the meaning, wherever they stand: where arrays lie, hints, derived types.
_DROPPED = {"accuracy", "sharding", "out_sharding", "out_type", "weak_type", "indices_are_sorted", "unique_indices",
            "update_jaxpr", "update_consts"}
_PRECISIONS = {"DEFAULT", "HIGH", "HIGHEST"}

# Calls, and the parameter that holds their body.
_CALLS = {"pjit": "jaxpr", "jit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
          "remat": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}
_IDENTITIES = {"random_wrap", "random_unwrap"}
_SILENT = {"debug_callback", "debug_print"}

_ADVICE = {
    "complex": "write the real and the imaginary part as two arrays",
    "real": "write the real and the imaginary part as two arrays",
    "imag": "write the real and the imaginary part as two arrays",
    "conj": "write the real and the imaginary part as two arrays",
    "fft": "multiply by the matrix of the transform",
    "pure_callback": "write the function in jax.numpy",
    "io_callback": "do input and output outside of the step",
    "custom_linear_solve": "solve before the step, or iterate in lax.scan",
    "lu": "solve before the step", "cholesky": "factorise before the step",
    "triangular_solve": "solve before the step", "eigh": "decompose before the step", "svd": "decompose before the step",
    "qr": "decompose before the step",
    "psum": "the step runs on one device: sum over an array axis",
    "all_gather": "the step runs on one device", "shard_map": "the step runs on one device",
    "random_gamma": "draw before the step and give it as an argument",
    "rng_bit_generator": "use the default generator, threefry",
    "scatter_mul": "use jnp.where with a mask", "scatter_min": "use jnp.where with a mask",
    "scatter_max": "use jnp.where with a mask",
    "reduce_window": "use max, min or sum over windows", "reduce": "use sum, max, min, prod, all or any",
    "igamma": "give its value as an argument", "ragged_dot_general": "use dot products of equal sizes",
}


# The user's line -------------------------------------------------------------------------------------------
_LIBRARIES = tuple({sysconfig.get_paths()[k] for k in ("stdlib", "purelib", "platlib")} |
                   {os.path.dirname(os.path.dirname(__file__))})


def user_frame(eqn):
    """Where the user's code makes this equation; None if JAX does not know (it cuts frames outside of what is traced,
    and keeps what it has traced before)."""
    traceback = getattr(eqn.source_info, "traceback", None)
    for frame in getattr(traceback, "frames", None) or ():
        if not frame.file_name.startswith((*_LIBRARIES, "<")):
            return frame
    return None


def _line(frame):
    return f"{os.path.basename(frame.file_name)}:{frame.line_num}" if frame else ""


# Types and parameters --------------------------------------------------------------------------------------
def is_key(dtype):
    return jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def type_of(aval):
    """Shape and name of the element type; a random key is uint32[..., 2]."""
    if is_key(aval.dtype):
        if "fry" not in str(aval.dtype):
            raise NotSupportedError(f"random keys of type {aval.dtype}: only the default generator, threefry, has a "
                                    "counterpart; make the keys with jax.random.key(seed)", stage="from jax")
        return (*map(int, aval.shape), 2), "uint32"
    name = np.dtype(aval.dtype).name if aval.dtype != jax.dtypes.float0 else "float0"
    if name not in _ELEMENT_TYPES:
        raise NotSupportedError(f"element type {name}: there are {', '.join(sorted(_ELEMENT_TYPES))}; convert with "
                                "astype", stage="from jax")
    return tuple(map(int, aval.shape)), name


def value_of(constant):
    """A constant as a NumPy array; keys as their data."""
    if is_key(getattr(constant, "dtype", np.dtype(bool))):
        constant = jax.random.key_data(constant)
    return np.asarray(constant)


def _plain(value):
    """A parameter's value as JSON knows it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "_asdict"):
        return {k: _plain(v) for k, v in value._asdict().items()}
    if hasattr(value, "__dataclass_fields__"):
        return {k: _plain(getattr(value, k)) for k in value.__dataclass_fields__}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "name") and hasattr(value, "value"):  # an enumeration
        return value.name
    return np.dtype(value).name


# Programs --------------------------------------------------------------------------------------------------
def _parts(closed):
    """Body and attached values; JAX 0.11 made closed and open programs one class."""
    return getattr(closed, "jaxpr", closed), list(getattr(closed, "consts", ()))


def _inputs(closed):
    """Variables that are inputs: those beyond the attached values."""
    body, consts = _parts(closed)
    return [*body.constvars, *body.invars][len(consts):]


def _live_eqns(body):
    live = {v for v in body.outvars if not isinstance(v, jax.extend.core.Literal)}
    kept = []
    for eqn in reversed(body.eqns):
        if eqn.effects or any(v in live for v in eqn.outvars):
            kept.append(eqn)
            live.update(v for v in eqn.invars if not isinstance(v, jax.extend.core.Literal))
    return kept[::-1]


def walk(closed, notes=None, within_rule=False, frame=None):
    """The program of a closed jaxpr. `notes` collects sentences on what was left out; `frame` is the user's line that
    holds for what has none of its own."""
    return _Walk([] if notes is None else notes, within_rule, frame).program(closed)


class _Walk:
    def __init__(self, notes, within_rule, frame):
        self.notes, self.within_rule, self.frame = notes, within_rule, frame
        self.consts, self.eqns = [], []

    def program(self, closed):
        invars = [self.variable(v.aval) for v in _inputs(closed)]
        outs = self.inline(closed, invars)
        return without_dead_code(Program(self.consts, invars, self.eqns, outs))

    def nested(self, closed):
        return walk(closed, self.notes, self.within_rule, self.frame)

    def refuse(self, message):
        at, origin = "", Origin()
        if self.frame:
            at, origin = _line(self.frame) + ": ", Origin((), self.frame.file_name, self.frame.line_num)
        raise NotSupportedError(at + message, stage="from jax", origin=origin)

    def variable(self, aval, what=""):
        try:
            return Var(*type_of(aval))
        except NotSupportedError as error:
            self.refuse(what + error.message)

    def inline(self, closed, ins):
        """Appends the equations of a program that is applied to `ins`; its results."""
        body, consts = _parts(closed)
        env = dict(zip([*body.constvars, *body.invars], [*map(self.constant, consts), *ins]))

        def atom(a):
            if not isinstance(a, jax.extend.core.Literal):
                return env[a]
            shape, dtype = type_of(a.aval)
            value = np.asarray(a.val, a.aval.dtype)
            return self.constant(value) if shape else Literal(value[()], dtype)

        outer = self.frame
        for eqn in _live_eqns(body):
            self.frame = user_frame(eqn) or outer
            env.update(zip(eqn.outvars, self.equation(eqn, [atom(a) for a in eqn.invars])))
        self.frame = outer
        return [atom(a) for a in body.outvars]

    def constant(self, value):
        value = value_of(value)
        var = Var(value.shape, value.dtype.name)
        if var.dtype not in _ELEMENT_TYPES:
            self.refuse(f"a constant of element type {var.dtype}; convert it with astype")
        self.consts.append((var, value))
        return var

    def append(self, eqn, prim, ins, params):
        outs = [self.variable(v.aval, eqn.primitive.name + ": ") for v in eqn.outvars]
        self.eqns.append(Eqn(prim, list(ins), outs, params, _line(self.frame)))
        return outs

    def equation(self, eqn, ins):
        """The results of one equation."""
        name = eqn.primitive.name.replace("-", "_")
        if name in _CALLS:
            return self.inline(eqn.params[_CALLS[name]], ins)
        if name in _IDENTITIES:
            return ins
        if name in _SILENT:
            self.notes.append(f"{_line(self.frame)}: {name} is left out")
            return [None for _ in eqn.outvars]
        if name in ("random_bits", "random_split") and not jax.config.jax_threefry_partitionable:
            self.refuse(f"{name} as JAX draws without jax_threefry_partitionable, its default before 0.5; set "
                        "jax.config.update('jax_threefry_partitionable', True), the default since")
        special = getattr(self, "on_" + name, None)
        if special is not None:
            return special(eqn, ins)
        if _mark.is_operator(eqn.primitive):
            return self.append(eqn, name, ins, _mark.operator_params(eqn, name, self.nested))
        if name in _KEPT:
            return self.kept(eqn, name, ins)
        if name in _expand.EXPANSIONS:
            return self.expand(eqn, name, ins)
        kind = "has an effect that cannot be converted" if eqn.effects else "has no counterpart"
        advice = _ADVICE.get(name, "express it by other operations of jax.numpy")
        self.refuse(f"the primitive '{name}' {kind}; {advice}")

    def kept(self, eqn, name, ins):
        params = self.kept_params(eqn, name)
        if any(is_key(v.aval.dtype) for v in eqn.invars) and not name.startswith("random_"):
            ins, params = self.on_keys(eqn, name, ins, params)
        return self.append(eqn, name, ins, params)

    def kept_params(self, eqn, name):
        out = {}
        for key, value in eqn.params.items():
            if key in _KEPT[name] and key not in _DROPPED:
                out[key] = _plain(value)
            elif key == "precision":
                words = {getattr(p, "name", str(p)) for p in (value if isinstance(value, tuple) else (value,))}
                if not words <= _PRECISIONS | {"None"}:
                    self.refuse(f"{name} with precision={value}: products are computed at the precision of their "
                                "element type; leave the precision out")
            elif value is not None and key not in _DROPPED:
                self.refuse(f"{name} with {key}={value}: this parameter has no counterpart; leave it out")
        return out

    def expand(self, eqn, name, ins):
        types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        try:
            closed = jax.make_jaxpr(_expand.EXPANSIONS[name](**eqn.params))(*types)
        except NotImplementedError as error:
            self.refuse(f"{name}: {error}")
        return self.inline(closed, ins)

    # Random keys ---------------------------------------------------------------------------------------------
    def on_random_seed(self, eqn, ins):
        self.variable(eqn.outvars[0].aval)
        aval = eqn.invars[0].aval
        return self.inline(jax.make_jaxpr(_expand.seeded_key)(jax.ShapeDtypeStruct(aval.shape, aval.dtype)), ins)

    def on_keys(self, eqn, name, ins, params):
        """What moves keys about, on their data: a further axis of two numbers behind all others."""
        rank = len(eqn.invars[0].aval.shape)
        further = {"slice": {"start_indices": 0, "limit_indices": 2, "strides": 1}, "reshape": {"new_sizes": 2},
                   "broadcast_in_dim": {"shape": 2, "broadcast_dimensions": len(eqn.outvars[0].aval.shape)},
                   "transpose": {"permutation": rank}, "dynamic_slice": {"slice_sizes": 2},
                   "dynamic_update_slice": {}, "squeeze": {}, "concatenate": {}, "stack": {}, "copy": {}, "rev": {}}
        if name == "gather":
            numbers = params["dimension_numbers"]
            numbers["offset_dims"] = [*numbers["offset_dims"], len(eqn.outvars[0].aval.shape)]
            return ins, {**params, "slice_sizes": [*params["slice_sizes"], 2]}
        if name not in further and (name != "select_n" or eqn.invars[0].aval.shape):
            self.refuse(f"{name} of random keys; apply it to jax.random.key_data(key)")
        if name.startswith("dynamic_"):
            ins = [*ins, Literal(0, ins[-1].dtype)]
        return ins, {k: [*v, further[name][k]] if k in further.get(name, {}) and v is not None else v
                     for k, v in params.items()}

    def on_random_fold_in(self, eqn, ins):
        """One key for many numbers, or one number for many keys, is spread first."""
        key, number = ins
        many = eqn.outvars[0].aval.shape
        if key.shape != (*many, 2):
            key = self.spread(key, (*many, 2), [len(many)])
        if number.shape != many:
            number = self.spread(number, many, [])
        return self.append(eqn, "random_fold_in", [key, number], {})

    def on_random_bits(self, eqn, ins):
        if eqn.params["bit_width"] != 32:
            self.refuse(f"random_bits of {eqn.params['bit_width']} bits: there are 32; draw numbers of type float32 or "
                        "int32 (dtype=jnp.float32) and convert them")
        return self.append(eqn, "random_bits", ins, {"bit_width": 32, "shape": _plain(eqn.params["shape"])})

    def on_dot_general(self, eqn, ins):
        """Operands of two types are multiplied in the type of the result."""
        kept = self.kept_params(eqn, "dot_general")
        if len({a.dtype for a in ins}) > 1:
            dtype = type_of(eqn.outvars[0].aval)[1]
            ins = [a if a.dtype == dtype else self.converted(a, dtype) for a in ins]
        return self.append(eqn, "dot_general", ins, kept)

    def on_select_n(self, eqn, ins):
        """What chooses among more than two is of 32 bits."""
        which, *cases = ins
        return self.kept(eqn, "select_n", [self.converted(which, "int32") if which.dtype == "int64" else which, *cases])

    def spread(self, atom, shape, axes):
        out = Var(tuple(shape), atom.dtype)
        params = {"shape": list(shape), "broadcast_dimensions": axes}
        self.eqns.append(Eqn("broadcast_in_dim", [atom], [out], params, _line(self.frame)))
        return out

    def converted(self, atom, dtype):
        out = Var(atom.shape, dtype)
        self.eqns.append(Eqn("convert_element_type", [atom], [out], {"new_dtype": dtype}, _line(self.frame)))
        return out

    # Control flow --------------------------------------------------------------------------------------------
    def on_scan(self, eqn, ins):
        """By ranks: what has one axis more than the body's input is an x, what has the rank of the body's output is
        a carry. JAX's own counts changed their form in 0.11."""
        closed = eqn.params["jaxpr"]
        inside = [len(v.aval.shape) for v in _inputs(closed)]
        xs = sum(len(v.aval.shape) > n for v, n in zip(eqn.invars, inside))
        carry = sum(len(v.aval.shape) == len(w.aval.shape) for v, w in zip(eqn.outvars, _parts(closed)[0].outvars))
        params = {"jaxpr": self.nested(closed), "length": int(eqn.params["length"]),
                  "reverse": bool(eqn.params["reverse"]), "num_carry": carry, "num_consts": len(ins) - xs - carry}
        return self.append(eqn, "scan", ins, params)

    def on_while(self, eqn, ins):
        cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
        consts, more = int(eqn.params["cond_nconsts"]), int(eqn.params["body_nconsts"])
        if _parts(cond)[0].outvars[0].aval.shape:
            cond, body = _decided_together(eqn, cond, body, consts, more)
            ins, more = [*ins[:consts], *ins], consts + more
        return self.append(eqn, "while", ins, {"cond_jaxpr": self.nested(cond), "body_jaxpr": self.nested(body),
                                               "cond_nconsts": consts, "body_nconsts": more})

    def on_platform_index(self, eqn, ins):
        """Which branch is meant for this processor."""
        platforms = [*eqn.params["platforms"], *([None] if eqn.params.get("has_default") else [])]  # before 0.5
        at = [i for i, names in enumerate(platforms) if names is None or "cpu" in names]
        if not at:
            self.refuse("a function for other platforms than the CPU; give lax.platform_dependent a default")
        return [Literal(at[0], "int32")]

    def on_cond(self, eqn, ins):
        branches = eqn.params["branches"]
        if isinstance(ins[0], Literal):  # known already
            return self.inline(branches[min(max(int(ins[0].value), 0), len(branches) - 1)], ins[1:])
        return self.append(eqn, "cond", ins, {"branches": [self.nested(b) for b in branches]})

    # Functions with derivatives of their own -----------------------------------------------------------------
    def on_custom_jvp_call(self, eqn, ins):
        params = {"call_jaxpr": self.nested(eqn.params["call_jaxpr"]), "num_consts": 0}
        if not self.within_rule:  # a rule may call the function: it has none again
            params["jvp_jaxpr"] = walk(_jvp_rule(eqn), self.notes, True, self.frame)
        return self.append(eqn, "custom_jvp_call", ins, params)

    def on_custom_vjp_call(self, eqn, ins):
        body = eqn.params["call_jaxpr"] if "call_jaxpr" in eqn.params else eqn.params["fun_jaxpr"]
        params = {"call_jaxpr": self.nested(body), "num_consts": 0}
        if not self.within_rule:
            fwd, bwd = _vjp_rules(eqn)
            params["fwd_jaxpr"] = walk(fwd, self.notes, True, self.frame)
            params["bwd_jaxpr"] = walk(bwd, self.notes, True, self.frame)
        return self.append(eqn, "custom_vjp_call", ins, params)

    on_custom_vjp_call_jaxpr = on_custom_vjp_call


def _types(variables):
    return [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in variables]


def _decided_together(eqn, cond, body, consts, more):
    """Condition and body of a loop with a condition per sample, as vmap makes it: it runs while one of them holds, and who
    is done keeps its values. The body reads the condition's constants, first."""
    goes_on, step = map(jax.extend.core.jaxpr_as_fun, (cond, body))
    types = _types(eqn.invars)

    def any_goes_on(*x):
        return jax.numpy.any(goes_on(*x)[0])

    def step_of_some(*x):
        carry = x[consts + more:]
        which = goes_on(*x[:consts], *carry)[0]
        return [jax.lax.select(jax.lax.broadcast_in_dim(which, new.shape, range(which.ndim)), new, old)
                for new, old in zip(step(*x[consts:]), carry)]
    return (jax.make_jaxpr(any_goes_on)(*types[:consts], *types[consts + more:]), jax.make_jaxpr(step_of_some)(*types))


def _function_of(eqn):
    """The equation as a function of its operands, each of them a variable of its own."""
    frame = _parts(jax.make_jaxpr(lambda *_: [0] * len(eqn.outvars))(*_types(eqn.invars)))[0]
    alone = frame.replace(eqns=[eqn.replace(invars=frame.invars)], outvars=list(eqn.outvars))
    return lambda *operands: jax.core.eval_jaxpr(alone, (), *operands)


def _differentiable(value):
    return jax.numpy.issubdtype(value.dtype, jax.numpy.floating)


def _tangent(value, tangent):
    """JAX wants tangents of whole numbers to be of type float0; a model file has zeros of their own type."""
    return tangent if _differentiable(value) else np.zeros(value.shape, jax.dtypes.float0)


def _zeros_for_float0(values, tangents):
    return [t if _differentiable(v) else jax.numpy.zeros(v.shape, v.dtype) for v, t in zip(values, tangents)]


def _jvp_rule(eqn):
    """(x…, dx…) -> (y…, dy…), by the function's own rule: the equation alone, differentiated by JAX."""
    call, n = _function_of(eqn), len(eqn.invars)

    def rule(*values):
        x, dx = values[:n], values[n:]
        y, dy = jax.jvp(call, tuple(x), tuple(map(_tangent, x, dx)))
        return [*y, *_zeros_for_float0(y, dy)]
    return jax.make_jaxpr(rule)(*_types(eqn.invars), *_types(eqn.invars))


def _vjp_rules(eqn):
    """fwd: x… -> (y…, x…); bwd: (x…, ct…) -> cotangents of x…, the forward part computed again."""
    call, n = _function_of(eqn), len(eqn.invars)

    def bwd(*values):
        x, ct = values[:n], values[n:]
        y, pull = jax.vjp(call, *x)
        return _zeros_for_float0(x, pull(list(map(_tangent, y, ct))))
    fwd = jax.make_jaxpr(lambda *x: [*call(*x), *x])(*_types(eqn.invars))
    return fwd, jax.make_jaxpr(bwd)(*_types(eqn.invars), *_types(eqn.outvars))
