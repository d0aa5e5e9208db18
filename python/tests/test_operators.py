"""Operators that own a weight: values against NumPy, weight functions, sparse patterns, operators of one's own."""

import pickle

import numpy as np
import pytest

import etrace as et

RNG = np.random.default_rng(0)
sparse = pytest.importorskip("scipy.sparse")


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=1e-9)


def normal(*shape):
    return RNG.standard_normal(shape)


def test_matmul():
    x, w, b = normal(2, 3), normal(3, 4), normal(4)
    close(et.matmul(x, w), x @ w)
    close(et.matmul(x[0], w, b), x[0] @ w + b)
    close(et.matmul(x, w, b, weight_fn=et.abs, bias_fn=lambda v: 2.0 * v), x @ abs(w) + 2 * b)
    jaxpr = et.make_jaxpr(lambda x, w: et.matmul(x, w, weight_fn=et.tanh))(x, w)
    assert [e.primitive for e in jaxpr.eqns] == ["etp_mm"]
    assert jaxpr.eqns[0].origin.file == __file__
    with pytest.raises(ValueError, match="einsum"):
        et.matmul(normal(2, 2, 3), w)
    with pytest.raises(ValueError):
        et.matmul(x, w.T)
    with pytest.raises(TypeError, match="weight function"):
        et.matmul(x, w, weight_fn=3)
    with pytest.raises(TypeError, match="weight function"):
        et.matmul(x, w, weight_fn=lambda v: "text")


def test_other_operators():
    x, w, b = normal(2, 3, 4), normal(3, 4, 5), normal(3, 5)
    close(et.grouped_matmul(x, w, b), np.einsum("bgk,gkn->bgn", x, w) + b)
    close(et.einsum("bi,io->bo", x[:, 0], w[0]), x[:, 0] @ w[0])
    close(et.element_wise(w, et.exp), np.exp(w))
    table = normal(7, 3)
    close(et.embedding([1, 5], table), table[[1, 5]])
    close(et.embedding(2, table, lambda t: t * 2.0), 2 * table[2])
    left, right = normal(4, 2), normal(2, 6)
    close(et.lora_matmul(x[0], left, right, alpha=0.5), 0.5 * x[0] @ left @ right)


def test_conv():
    x, k, b = normal(2, 3, 8), normal(4, 3, 3), normal(4)
    y = et.conv(x, k, b, padding="VALID")
    want = np.stack([[sum(np.correlate(x[n, c], k[o, c]) for c in range(3)) + b[o] for o in range(4)] for n in range(2)])
    close(y, want)
    assert et.conv(x, k).shape == (2, 4, 8) and et.conv(x, k, padding=[(2, 0)]).shape == (2, 4, 8)
    assert et.conv(x, k, strides=2).shape == (2, 4, 4)
    close(et.conv(x.transpose(0, 2, 1), k.transpose(2, 1, 0), b, padding="VALID", layout=["NWC", "WIO", "NWC"]),
          want.transpose(0, 2, 1))
    with pytest.raises(ValueError):
        et.conv(x, k, padding="SOME")
    with pytest.raises(ValueError, match="before, after"):
        et.conv(x, k, padding=[(1, 2, 3)])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_matmul_as_scipy(kind):
    dense = np.where(RNG.random((5, 4)) < 0.5, RNG.standard_normal((5, 4)), 0.0)
    m = getattr(sparse, kind + "_matrix")(dense)
    x = normal(3, 5)
    close(et.sparse_matmul(x, m.data, m), x @ dense)
    pattern = et.SparsePattern(m)
    assert pattern.shape == (5, 4) and pattern.nnz == m.nnz
    close(et.sparse_matmul(x[0], m.data, pattern, bias=np.ones(4)), x[0] @ dense + 1)
    coo = m.tocoo()
    assert sorted(zip(pattern.row, pattern.col)) == sorted(zip(coo.row, coo.col))
    again = pickle.loads(pickle.dumps(pattern))
    close(et.sparse_matmul(x, m.data, again), x @ dense)


def test_sparse_patterns():
    p = et.SparsePattern.coo(2, 3, [0, 1], [2, 0])
    assert p.row.tolist() == [0, 1] and p.col.tolist() == [2, 0]
    assert p == et.SparsePattern.coo(2, 3, np.array([0, 1]), [2, 0]) and p != et.SparsePattern.coo(2, 3, [0, 1], [2, 1])
    assert repr(p) == "SparsePattern([2, 3], 2 entries)"
    assert et.SparsePattern.csr(2, 3, [0, 1, 2], [2, 0]).col.tolist() == [2, 0]
    assert et.SparsePattern.csc(2, 3, [0, 1, 1, 2], [1, 0]).row.tolist() == [1, 0]
    for bad in (lambda: et.SparsePattern.coo(2, 3, [0, 2], [0, 0]), lambda: et.SparsePattern.csr(2, 3, [0, 1], [2, 0]),
                lambda: et.sparse_matmul(normal(2), normal(3), p)):
        with pytest.raises((ValueError, et.Error)):
            bad()
    with pytest.raises(TypeError, match="no sparse pattern"):
        et.sparse_matmul(normal(2), normal(2), normal(2, 2))
    with pytest.raises(TypeError, match="tocsr"):
        et.SparsePattern(sparse.lil_matrix((2, 2)))


