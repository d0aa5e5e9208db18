"""et.Array: NumPy and back, operators, protocols."""

import copy
import ctypes
import gc
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import etrace as et

DTYPES = ["bool", "int32", "int64", "uint32", "float16", "float32", "float64"]

NUMPY_2 = int(np.__version__.split(".")[0]) >= 2


def sample(dtype, shape=(2, 3)):
    return (np.arange(np.prod(shape)) % 5).reshape(shape).astype(dtype)


# --- numbers in and out -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_shares_memory_both_ways(dtype):
    x = sample(dtype)
    a = et.asarray(x)
    assert a.dtype == dtype and a.shape == (2, 3)
    view = np.asarray(a)
    assert np.shares_memory(view, x) and not view.flags.writeable and view.dtype == x.dtype
    assert not np.shares_memory(np.asarray(et.array(x)), x)
    assert not np.shares_memory(np.array(a), x)
    assert memoryview(a).shape == (2, 3) and bytes(memoryview(a)) == x.tobytes()


def test_memory_of_any_alignment_is_shared():
    raw = np.zeros(1 + 4 * 8, np.uint8)
    odd = raw[1:].view(np.float32)  # not aligned to 4 bytes: copied
    assert not np.shares_memory(np.asarray(et.asarray(odd)), raw)
    x = np.arange(9, dtype=np.float32)[1:]  # aligned to 4 bytes only
    assert np.shares_memory(np.asarray(et.asarray(x)), x)
    assert (et.asarray(x) + 1).tolist() == (x + 1).tolist()


def test_owner_lives_as_long_as_the_array():
    x = np.arange(1000, dtype=np.float32)
    before = sys.getrefcount(x)
    a = et.asarray(x)
    b = a.reshape(10, 100)
    assert sys.getrefcount(x) > before
    view = np.asarray(a)
    del a
    assert view[999] == 999
    del view, b
    gc.collect()
    assert sys.getrefcount(x) == before


def test_view_of_an_array_outlives_it():
    a = et.arange(5) * 2
    view = np.asarray(a)
    del a
    gc.collect()
    assert view.tolist() == [0, 2, 4, 6, 8]


def test_results_of_functions_do_not_share():
    x = np.ones(4, np.float32)
    results = [et.reshape(x, (4,)), et.transpose(x), et.stop_gradient(x), et.astype(x, "float32"), et.sum(x, axis=())]
    results += [et.broadcast_to(x, (4,)), et.concatenate([x]), et.squeeze(x), et.flatten(x), et.grad(lambda v: v.sum())(x)]
    x[:] = 7
    for r in results:
        assert r.tolist() == [1, 1, 1, 1]


def test_copy_argument():
    x = np.ones(4, np.float32)
    assert np.shares_memory(np.asarray(et.asarray(x, copy=False)), x)
    assert not np.shares_memory(np.asarray(et.asarray(x, copy=True)), x)
    for source, why in [(x[::2], "contiguous"), (x.astype(np.int8), "widened")]:
        with pytest.raises(BufferError, match=why):
            et.asarray(source, copy=False)
    with pytest.raises(BufferError, match="element type"):
        et.asarray(x, dtype="float64", copy=False)
    assert et.asarray(x, dtype="float64").dtype == et.float64
    if NUMPY_2:  # before, copy=False meant "if possible"
        with pytest.raises(ValueError):
            np.array(et.asarray(x), dtype=np.float64, copy=False)


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4), elements=st.floats(-8, 8, width=32)))
def test_strides_are_followed(x):
    for y in (x, x.T, np.asfortranarray(x), x[..., ::-1] if x.ndim else x):
        assert np.array_equal(np.asarray(et.asarray(y)), y)
        assert np.array_equal(np.asarray(et.array(y)), y)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_narrow_integers_are_widened(dtype):
    info = np.iinfo(dtype)
    x = np.array([[info.min, 0], [1, info.max]], dtype)[:, ::-1]
    a = et.asarray(x)
    assert a.dtype == et.int32 and np.array_equal(np.asarray(a), x)


@pytest.mark.parametrize("bad", ["text", b"bytes", None, object(), np.ones(2, complex), np.ones(2, np.uint64),
                                 np.array(["a"]), np.array([None]), {1: 2}, np.longdouble([1.0]), lambda x: x,
                                 np.array(["2020-01-01"], "datetime64[D]"), np.ma.masked_array([1.0, 2.0], [True, False])])
