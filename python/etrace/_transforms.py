"""Transformations and control flow on functions of trees: grad, vmap, scan, cond, jit …

Each flattens its trees, calls the engine on flat lists of arrays, and gives trees back.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

from . import _core
from . import _errors
from . import _trees as trees


class _Flat:
    """A function of trees as a function of flat lists. Remembers the form of what it returned."""

    def __init__(self, fun: Callable, form: trees.TreeDef, name: str):
        self.fun, self.form, self.name = fun, form, name
        self.out_form: trees.TreeDef | None = None

    def __call__(self, *leaves):
        args = trees.unflatten(self.form, leaves)
        return self.finish(self.fun(*args))

    def finish(self, result):
        out, form = trees.flatten(result)
        if self.out_form is not None and self.out_form != form:
            raise _errors.TypeError(
                f"the function returned {form} at one time and {self.out_form} at another", stage=self.name
            )
        self.out_form = form
        return out


def _arrays(leaves: Sequence) -> list:
    return [_core._leaf(x) for x in leaves]


def _first_values(leaves: Sequence) -> list:
    """What a loop starts from; bare numbers take the type that its body gives them."""
    return [_core._first_value(x) for x in leaves]


def _flat_args(args: tuple) -> tuple[list, trees.TreeDef]:
    leaves, form = trees.flatten(args)
    return _arrays(leaves), form


def _argnums(argnums, count: int, name: str) -> tuple[int, ...]:
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    out = []
    for i in wanted:
        if not -count <= i < count:
            raise _errors.ValueError(f"argnums names argument {i} of {count}", stage=name)
        out.append(i % count)
    if len(set(out)) != len(out):
        raise _errors.ValueError(f"argnums names an argument twice: {argnums}", stage=name)
    return tuple(out)


def _leaf_ranges(form: trees.TreeDef) -> list[range]:
    """Which leaves belong to which argument."""
    ranges, start = [], 0
    for child in form.children:
        ranges.append(range(start, start + child.num_leaves))
        start += child.num_leaves
    return ranges


# --- derivatives --------------------------------------------------------------------------------------------


def value_and_grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable:
    """The function that gives (fun(…), ∂fun/∂arguments).

    fun returns one float, or (float, anything) with has_aux. The gradient has the form of the argument; for several
    argnums it is a tuple of them.
    """

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        leaves, form = _flat_args(args)
        wanted = _argnums(argnums, len(args), "grad")
        ranges = _leaf_ranges(form)
        active = [i for a in wanted for i in ranges[a]]
        aux_form = None

        def flat(*xs):
            nonlocal aux_form
            out = fun(*trees.unflatten(form, xs), **kwargs)
            if has_aux:
                if not isinstance(out, tuple) or len(out) != 2:
                    raise _errors.TypeError("with has_aux the function returns (value, aux)", stage="grad")
                out, aux = out
            value = _scalar(out)
            if not has_aux:
                return [value]
            aux_leaves, aux_form = trees.flatten(aux)
            return [value, *aux_leaves]

        out = _core._value_and_grad(flat, leaves, active)
        n_aux = aux_form.num_leaves if has_aux else 0
        value, aux, grads = out[0], out[1 : 1 + n_aux], out[1 + n_aux :]
        by_argument, at = [], 0
        for a in wanted:
            n = len(ranges[a])
            by_argument.append(trees.unflatten(form.children[a], grads[at : at + n]))
            at += n
        gradient = by_argument[0] if isinstance(argnums, int) else tuple(by_argument)
        if has_aux:
            return (value, trees.unflatten(aux_form, aux)), gradient
        return value, gradient

    return wrapped


def _scalar(out):
    leaves, form = trees.flatten(out)
    if form.kind == "quantity":
        raise _errors.TypeError(
            f"the function returned a quantity in {form.static}; a gradient is taken of a plain number: divide by a "
            "unit, or use .to(unit)",
            stage="grad",
        )
    if len(leaves) != 1 or form.kind != "leaf":
        raise _errors.TypeError(
            f"a gradient is taken of one number, but the function returned {form}; has_aux=True allows (number, "
            "anything), et.jacrev takes derivatives of arrays",
            stage="grad",
        )
    return _core._leaf(leaves[0])


def grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable:
    """The function that gives ∂fun/∂arguments; (gradient, aux) with has_aux. See value_and_grad."""
    both = value_and_grad(fun, argnums, has_aux)

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def jvp(fun: Callable, primals: Sequence, tangents: Sequence) -> tuple[Any, Any]:
    """(fun(*primals), J·tangents): forward mode. Tangents have the forms and types of the primals."""
    leaves, form = _flat_args(tuple(primals))
    dleaves, dform = _flat_args(tuple(tangents))
    if dform != form:
        raise _errors.TypeError(f"tangents have the form {dform}, the primals {form}", stage="jvp")
    flat = _Flat(fun, form, "jvp")
    y, dy = _core._jvp(flat, leaves, dleaves)
    return trees.unflatten(flat.out_form, y), trees.unflatten(flat.out_form, dy)


def vjp(fun: Callable, *primals) -> tuple[Any, Callable]:
    """(fun(*primals), pullback): pullback(cotangent of the result) gives one cotangent per primal."""
    leaves, form = _flat_args(primals)
    flat = _Flat(fun, form, "vjp")
    y, pullback = _core._vjp(flat, leaves)
    out_form = flat.out_form

    def pull(cotangent):
        ct, ct_form = trees.flatten(cotangent)
        if ct_form != out_form:
            raise _errors.TypeError(f"the cotangent has the form {ct_form}, the result {out_form}", stage="vjp")
        return trees.unflatten(form, pullback(_arrays(ct)))

    return trees.unflatten(out_form, y), pull


def _jacobian(engine: Callable, fun: Callable, argnums, name: str) -> Callable:
    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        leaves, form = _flat_args(args)
        wanted = _argnums(argnums, len(args), name)
        ranges = _leaf_ranges(form)
        flat = _Flat(lambda *a: fun(*a, **kwargs), form, name)
        by_argument = []
        for a in wanted:
            columns = [engine(flat, leaves, i) for i in ranges[a]]  # per leaf of the argument, one per output
            rows = [
                trees.unflatten(form.children[a], [c[k] for c in columns]) for k in range(flat.out_form.num_leaves)
            ]
            by_argument.append(rows)
        results = [
            trees.unflatten(flat.out_form, [_Box(r) for r in rows]) for rows in by_argument
        ]
        results = [_unbox(r) for r in results]
        return results[0] if isinstance(argnums, int) else tuple(results)

    return wrapped


class _Box:
    """Hides a tree from `trees` while it stands for a leaf."""

    def __init__(self, value):
        self.value = value


def _unbox(tree):
    return trees.map(lambda b: b.value if isinstance(b, _Box) else b, tree)


def jacfwd(fun: Callable, argnums: int | Sequence[int] = 0) -> Callable:
    """The function that gives ∂y/∂x with shape y.shape + x.shape, by forward mode: for few inputs."""
    return _jacobian(_core._jacfwd, fun, argnums, "jacfwd")


def jacrev(fun: Callable, argnums: int | Sequence[int] = 0) -> Callable:
    """The function that gives ∂y/∂x with shape y.shape + x.shape, by reverse mode: for few outputs."""
    return _jacobian(_core._jacrev, fun, argnums, "jacrev")


def vmap(fun: Callable, in_axes: Any = 0, out_axes: Any = 0) -> Callable:
    """fun mapped over an axis of its arguments, without a loop.

    in_axes: the axis, one per argument (or tree of them), None for arguments that are not mapped.
    out_axes: where the mapped axis stands in the results.
    """

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        leaves, form = _flat_args(args)
        prefix = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        axes = []
        for leaf, axis in zip(leaves, trees.broadcast_prefix(prefix, form, "in_axes")):
            if axis is not None and not -leaf.ndim <= axis < leaf.ndim:
                raise _errors.ValueError(f"axis {axis} of an argument of shape {leaf.shape}", stage="vmap")
            axes.append(-1 if axis is None else axis % leaf.ndim)
        flat = _Flat(lambda *a: fun(*a, **kwargs), form, "vmap")
        out = _core._vmap(flat, leaves, axes)
        places = trees.broadcast_prefix(out_axes, flat.out_form, "out_axes")
        if any(p is None for p in places):
            raise _errors.NotSupportedError("out_axes=None; take one entry of the result instead", stage="vmap")
        out = [y if p == 0 else _core.moveaxis(y, 0, p) for y, p in zip(out, places)]
        return trees.unflatten(flat.out_form, out)

    return wrapped


# --- loops and branches ----------------------------------------------------------------------------------------


def scan(
    f: Callable,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint_every: int = 0,
) -> tuple[Any, Any]:
    """carry, y[t] = f(carry, x[t]) for t = 0 … length-1 (descending if reverse); gives (carry, ys).

    xs have a leading axis of that length; without xs, `length` must be given. Reverse mode keeps the residuals of
    `checkpoint_every` steps at a time and computes the others again (0: keeps all).
    """
    carry, carry_form = trees.flatten(init)
    x_leaves, x_form = trees.flatten(xs)
    carry, x_leaves = _first_values(carry), _arrays(x_leaves)
    y_form = None

    def body(c, x):
        nonlocal y_form
        out = f(trees.unflatten(carry_form, c), trees.unflatten(x_form, x))
        if not isinstance(out, tuple) or len(out) != 2:
            raise _errors.TypeError("the body of a scan returns (carry, y)", stage="scan")
        new, new_form = trees.flatten(out[0])
        if new_form != carry_form:
            raise _errors.TypeError(
                f"the body returned a carry of the form {new_form}, expected {carry_form}", stage="scan"
            )
        y, y_form = trees.flatten(out[1])
        return new, y

    out, ys = _core._scan(body, carry, x_leaves, -1 if length is None else length, reverse, checkpoint_every)
    return trees.unflatten(carry_form, out), trees.unflatten(y_form, ys)


def cond(predicate: Any, if_true: Callable, if_false: Callable, *operands) -> Any:
    """if_true(*operands) where the predicate holds, else if_false(*operands). Both give the same types."""
    leaves, form = _flat_args(operands)
    branches = [_Flat(if_true, form, "cond"), _Flat(if_false, form, "cond")]
    out = _core._cond(_core._leaf(predicate), *branches, leaves)
    return trees.unflatten(_common_form(branches, "cond"), out)


def switch_case(index: Any, branches: Sequence[Callable], *operands) -> Any:
    """branches[index](*operands); an index outside is moved to the nearest one inside."""
    leaves, form = _flat_args(operands)
    flat = [_Flat(b, form, "switch_case") for b in branches]
    out = _core._switch_case(_core._leaf(index), flat, leaves)
    return trees.unflatten(_common_form(flat, "switch_case"), out)


def _common_form(branches: Sequence[_Flat], name: str) -> trees.TreeDef:
    forms = [b.out_form for b in branches if b.out_form is not None]
    for form in forms:
        if form != forms[0]:
            raise _errors.TypeError(f"one branch returns {forms[0]}, another {form}", stage=name)
    return forms[0]


def while_loop(condition: Callable, body: Callable, init: Any) -> Any:
    """v = init; while condition(v): v = body(v). The form and the types of v stay the same."""
    leaves, form = trees.flatten(init)

    def flat_body(*xs):
        new, new_form = trees.flatten(body(trees.unflatten(form, xs)))
        if new_form != form:
            raise _errors.TypeError(f"the body returned {new_form}, expected {form}", stage="while_loop")
        return new

    out = _core._while_loop(lambda *xs: condition(trees.unflatten(form, xs)), flat_body, _first_values(leaves))
    return trees.unflatten(form, out)


def fori_loop(lower: Any, upper: Any, body: Callable, init: Any) -> Any:
    """v = init; for i in range(lower, upper): v = body(i, v)."""
    if not (isinstance(lower, int) and isinstance(upper, int)):
        lower, upper = _core._leaf(lower), _core._leaf(upper)
        start = lower if lower.dtype == upper.dtype else lower.astype(upper.dtype)
        _, out = while_loop(lambda v: v[0] < upper, lambda v: (v[0] + 1, body(v[0], v[1])), (start, init))
        return out
    leaves, form = trees.flatten(init)

    def flat_body(i, *xs):
        new, new_form = trees.flatten(body(i, trees.unflatten(form, xs)))
        if new_form != form:
            raise _errors.TypeError(f"the body returned {new_form}, expected {form}", stage="fori_loop")
        return new

    return trees.unflatten(form, _core._fori_loop(lower, upper, flat_body, _first_values(leaves)))


# --- functions of one's own derivative ----------------------------------------------------------------------------


class custom_jvp:
    """A function with a forward derivative of its own.

    @et.custom_jvp
    def f(x): …

    @f.defjvp
    def f_jvp(primals, tangents): return y, dy      # dy linear in the tangents
    """

    def __init__(self, fun: Callable):
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.rule: Callable | None = None

    def defjvp(self, rule: Callable) -> Callable:
        self.rule = rule
        return rule

    def __call__(self, *args):
        if self.rule is None:
            raise _errors.TypeError("the function has no rule; give one with @f.defjvp", stage="custom_jvp")
        leaves, form = _flat_args(args)
        flat = _Flat(self.fun, form, "custom_jvp")
        n = len(leaves)

        def rule(*both):
            out = self.rule(trees.unflatten(form, both[:n]), trees.unflatten(form, both[n:]))
            if not isinstance(out, tuple) or len(out) != 2:
                raise _errors.TypeError("the rule returns (value, tangent)", stage="custom_jvp")
            y, y_form = trees.flatten(out[0])
            dy, dy_form = trees.flatten(out[1])
            if y_form != dy_form or (flat.out_form is not None and y_form != flat.out_form):
                raise _errors.TypeError(
                    f"the rule returns values of the form {y_form} and tangents of the form {dy_form}; the function "
                    f"returns {flat.out_form}",
                    stage="custom_jvp",
                )
            return [*y, *dy]

        out = _core._custom_jvp(flat, rule, leaves)
        return trees.unflatten(flat.out_form, out)


class custom_vjp:
    """A function with a reverse derivative of its own.

    @et.custom_vjp
    def f(x): …

    f.defvjp(forward, backward)     # forward(*args) -> (y, residuals); backward(residuals, ct) -> cts of the arguments
    """

    def __init__(self, fun: Callable):
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.forward: Callable | None = None
        self.backward: Callable | None = None

    def defvjp(self, forward: Callable, backward: Callable) -> None:
        self.forward, self.backward = forward, backward

    def __call__(self, *args):
        if self.forward is None:
            raise _errors.TypeError("the function has no rule; give one with f.defvjp(fwd, bwd)", stage="custom_vjp")
        leaves, form = _flat_args(args)
        flat = _Flat(self.fun, form, "custom_vjp")
        residual_form = None

        def forward(*xs):
            nonlocal residual_form
            out = self.forward(*trees.unflatten(form, xs))
            if not isinstance(out, tuple) or len(out) != 2:
                raise _errors.TypeError("fwd returns (value, residuals)", stage="custom_vjp")
            residuals, residual_form = trees.flatten(out[1])
            return [*flat.finish(out[0]), *residuals]

        def backward(*all_):
            n = residual_form.num_leaves
            cts = self.backward(
                trees.unflatten(residual_form, all_[:n]), trees.unflatten(flat.out_form, all_[n:])
            )
            if not isinstance(cts, tuple):
                raise _errors.TypeError("bwd returns a tuple with one cotangent per argument", stage="custom_vjp")
            out, ct_form = trees.flatten(cts)
            if ct_form != form:
                raise _errors.TypeError(
                    f"bwd returns cotangents of the form {ct_form}, the arguments have {form}", stage="custom_vjp"
                )
            return out

        out = _core._custom_vjp(flat, forward, backward, leaves)
        return trees.unflatten(flat.out_form, out)


# --- programs ---------------------------------------------------------------------------------------------------


def make_jaxpr(fun: Callable) -> Callable:
    """The function that gives the program of fun for arguments of given types."""

    def wrapped(*args, **kwargs):
        leaves, form = _flat_args(args)
        return _core._make_jaxpr(_Flat(lambda *a: fun(*a, **kwargs), form, "make_jaxpr"), leaves)

    return wrapped


class JitFunction:
    """What et.jit makes: calls a program that was recorded once per form and types of the arguments."""

    def __init__(self, fun: Callable, static_argnums, static_argnames, backend: str | None):
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._static_argnums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self._static_argnames = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self._backend = backend
        self._programs: dict = {}

    def __call__(self, *args, **kwargs):
        if _core._as_written():
            return self._fun(*args, **kwargs)
        n = len(args)
        static = {i % n for i in self._static_argnums if -n <= i < n}
        fixed = tuple((i, args[i]) for i in sorted(static))
        fixed_names = tuple((k, kwargs[k]) for k in self._static_argnames if k in kwargs)
        moving = [a for i, a in enumerate(args) if i not in static]
        named = {k: v for k, v in kwargs.items() if k not in self._static_argnames}
        leaves, form = trees.flatten((moving, named))
        leaves = _arrays(leaves)
        try:
            kinds = tuple(type(v) for _, v in fixed + fixed_names)  # 1, 1.0 and True are equal, and not the same
            key = (n, form, fixed, fixed_names, kinds, tuple((a.shape, a.dtype) for a in leaves))
            found = self._programs.get(key)
        except TypeError as error:
            raise _errors.TypeError(f"static arguments must be hashable: {error}", stage="jit") from None
        if found is not None:
            program, out_form = found
            return trees.unflatten(out_form, program(leaves))

        def call(moved, names):
            rest = iter(moved)
            by_place = dict(fixed)
            return self._fun(*[by_place[i] if i in static else next(rest) for i in range(n)], **dict(fixed_names), **names)

        flat = _Flat(call, form, "jit")
        program = _core._jit(flat, leaves, self._backend or "")
        if program.closed:  # else it belongs to an enclosing trace or to values of states, and to this call only
            self._programs[key] = program, flat.out_form
        return trees.unflatten(flat.out_form, program(leaves))

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def clear_cache(self) -> None:
        """Forgets the recorded programs; the next call records again."""
        self._programs.clear()


def jit(
    fun: Callable | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    backend: str | None = None,
) -> Callable:
    """fun as one compiled program, recorded once for each form and types of its arguments.

    Arrays that fun reads from outside are constants of the program; a function that reads states (`net.w.value`) is
    recorded at every call. Static arguments are values that fun may branch
    on; another value means another program. backend: "auto" (native code, made in the background), "native",
    "interpreter"; None: what ETRACE_BACKEND says, else "auto".
    """
    if fun is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames, backend=backend)
    return JitFunction(fun, static_argnums, static_argnames, backend)