def test_gradients_of_operators():
    x, w = normal(2, 3), normal(3, 4)
    close(et.grad(lambda w: et.sum(et.matmul(x, w) * 2))(w), 2 * x.sum(0)[:, None] * np.ones((3, 4)))
    m = sparse.csr_matrix(np.eye(3))
    close(et.grad(lambda d: et.sum(et.sparse_matmul(x, d, m)))(m.data), x.sum(0))


def test_units_pass_through_operators():
    ms, mV, nS = et.units.ms, et.units.mV, et.units.nS
    x, w = normal(2, 3), normal(3, 4)
    y = et.matmul(et.asarray(x) * mV, et.asarray(w) * nS)
    assert y.unit.same_dimension(et.units.pA)
    close(y.to(et.units.pA), x @ w)
    close(et.matmul(x, et.asarray(w) * nS).to(nS), x @ w)
    with pytest.raises(et.UnitError, match="matmul"):
        et.matmul(x, et.asarray(w) * nS, et.ones(4) * ms)
    assert et.element_wise(et.ones(2) * mV, et.exp).unit == mV
    assert et.embedding([0], et.ones((2, 2)) * mV).unit == mV
    assert et.einsum("bi,io->bo", et.asarray(x) * ms, w).unit == ms
    assert et.lora_matmul(x, et.ones((3, 1)) * mV, et.ones((1, 2))).unit == mV
    assert et.conv(et.ones((1, 1, 4)) * mV, et.ones((1, 1, 2))).unit == mV
    assert et.sparse_matmul(et.ones(2) * mV, et.ones(2), et.SparsePattern.coo(2, 2, [0, 1], [0, 1])).unit == mV


# --- operators of one's own ------------------------------------------------------------------------------------


def square_synapse(name, y_axes=(1,), **more):
    return et.register_primitive(
        name,
        lambda x, w: et.dot(et.square(x), w),
        doc="y[o] = Σ_i x[i]² W[i,o]",
        samples=[(np.array([0.5, -1.0, 2.0]), np.arange(6.0).reshape(3, 2))],
        trainable={"weight": 1},
        anchors=lambda key, shapes, y: et.AnchorMap(shapes[1], y_axes=y_axes),
        **more,
    )


def test_operator_of_ones_own():
    f = square_synapse("test_square", source=lambda key, x, w: et.TraceSource(et.square(x), axes=[0]))
    x, w = normal(3), normal(3, 2)
    close(f(x, w), x**2 @ w)
    close(et.grad(lambda w: et.sum(f(x, w)))(w), np.outer(x**2, np.ones(2)))
    close(et.grad(lambda x: et.sum(f(x, w)))(x), 2 * x * w.sum(1))
    close(et.vmap(f, in_axes=(0, None))(np.stack([x, 2 * x]), w), np.stack([x, 2 * x]) ** 2 @ w)
    close(et.jit(f, backend="native")(x, w), x**2 @ w)
    assert f.trainable and f.name == "test_square" and "Σ" in f.doc
    assert et.primitive("test_square").name == f.name and "test_square" in et.primitives()
    assert pickle.loads(pickle.dumps(f)).name == f.name
    jaxpr = et.make_jaxpr(f)(x, w)
    assert [e.primitive for e in jaxpr.eqns] == ["test_square"]


def test_operator_with_options():
    f = et.register_primitive("test_power", lambda x, *, n, parts=(): et.integer_pow(x, n) + len(parts),
                              samples=[((np.ones(2),), {"n": 3, "parts": [1, 2]})], params=["n", "parts"])
    assert f([2.0], n=3, parts=[7]).tolist() == [9] and not f.trainable
    with pytest.raises(TypeError, match="no static parameter 'm'"):
        f([2.0], m=1)
    with pytest.raises(TypeError, match="number, a text"):
        f([2.0], n=object())


@pytest.mark.parametrize("call, kind, text", [
    (lambda: square_synapse("test_wrong", y_axes=(0,)), et.CompilationError, "weight"),
    (lambda: square_synapse("tanh"), et.CompilationError, "of that name"),
    (lambda: et.register_primitive("test_a", lambda x: x, samples=[]), et.CompilationError, "samples"),
    (lambda: et.register_primitive("test_b", 3, samples=[(1.0,)]), TypeError, "forward function"),
    (lambda: et.register_primitive("test_c", lambda x: x, samples=[(1.0,)], trainable={"weight": 0}), TypeError, "anchors"),
    (lambda: et.register_primitive("test_d", lambda x: "text", samples=[(1.0,)]), TypeError, "returned"),
    (lambda: et.primitive("nothing"), ValueError, "no operation 'nothing'"),
])
def test_wrong_operators_are_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_errors_of_a_rule_pass_through():
    def bad(key, shapes, y):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        et.register_primitive("test_e", lambda x, w: x * w, samples=[(np.ones(2), np.ones(2))], trainable={"weight": 1},
                              anchors=bad)
    assert "test_e" not in et.primitives()