def test_what_is_no_array(bad):
    with pytest.raises(TypeError, match="no array|elements that no array holds|DLPack|mask"):
        et.asarray(bad)


def test_big_endian_is_refused():
    with pytest.raises(TypeError, match="convert first"):
        et.asarray(np.ones(2, ">f4"))


def test_lists_and_numbers():
    assert et.array([1, 2]).dtype == et.int32
    assert et.array([1.0, 2]).dtype == et.float32
    assert et.array([True, False]).dtype == et.bool_
    assert et.array([2**40]).dtype == et.int64 and et.array([2**40]).tolist() == [2**40]
    assert et.array(2**40).item() == 2**40
    assert et.array([[0.1]], dtype="float64").item() == 0.1
    assert et.array(0.1, dtype=et.float64).item() == 0.1
    assert et.array([np.float32(1.5), 2.0]).dtype == et.float32
    assert et.array([np.ones(2), np.zeros(2)]).dtype == et.float64
    assert et.array([et.ones(2), [1, 2]]).tolist() == [[1, 1], [1, 2]]
    assert et.array(np.float64(0.1)).item() == 0.1 and et.array([np.float64(0.1), 2]).dtype == et.float64
    assert et.array([]).shape == (0,) and et.array([[], []]).shape == (2, 0)
    with pytest.raises(ValueError, match="shape|length"):
        et.array([[1, 2], [3]])
    with pytest.raises(ValueError, match="64 bits"):
        et.array(2**70)
    for numbers, dtype in [([2**40], "int32"), ([[1], [-(2**31) - 1]], "int32"), ([-1], "uint32"), ([2**32], "uint32")]:
        with pytest.raises(ValueError, match=f"in a list does not fit into {dtype[0]}"):
            et.array(numbers, dtype=dtype)
    assert et.array([2**31 - 1, -(2**31)], dtype="int32").tolist() == [2**31 - 1, -(2**31)]
    assert et.array([2**32 - 1], dtype="uint32").item() == 2**32 - 1
    with pytest.raises(ValueError, match="64 bits"):
        et.array([1, 2**70], dtype="int32")
    with pytest.raises(ValueError, match="does not fit"):
        et.array(2**40, dtype="int32")


def test_float16_and_bfloat16(monkeypatch):
    a = et.array([1.5, -2.0]).astype(et.bfloat16)
    assert a.dtype == et.bfloat16 and a.tolist() == [1.5, -2.0]
    assert "bfloat16" in repr(a)
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)  # JAX may have loaded it
    with pytest.raises(TypeError, match="astype"):
        np.asarray(a)
    half = np.array([1.5, 2], np.float16)
    assert np.asarray(et.asarray(half)).dtype == np.float16
    assert pickle.loads(pickle.dumps(a)).astype("float32").tolist() == [1.5, -2.0]


def test_bfloat16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    a = et.asarray(x)
    assert a.dtype == et.bfloat16 and np.asarray(a).dtype == ml_dtypes.bfloat16


def test_dtypes():
    assert et.float32 == "float32" == et.float32 and et.float32 == np.float32 and np.dtype("float32") == et.float32
    assert et.float32 != et.float64 and et.float32 != None and hash(et.float32) == hash("float32")  # noqa: E711
    assert np.zeros(2, et.float64).dtype == np.float64
    assert et.zeros(2, float).dtype == et.float32 and et.zeros(2, int).dtype == et.int32 and et.zeros(2, bool).dtype == et.bool_
    assert pickle.loads(pickle.dumps(et.bool_)) == et.bool_ and repr(et.bool_) == "et.bool_"
    with pytest.raises(TypeError, match="there is no element type 'float8'"):
        et.zeros(2, "float8")
    with pytest.raises(TypeError, match="complex"):
        et.zeros(2, complex)


# --- operators -----------------------------------------------------------------------------------------------

BINARY = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}
BITS = {"&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b}


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=10)
@given(data=st.data())
def test_operators_as_numpy(name, data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)).input_shapes
    kind = data.draw(st.sampled_from(["float64", "int32"]))
    numbers = st.floats(-4, 4).filter(lambda v: abs(v) > 1e-3) if kind == "float64" else st.integers(-9, 9).filter(bool)
    x, y = (data.draw(hnp.arrays(kind, s, elements=numbers)) for s in shapes)
    f = BINARY[name]
    want = f(x, y)
    for got in (f(et.asarray(x), et.asarray(y)), f(et.asarray(x), y), f(x, et.asarray(y))):
        assert isinstance(got, et.Array) and got.shape == want.shape
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6 if kind == "int32" else 1e-12, atol=1e-12)
        if want.dtype.kind in "bi":
            assert got.dtype == want.dtype


