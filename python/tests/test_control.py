"""Derivatives, mapping, loops, branches and compiled functions, on trees."""

import copy
import dataclasses
import pickle
from typing import NamedTuple

import numpy as np
import pytest

import etrace as et


class Pair(NamedTuple):
    a: object
    b: object


@dataclasses.dataclass
class Point:
    x: object
    y: object


X = np.array([0.5, -1.0, 2.0])


def close(got, want, **options):
    np.testing.assert_allclose(np.asarray(got), want, **{"rtol": 1e-9, **options})


def numeric(f, x, eps=1e-6):
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += eps
        down[i] -= eps
        g[i] = (float(f(up)) - float(f(down))) / (2 * eps)
    return g


# --- trees ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tree", [
    1.0, None, (), [], {}, (1, [2, {"b": 3, "a": None}]), Pair(1, (2,)), Point(1, [2]), {3: 1, "x": 2},
])
def test_trees_go_around(tree):
    leaves, form = et.tree.flatten(tree)
    assert et.tree.unflatten(form, leaves) == tree
    assert form == et.tree.structure(tree) and hash(form) == hash(et.tree.structure(tree))
    assert "TreeDef" not in repr(form)


def test_tree_functions():
    assert et.tree.map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]}) == {"x": [11, 22]}
    assert et.tree.leaves({"b": 1, "a": 2}) == [2, 1]
    with pytest.raises(ValueError, match="different forms"):
        et.tree.map(lambda a, b: a, [1], (1,))
    with pytest.raises(ValueError, match="leaves"):
        et.tree.unflatten(et.tree.structure([1, 2]), [1])
    q = {"v": et.array([1.0]) * et.units.mV}
    leaves, form = et.tree.flatten(q)
    assert leaves[0].tolist() == [1] and et.tree.unflatten(form, leaves)["v"].unit == et.units.mV


# --- derivatives ------------------------------------------------------------------------------------------------


def test_grad_against_differences():
    f = lambda x: et.sum(et.tanh(x) * et.exp(-x) + x**3)  # noqa: E731
    close(et.grad(f)(X), numeric(lambda v: f(et.asarray(v)), X), rtol=1e-5)


def test_grad_of_trees_and_argnums():
    def f(p, x, *, scale=1.0):
        return et.sum(p["w"] * x) * scale + et.sum(p["b"] ** 2)

    p = {"w": X, "b": (np.ones(2),)}
    p["b"] = p["b"][0]
    g = et.grad(f)(p, X * 3, scale=2.0)
    close(g["w"], 6 * X)
    close(g["b"], [2, 2])
    value, (gx, gp) = et.value_and_grad(f, argnums=(1, 0))(p, X * 3)
    close(gx, X)
    close(gp["w"], 3 * X)
    assert value.shape == ()
    (value, aux), g = et.value_and_grad(lambda x: (et.sum(x * x), {"twice": 2 * x}), has_aux=True)(X)
    close(aux["twice"], 2 * X)
    g, aux = et.grad(lambda x: (et.sum(x * x), x), has_aux=True)(X)
    close(g, 2 * X)
    close(et.grad(f, argnums=-1)(p, X), X)
    close(et.grad(et.grad(lambda x: x**3))(2.0), 12)


@pytest.mark.parametrize("f, text", [
    (lambda x: x, "take et.sum or et.mean"),
    (lambda x: (x[0], x[1]), "has_aux=True"),
    (lambda x: et.sum(x).astype("int32"), "one float"),
    (lambda x: et.sum(x) * et.units.mV, "quantity in mV"),
    (lambda x: "text", "returned|no array"),
])
def test_what_has_no_gradient(f, text):
    with pytest.raises(TypeError, match=text):
        et.grad(f)(X)


def test_argnums_are_checked():
    with pytest.raises(ValueError, match="argnums names argument 2 of 1"):
        et.grad(lambda x: et.sum(x), argnums=2)(X)
    with pytest.raises(ValueError, match="twice"):
        et.grad(lambda x: et.sum(x), argnums=(0, -1))(X)
    with pytest.raises(TypeError, match="no gradient"):
        et.grad(lambda x: et.sum(x) * 1.0)(np.array([1, 2]))


