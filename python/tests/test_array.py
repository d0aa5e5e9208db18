"""et.Array: NumPy and back, operators, protocols."""

import numpy as np
import pytest

import etrace as et


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "uint32", "float16", "float32", "float64"])
def test_shares_memory_both_ways(dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    a = et.asarray(x)
    assert a.dtype == dtype and a.shape == (2, 3)
    view = np.asarray(a)
    assert np.shares_memory(view, x) and not view.flags.writeable and view.dtype == x.dtype
    assert not np.shares_memory(np.asarray(et.array(x)), x)


def test_errors_are_ours_and_pythons():
    with pytest.raises(ValueError) as caught:
        et.asarray(np.ones(3)) + et.asarray(np.ones(4))
    assert isinstance(caught.value, et.Error)
    assert caught.value.origin.file == __file__