@pytest.mark.parametrize("name", BITS)
def test_bits(name):
    f = BITS[name]
    x, y = np.array([0, 5, -3, 7]), np.array([1, 4, 6, -1])
    assert np.array_equal(np.asarray(f(et.asarray(x), y)), f(x, y))
    assert np.array_equal(np.asarray(f(et.asarray(x > 2), y > 2)), f(x > 2, y > 2))


def test_shifts_powers_and_products():
    a = et.array([1, 2, 3])
    assert (a << 2).tolist() == [4, 8, 12] and (et.array([-8]) >> 1).tolist() == [-4]
    assert (a**2).tolist() == [1, 4, 9] and (a**2).dtype == et.int32 and (a**0).tolist() == [1, 1, 1]
    assert (et.array([4.0]) ** 0.5).item() == 2.0 and (2.0**a).tolist() == [2, 4, 8]
    assert (et.array([-2.0]) ** 3).item() == -8
    with pytest.raises(ValueError, match="negative powers"):
        a**-1
    m = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(np.asarray(et.asarray(m) @ m.T), m @ m.T)
    assert np.array_equal(np.asarray(m @ et.asarray(m.T)), m @ m.T)
    assert (-a).tolist() == [-1, -2, -3] and (+a).tolist() == [1, 2, 3]
    assert abs(-a).tolist() == [1, 2, 3] and (~et.array([True])).item() is False
    b = a
    b += 1
    assert a.tolist() == [1, 2, 3] and b.tolist() == [2, 3, 4]


def test_bare_numbers_take_the_type_of_what_they_meet():
    for dtype in ("float32", "float64"):
        a = et.ones(2, dtype)
        for b in (a + 1, 1 + a, a * 2.5, 2.5 - a, a / 3, a + True, a * np.float64(2), np.float64(2) * a):
            assert b.dtype == dtype
    assert (et.array([1, 2]) + 1).dtype == et.int32
    assert (et.array([1, 2]) + 1.5).dtype == et.float32 and (et.array([1, 2]) + 1.5).tolist() == [2.5, 3.5]
    assert (et.array([True]) + 1).dtype == et.int32
    with pytest.raises(ValueError, match="does not fit into int32"):
        et.array([1]) + 2**40
    with pytest.raises(ValueError, match="does not fit into uint32"):
        et.zeros(1, "uint32") + -1
    assert (et.array([1], dtype="int64") + 2**40).item() == 2**40 + 1


def test_what_an_operator_refuses():
    a = et.ones(3)
    for bad in ("x", [1, 2, 3], None, object()):
        with pytest.raises(TypeError):
            a + bad
        with pytest.raises(TypeError):
            bad * a
    assert (a == None) is False and (a != "x") is True  # noqa: E711
    with pytest.raises(ValueError, match="do not broadcast"):
        a + et.ones(4)


# --- Python's protocols ----------------------------------------------------------------------------------------


def test_numbers_of_python():
    assert bool(et.array(True)) and not et.array([0.0]) and int(et.array(3.7)) == 3 and float(et.array([2])) == 2.0
    assert [10, 20, 30][et.array(1)] == 20 and et.array(3).item() == 3 and et.array([[1.5]]).tolist() == [[1.5]]
    assert len(et.ones((3, 2))) == 3 and [r.tolist() for r in et.array([[1], [2]])] == [[1], [2]]
    assert f"{et.array(1.25):.1f}" == "1.2" and f"{et.array([1])}" == "[1]"
    for bad in (float("nan"), float("inf")):
        with pytest.raises((ValueError, OverflowError)):
            int(et.array(bad))
    with pytest.raises(ValueError, match="not one element"):
        bool(et.ones(2))
    with pytest.raises(TypeError, match="no index"):
        [1, 2][et.array(1.0)]
    with pytest.raises(TypeError, match="no length"):
        len(et.array(1))
    with pytest.raises(TypeError):
        iter(et.array(1))
    with pytest.raises(TypeError):
        hash(et.ones(2))
    with pytest.raises(TypeError, match=r"x.at\[index\].set"):
        et.ones(2)[0] = 1


