"""Units and quantities."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

import etrace as et
from etrace import units as u


def test_units():
    assert u.V * u.A == u.W and u.V / u.A == u.ohm and (u.m**2) / u.m == u.m
    assert u.mV != u.V and u.mV.same_dimension(u.V) and not u.mV.same_dimension(u.s)
    assert (u.Hz * u.s).dimensionless and u.mV**Fraction(1, 2) * u.mV**0.5 == u.mV
    assert hash(u.V) == hash(u.W / u.A) and u.V != 3 and u.V != None  # noqa: E711
    for unit in (u.mV, u.nS / u.cm**2, u.hour, u.mV**0.5, u.one):
        assert pickle.loads(pickle.dumps(unit)) == unit and copy.deepcopy(unit) == unit
    with pytest.raises(ValueError, match="simple fractions"):
        u.mV**0.123456


def test_quantities_are_made_by_multiplication():
    for q in (5.0 * u.mV, u.mV * 5.0, et.array(5.0) * u.mV, np.float32(5) * u.mV, np.array(5.0) * u.mV, et.Quantity(5.0, u.mV)):
        assert isinstance(q, et.Quantity) and q.unit == u.mV and q.to(u.V).item() == pytest.approx(0.005)
    assert (1.0 / u.ms).to(u.Hz).item() == pytest.approx(1000)
    assert (np.ones(3) / u.ms).shape == (3,) and (np.ones(3) * u.mV).dtype == et.float64
    assert repr(5.0 * u.mV) == "5.0 mV" and repr(np.array([1.0, 2]) * u.mV) == "[1. 2.] mV"
    with pytest.raises(TypeError):
        "x" * u.mV
    with pytest.raises(TypeError, match="no unit"):
        (5.0 * u.mV).to("V")


def test_arithmetic():
    a, b = np.array([1.0, 2]) * u.mV, 1.0 * u.V
    assert (a + b).mantissa.tolist() == [1001, 1002] and (a + b).unit == u.mV
    assert (b - a).to(u.mV).tolist() == pytest.approx([999, 998])
    assert (a * (2.0 * u.nS)).to(u.pA).tolist() == [2, 4]
    assert (a / (2.0 * u.ms)).unit == u.mV / u.ms
    assert (np.array([2.0, 3]) * a).to(u.mV).tolist() == [2, 6] and (a * np.array([2.0, 3])).to(u.mV).tolist() == [2, 6]
    assert (et.array([2.0, 3]) * a).to(u.mV).tolist() == [2, 6] and (2 * a).to(u.mV).tolist() == [2, 4]
    assert (-a).to(u.mV).tolist() == [-1, -2] and abs(-a).to(u.mV).tolist() == [1, 2]
    assert (a**2).unit == u.mV**2 and et.sqrt(a * a).unit == u.mV
    assert (a < b).tolist() == [True, True] and (a == a).tolist() == [True, True]
    assert (1.0 / (2.0 * u.ms)).to(u.kHz).item() == 0.5
    assert (a / (1.0 * u.mV)).decimal().tolist() == [1, 2] and float((2.0 * u.Hz) * (3.0 * u.s)) == 6
    assert a[1].to(u.mV).item() == 2 and len(a) == 2 and a[:, None].shape == (2, 1)
    assert (5.0 * u.mV).in_unit(u.V).mantissa.item() == pytest.approx(0.005)
    assert (np.ones((2, 2)) * u.nS @ (np.ones(2) * u.mV)).to(u.pA).tolist() == [2, 2]


@pytest.mark.parametrize("f", [
    lambda: 1.0 * u.mV + 1.0 * u.s, lambda: 1.0 * u.mV + 1.0, lambda: 1.0 - 1.0 * u.mV, lambda: (1.0 * u.mV) < (1.0 * u.s),
    lambda: et.exp(1.0 * u.mV), lambda: (1.0 * u.mV).to(u.s), lambda: (1.0 * u.mV).decimal(), lambda: float(1.0 * u.mV),
    lambda: et.where(True, 1.0 * u.mV, 1.0 * u.s), lambda: et.maximum(1.0 * u.mV, 2.0), lambda: et.concatenate([et.ones(1) * u.mV, et.ones(1) * u.s]),
])
def test_dimensions_are_checked(f):
    with pytest.raises(et.UnitError) as caught:
        f()
    assert isinstance(caught.value, ValueError) and caught.value.origin.file == __file__


def test_functions_of_quantities():
    a = np.array([[1.0, 2], [3, 4]]) * u.mV
    assert et.sum(a).to(u.mV).item() == 10 and a.sum(axis=0).to(u.mV).tolist() == [4, 6]
    assert et.mean(a, 1).to(u.mV).tolist() == [1.5, 3.5] and et.max(a).to(u.mV).item() == 4
    assert et.var(a).unit == u.mV**2 and et.std(a).unit == u.mV
    assert et.reshape(a, -1).shape == (4,) and et.transpose(a).mantissa.tolist() == [[1, 3], [2, 4]]
    assert et.stack([a, a]).shape == (2, 2, 2) and et.concatenate([a, a]).unit == u.mV
    assert et.clip(a, 2.0 * u.mV, 3.0 * u.mV).mantissa.tolist() == [[2, 2], [3, 3]]
    assert et.where(np.array([True, False]), a, 0.0 * u.V).mantissa.tolist() == [[1, 0], [3, 0]]
    assert et.tanh(a / (1.0 * u.mV)).shape == (2, 2) and et.sign(a).unit == u.one
    assert et.take(a, [1]).shape == (1, 2) and et.astype(a, "float32").dtype == et.float32
    assert et.heaviside_surrogate((a - 2.0 * u.mV) / (1.0 * u.mV), et.ones((2, 2))).tolist() == [[0, 1], [1, 1]]
    assert et.squeeze(a[None]).shape == (2, 2) and et.stop_gradient(a).unit == u.mV
    with pytest.raises(NotImplementedError, match=r"\.to\(unit\)"):
        et.erf_inv(a)
    with pytest.raises(NotImplementedError):
        et.prod(a)


def test_quantities_and_numpy():
    q = np.array([1.0, 2]) * u.mV
    with pytest.raises(TypeError, match=r"q\.to\(unit\)"):
        np.asarray(q)
    with pytest.raises(TypeError):
        np.sin(q)
    with pytest.raises(TypeError):
        hash(q)
    again = pickle.loads(pickle.dumps(q))
    assert again.unit == u.mV and again.mantissa.tolist() == [1, 2]


def test_quantities_vanish_from_programs():
    jaxpr = et.make_jaxpr(lambda v: ((v * u.mV + 1.0 * u.V) / (2.0 * u.mV)).decimal())(np.float32(1))
    assert all(e.primitive in ("add", "div", "mul", "convert_element_type") for e in jaxpr.eqns)
    assert all(e.origin.file == __file__ for e in jaxpr.eqns)
    assert jaxpr(np.float32(1))[0].item() == pytest.approx(500.5)