def test_jvp_and_vjp():
    f = lambda x, y: (et.sin(x) * y, {"s": et.sum(x)})  # noqa: E731
    y = np.array([1.0, 2.0, 3.0])
    dx, dy = np.array([1.0, 0, 2]), np.array([0.5, 1, 0])
    (out, more), (dout, dmore) = et.jvp(f, (X, y), (dx, dy))
    close(out, np.sin(X) * y)
    close(dout, np.cos(X) * y * dx + np.sin(X) * dy)
    close(dmore["s"], 3)
    (out, more), pull = et.vjp(f, X, y)
    ct = np.array([1.0, -1, 2])
    for factor in (1.0, 2.0):  # as often as one likes
        gx, gy = pull((factor * ct, {"s": np.array(5.0)}))
        close(gx, factor * ct * np.cos(X) * y + 5)
        close(gy, factor * ct * np.sin(X))
    with pytest.raises(TypeError, match="cotangent"):
        pull((ct.astype(np.float32), {"s": np.array(5.0)}))
    with pytest.raises(TypeError, match="form"):
        pull(ct)
    with pytest.raises(TypeError, match="tangent of type f32"):
        et.jvp(f, (X, y), (dx, dy.astype(np.float32)))


def test_integers_beside_floats_in_vjp():
    out, pull = et.vjp(lambda x, i: x[i] * 2.0, X, np.array([0, 2]))
    gx, gi = pull(np.ones(2))
    close(gx, [2, 0, 2])
    assert gi.tolist() == [0, 0]


@pytest.mark.parametrize("jacobian", [et.jacfwd, et.jacrev])
def test_jacobians(jacobian):
    a = np.arange(6.0).reshape(2, 3)
    close(jacobian(lambda x: et.dot(a, x))(X), a)
    j = jacobian(lambda p: {"y": p["u"] * p["v"]})({"u": X, "v": 2 * X})
    close(j["y"]["u"], np.diag(2 * X))
    close(j["y"]["v"], np.diag(X))
    jx, jy = jacobian(lambda x, y: x * y, argnums=(0, 1))(X, 2 * X)
    close(jx, np.diag(2 * X))
    close(jy, np.diag(X))
    assert jacobian(lambda x: et.outer(x, x))(X).shape == (3, 3, 3)


# --- vmap -----------------------------------------------------------------------------------------------------------


def test_vmap():
    m = np.arange(6.0).reshape(2, 3)
    close(et.vmap(et.sum)(m), m.sum(1))
    close(et.vmap(et.sum, in_axes=1)(m), m.sum(0))
    close(et.vmap(lambda a, b: a * b, in_axes=(0, None))(m, X), m * X)
    close(et.vmap(lambda a: a * 2, out_axes=1)(m), 2 * m.T)
    out = et.vmap(lambda p, x: {"y": p["w"] * x}, in_axes=({"w": None}, 0))({"w": X}, m)
    close(out["y"], X * m)
    close(et.vmap(lambda a: et.ones(2))(m), np.ones((2, 2)))
    close(et.vmap(et.grad(lambda a: et.sum(a**2)))(m), 2 * m)
    close(et.vmap(lambda a, b: et.dot(a, b), in_axes=(-1, 0))(m.T, m), (m * m).sum(1))
    with pytest.raises(ValueError, match="sizes 2 and 3"):
        et.vmap(lambda a, b: a)(m, X)
    with pytest.raises(ValueError, match="no argument is mapped"):
        et.vmap(lambda a: a, in_axes=None)(m)
    with pytest.raises(ValueError, match="axis 3"):
        et.vmap(lambda a: a, in_axes=3)(m)
    with pytest.raises(ValueError, match="in_axes has 1 entries for 2"):
        et.vmap(lambda a, b: a, in_axes=(0,))(m, m)


# --- loops and branches ------------------------------------------------------------------------------------------------


def test_scan():
    xs = {"x": np.arange(12.0).reshape(4, 3)}

    def f(carry, x):
        carry = Pair(carry.a + x["x"], carry.b * 2)
        return carry, (carry.a, carry.b)

    carry, (a, b) = et.scan(f, Pair(np.zeros(3), np.array(1.0)), xs)
    close(a, np.cumsum(xs["x"], 0))
    assert b.tolist() == [2, 4, 8, 16] and carry.b.item() == 16
    carry, ys = et.scan(lambda c, _: (c + 1, c), 0, length=3)
    assert carry.item() == 3 and ys.tolist() == [0, 1, 2]
    _, ys = et.scan(lambda c, x: (c + x, c), 0.0, np.ones(3, np.float32), reverse=True)
    assert ys.tolist() == [2, 1, 0]
    carry, ys = et.scan(lambda c, x: (c + x, None), 0.0, np.ones(3, np.float32))
    assert ys is None and carry.item() == 3
    for every in (0, 2):
        f = lambda w: et.scan(lambda c, x: (et.tanh(c * w + x), None), 0.0 * w, X, checkpoint_every=every)[0]  # noqa: E731
        close(et.grad(f)(np.array(0.7)), numeric(f, np.array(0.7)), rtol=1e-6)


@pytest.mark.parametrize("f, text", [
    (lambda c, x: c, r"returns \(carry, y\)"),
    (lambda c, x: ((c, c), x), "form"),
    (lambda c, x: (et.ones(2), x), "carry"),
])
def test_scan_is_checked(f, text):
    with pytest.raises((TypeError, ValueError, et.Error), match=text):
        et.scan(f, 0.0, X)