def test_properties():
    a = et.zeros((2, 3), "int64")
    assert (a.ndim, a.size, a.nbytes, a.itemsize, a.device) == (2, 6, 48, 8, "cpu")
    assert a.T.shape == (3, 2) and et.zeros((2, 3, 4)).mT.shape == (2, 4, 3) and et.zeros(3).T.shape == (3,)


def test_text():
    assert repr(et.array([1.5, 2])) == "Array([1.5, 2. ], dtype=float32)"
    assert str(et.array([1, 2])) == "[1 2]" and repr(et.array(True)) == "Array(True, dtype=bool)"
    assert repr(et.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
    assert len(repr(et.zeros(100000))) < 200
    texts = []
    et.make_jaxpr(lambda x: texts.append(repr(x)) or x)(et.ones(3))
    assert texts == ["Traced<f32[3]>"]


def test_lists_without_an_end():
    """A list that holds itself, and one far too deep, are an error of Python's kind and no crash."""
    itself, deep = [], 1.0
    itself.append(itself)
    for _ in range(100_000):
        deep = [deep]
    for given in (itself, deep, [np.ones(2), itself]):
        with pytest.raises(RecursionError, match="lists in lists"):
            et.asarray(given)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pickle_and_copy(dtype):
    a = et.asarray(sample(dtype))
    for b in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a)):
        assert b.dtype == a.dtype and np.array_equal(np.asarray(a), np.asarray(b))
    assert copy.copy(a) is a
    shared = sample(dtype)
    b = copy.deepcopy(et.asarray(shared))
    assert not np.shares_memory(np.asarray(b), shared)


def test_buffer_is_read_only():
    a = et.ones(3)
    with pytest.raises((BufferError, TypeError)):
        ctypes.c_char.from_buffer(a)
    with pytest.raises(ValueError):
        np.asarray(a)[0] = 2


def test_ufuncs_of_numpy():
    x = np.array([0.25, 0.5])
    a = et.asarray(x)
    for name in ("sin", "exp", "log1p", "arctan", "sqrt", "absolute", "rint", "isfinite", "negative", "conjugate"):
        got = getattr(np, name)(a)
        assert isinstance(got, et.Array)
        np.testing.assert_allclose(np.asarray(got), getattr(np, name)(x), rtol=1e-12)
    assert isinstance(np.float32(2) * a, et.Array) and isinstance(np.maximum(x, a), et.Array)
    jaxpr = et.make_jaxpr(lambda v: x * np.sin(v))(a)
    assert [e.primitive for e in jaxpr.eqns] == ["sin", "mul"]
    with pytest.raises(TypeError, match="no function numpy.hypot"):
        np.hypot(a, a)
    with pytest.raises(TypeError, match="numpy.add.reduce"):
        np.add.reduce(a)
    with pytest.raises(TypeError, match="option 'where'"):
        np.add(a, a, where=np.array([True, False]))
    with pytest.raises(TypeError, match="option 'out'"):
        x += a


def test_functions_of_numpy():
    x = np.arange(6.0).reshape(2, 3)
    a = et.asarray(x)
    for name in ("sum", "mean", "prod", "max", "min", "var", "std", "all", "any"):
        np.testing.assert_allclose(np.asarray(getattr(np, name)(a)), getattr(np, name)(x))
    assert np.sum(a, dtype="float32").dtype == et.float32 and np.std(a, ddof=1).item() == pytest.approx(np.std(x, ddof=1))
    with pytest.raises(TypeError, match="immutable"):
        np.sum(a, out=np.zeros(()))
    assert np.concatenate([a, x]).shape == (4, 3) and np.shape(a) == (2, 3) and np.allclose(a, x)


def test_jax_without_copies():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    a = et.asarray(jnp.arange(4, dtype="float32"))
    assert a.tolist() == [0, 1, 2, 3] and a.dtype == et.float32
    b = et.arange(1024).astype("float32")
    shared = jax.device_put(np.asarray(b), may_alias=True)  # our memory is aligned as JAX wants it
    assert shared.unsafe_buffer_pointer() == np.asarray(b).ctypes.data
    x = jnp.arange(4, dtype="float32")
    assert np.asarray(et.asarray(x)).ctypes.data == x.unsafe_buffer_pointer()
    assert et.asarray(jnp.ones(2, "bfloat16")).dtype == et.bfloat16
    assert jnp.from_dlpack(b).tolist() == b.tolist()
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        assert jnp.asarray(b).tolist() == b.tolist() and np.result_type(b) == np.float32