def test_bare_numbers_take_the_type_of_the_carry():
    xs = np.arange(4.0)
    ys = et.array(xs)
    carry, sums = et.scan(lambda c, x: ((c[0] + x, c[1] + 1), c[0]), (0, 0), xs)
    assert (carry[0].dtype, carry[1].dtype, sums.dtype) == (et.float64, et.int32, et.float64) and carry[0].item() == 6
    assert et.while_loop(lambda c: c < 2, lambda c: c + ys[1], 0).dtype == et.float64
    assert et.fori_loop(0, 3, lambda i, c: c + ys[i], 0.0).item() == 3
    with pytest.raises(RuntimeError, match="what a loop carries keeps its type"):
        et.scan(lambda c, x: (c + x, None), np.float32(0), xs)
    with pytest.raises(ValueError, match="the index is an i32"):
        et.fori_loop(2**40, 2**40 + 2, lambda i, c: c + i, 0)


def test_scan_without_a_length():
    with pytest.raises(ValueError, match="length"):
        et.scan(lambda c, x: (c, c), 0.0)
    with pytest.raises(ValueError):
        et.scan(lambda c, x: (c, c), 0.0, (np.ones(3), np.ones(4)))


def test_cond_and_switch():
    f = et.jit(lambda p, x: et.cond(p, lambda a: {"y": a + 1}, lambda a: {"y": a * 2}, x))
    close(f(True, X)["y"], X + 1)
    close(f(False, X)["y"], X * 2)
    branches = [lambda a: a, lambda a: -a, lambda a: a * 0]
    for i, want in [(0, X), (1, -X), (2, 0 * X), (9, 0 * X), (-5, X)]:
        close(et.switch_case(i, branches, X), want)
    with pytest.raises(TypeError, match="one truth value"):
        et.cond(X > 0, lambda: 1, lambda: 2)
    with pytest.raises(TypeError, match="truth value"):
        et.cond(1.0, lambda: 1, lambda: 2)
    with pytest.raises(TypeError, match="one branch returns"):
        et.jit(lambda p: et.cond(p, lambda: (1.0,), lambda: [2.0]))(True)
    with pytest.raises((TypeError, et.Error)):
        et.jit(lambda p: et.cond(p, lambda: et.ones(2), lambda: et.ones(3)))(True)


def test_while_and_fori():
    assert et.while_loop(lambda v: v["i"] < 10, lambda v: {"i": v["i"] * 2}, {"i": 1})["i"].item() == 16
    assert et.fori_loop(0, 5, lambda i, v: v + i, 0).item() == 10
    assert et.jit(lambda n: et.fori_loop(0, n, lambda i, v: v + i, 0))(6).item() == 15
    assert et.fori_loop(3, 3, lambda i, v: v + 1, 7).item() == 7
    with pytest.raises(TypeError, match="form|returned"):
        et.while_loop(lambda v: v < 3, lambda v: (v, v), 1)
    with pytest.raises(TypeError, match="truth value"):
        et.while_loop(lambda v: v, lambda v: v, 1.0)


# --- derivatives of one's own ---------------------------------------------------------------------------------------------


def test_custom_jvp():
    @et.custom_jvp
    def f(x, s):
        """A function of mine."""
        return {"y": et.abs(x) * s}

    with pytest.raises(TypeError, match="defjvp"):
        f(X, 1.0)

    @f.defjvp
    def f_jvp(primals, tangents):
        x, s = primals
        dx, ds = tangents
        return {"y": et.abs(x) * s}, {"y": 10.0 * dx + ds * et.abs(x)}

    assert f.__doc__ == "A function of mine."
    close(f(X, 2.0)["y"], 2 * np.abs(X))
    close(et.grad(lambda x: et.sum(f(x, 2.0)["y"]))(X), [10, 10, 10])
    close(et.vmap(et.grad(lambda x: et.sum(f(x, 2.0)["y"])))(np.ones((2, 3))), np.full((2, 3), 10))


def test_custom_vjp():
    @et.custom_vjp
    def f(x, y):
        return et.sum(x) * y

    f.defvjp(lambda x, y: (et.sum(x) * y, (x, y)), lambda res, ct: (7.0 * ct * res[0], ct * res[1]))
    gx, gy = et.grad(f, argnums=(0, 1))(X, np.array(2.0))
    close(gx, 7 * X)
    close(gy, 2)
    f.defvjp(lambda x, y: et.sum(x), lambda res, ct: ct)
    with pytest.raises(TypeError, match="value, residuals"):
        f(X, np.array(2.0))


# --- programs -------------------------------------------------------------------------------------------------------------