def test_dlpack_with_numpy():
    a = et.arange(6).reshape(2, 3)
    b = np.from_dlpack(a)
    if NUMPY_2:  # before, NumPy takes the old form, which cannot say "read-only" and gets a copy
        assert np.shares_memory(b, np.asarray(a)) and not b.flags.writeable
    assert b.tolist() == a.tolist()
    assert a.__dlpack_device__() == (1, 0)

    class Old:  # a producer that knows only the first form of the protocol
        def __init__(self, x):
            self.x = x

        def __dlpack__(self, stream=None):
            return self.x.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    x = np.arange(4, dtype=np.float32)
    c = et.asarray(Old(x))
    assert np.shares_memory(np.asarray(c), x)
    d = et.asarray(Old(et.asarray(x)))  # the old form cannot say "read-only", so it is a copy
    assert d.tolist() == x.tolist() and not np.shares_memory(np.asarray(d), x)
    with pytest.raises(BufferError):
        a.__dlpack__(copy=False)
    del a, b, c, d
    gc.collect()


def test_signs_that_are_kept_beside_the_memory():
    """As PyTorch's tensors do, whose DLPack does not tell."""

    class Negated:
        def __init__(self, memory, negated=True):
            self.memory, self.negated = np.asarray(memory, "float32"), negated

        def is_neg(self):
            return self.negated

        def resolve_neg(self):
            return Negated(-self.memory, False) if self.negated else self

        def __dlpack__(self, **options):
            return self.memory.__dlpack__(**options)

        def __dlpack_device__(self):
            return 1, 0

    assert et.asarray(Negated([1, 2])).tolist() == [-1, -2] and et.asarray(Negated([1, 2], False)).tolist() == [1, 2]
    with pytest.raises(BufferError, match="other sign"):
        et.asarray(Negated([1, 2]), copy=False)


def test_dlpack_of_another_device():
    class Far:
        def __dlpack__(self, **options):
            raise RuntimeError("on a device")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(TypeError, match="host memory"):
        et.asarray(Far())


def test_torch_without_copies():
    torch = pytest.importorskip("torch")
    x = torch.arange(4.0)
    a = et.asarray(x)
    x[0] = 9
    assert a[0].item() == 9
    assert et.asarray(torch.ones(2, dtype=torch.bfloat16)).dtype == et.bfloat16
    assert torch.from_dlpack(a).tolist() == [9, 1, 2, 3]


# --- traced values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use, text", [
    (lambda x: bool(x[0] > 0), "et.where or et.cond"),
    (lambda x: 1 if x[0] > 0 else 2, "et.where or et.cond"),
    (lambda x: int(x[0]), "astype"),
    (lambda x: float(x[0]), "astype"),
    (lambda x: x.item() if x.size == 1 else x[0].item(), "after the trace"),
    (lambda x: np.asarray(x), "functions of et"),
    (lambda x: np.array(x), "functions of et"),
    (lambda x: np.concatenate([x, x]), "functions of et"),
    (lambda x: x.numpy(), "functions of et"),
    (lambda x: x.tolist(), "functions of et"),
    (lambda x: [0, 1][x.astype("int32")[0]], "index an et.Array"),
    (lambda x: x[: x.astype("int32")[0]], "dynamic_slice"),
    (lambda x: x[x > 0], "et.where"),
    (lambda x: pickle.dumps(x), "pickled"),
])
def test_traced_values_have_no_numbers(use, text):
    with pytest.raises(TypeError, match=text) as caught:
        et.make_jaxpr(lambda x: (use(x), x)[1])(et.ones(3))
    assert isinstance(caught.value, et.Error) and caught.value.origin.file == __file__


def test_a_traced_value_that_leaked_is_recognised():
    kept = []
    et.make_jaxpr(lambda x: kept.append(x) or x)(et.ones(3))
    with pytest.raises(TypeError, match="after its trace had ended"):
        kept[0] + 1


def test_len_shape_and_iteration_of_traced_values():
    def f(x):
        assert len(x) == 3 and x.shape == (3, 2) and x.is_traced
        return sum(row for row in x)

    assert et.jit(f)(np.ones((3, 2), np.float32)).tolist() == [3, 3]