def test_jit_records_once_per_type():
    calls = []

    @et.jit
    def f(x, flag=False, *, power=2):
        """Doc."""
        calls.append(x.shape)
        return {"y": x**power if flag else x}

    f = et.jit(f._fun, static_argnums=1, static_argnames="power")
    assert f.__doc__ == "Doc."
    close(f(X, True)["y"], X**2)
    close(f(X + 1, True)["y"], (X + 1) ** 2)
    close(f(X, False)["y"], X)
    close(f(X, True, power=3)["y"], X**3)
    f(np.ones((2, 2)), True)
    f(X.astype(np.float32), True)
    assert calls == [(3,), (3,), (3,), (2, 2), (3,)]
    f.clear_cache()
    f(X, True)
    assert len(calls) == 6


def test_static_arguments_that_are_equal_but_not_the_same():
    f = et.jit(lambda x, s: x * (2 if s is True else 3), static_argnums=1)
    assert f(1.0, 1).item() == 3 and f(1.0, True).item() == 2 and f(1.0, 1.0).item() == 3
    with pytest.raises(TypeError, match="hashable"):
        f(1.0, [1])


@pytest.mark.parametrize("backend", ["interpreter", "native", "auto"])
def test_jit_by_every_backend(backend):
    f = et.jit(lambda x, w: et.tanh(et.dot(x, w)) + 1, backend=backend)
    x, w = np.random.default_rng(0).standard_normal((2, 3, 3))
    for _ in range(2):
        close(f(x, w), np.tanh(x @ w) + 1, rtol=1e-7)


def test_jit_without_arguments_or_results():
    assert et.jit(lambda: et.ones(2))().tolist() == [1, 1]
    assert et.jit(lambda x: None)(1.0) is None
    with pytest.raises(ValueError, match="backend|no"):
        et.jit(lambda x: x, backend="abacus")(1.0)


def test_jit_inside_other_transformations():
    f = et.jit(lambda x: et.sum(x**2))
    close(et.grad(f)(X), 2 * X)
    close(et.vmap(f)(np.ones((2, 3))), [3, 3])
    close(et.jit(et.grad(f))(X), 2 * X)
    outer = et.jit(lambda y: et.jit(lambda x: x * y)(y + 1))  # the inner one uses a value of the outer trace
    assert outer(2.0).item() == 6 and outer(3.0).item() == 12
    assert "jit" in str(et.make_jaxpr(f)(X))

    class Thing:
        @et.jit
        def method(self, x):
            return x

    with pytest.raises(TypeError):  # self is no array: it would have to be static
        Thing().method(1.0)


def test_exceptions_pass_through_unchanged():
    class Mine(Exception):
        pass

    def bad(*args):
        raise Mine("here")

    for call in (lambda: et.jit(bad)(1.0), lambda: et.grad(bad)(1.0), lambda: et.vmap(bad)(X), lambda: et.scan(bad, 0.0, X),
                 lambda: et.cond(True, bad, bad), lambda: et.while_loop(bad, bad, 1.0), lambda: et.make_jaxpr(bad)(1.0)):
        with pytest.raises(Mine, match="here"):
            call()


def test_jaxpr():
    j = et.make_jaxpr(lambda x, y: (et.sin(x) + y, y))(X, 1.0)
    assert j.in_types == ["f64[3]", "f32[]"] and j.out_types == ["f64[3]", "f32[]"]
    assert [e.primitive for e in j.eqns][0] == "sin"
    assert all(e.origin.file == __file__ for e in j.eqns)
    assert et.parse_jaxpr(j.to_text()) == j
    assert pickle.loads(pickle.dumps(j)) == copy.deepcopy(j) == j
    close(j(X, np.float32(2))[0], np.sin(X) + 2)


def test_constants_of_a_program_do_not_follow_numpy():
    """What a program captured stays as it was, even if the memory was shared."""
    x = np.ones(3, np.float32)
    shared = et.asarray(x)
    f = et.jit(lambda y: y + shared)
    j = et.make_jaxpr(lambda y: y + shared)(et.zeros(3))
    assert f(np.zeros(3, np.float32)).tolist() == [1, 1, 1]
    x[:] = 5
    assert j(et.zeros(3))[0].tolist() == [1, 1, 1]
    assert f(np.zeros(3, np.float32)).tolist() == [1, 1, 1]


def test_quantities_in_transformations():
    mV = et.units.mV
    carry, _ = et.scan(lambda v, i: (v + i * mV, None), et.array(0.0) * mV, np.ones(3, np.float32))
    assert carry.to(mV).item() == 3
    g = et.grad(lambda v: (v / mV).decimal() ** 2)(et.array(3.0) * mV)
    assert g.mantissa.item() == 6
    assert et.jit(lambda v: v * 2.0)(et.array(1.0) * mV).to(mV).item() == 2
