"""Errors: classes of ours and of Python, their attributes, and the user's line."""

import inspect
import pickle

import numpy as np
import pytest

import etrace as et
from models import GruNet


def here():
    return inspect.currentframe().f_back.f_lineno


@pytest.mark.parametrize("kind, builtin", [
    (et.CompilationError, RuntimeError), (et.NotSupportedError, NotImplementedError), (et.TypeError, TypeError),
    (et.ValueError, ValueError), (et.UnitError, ValueError), (et.IndexError, IndexError), (et.IoError, OSError),
    (et.InternalError, RuntimeError),
])
def test_classes(kind, builtin):
    assert issubclass(kind, et.Error) and issubclass(kind, builtin)
    error = kind("text", stage="s", origin=et.Origin(("a", "b"), "f.py", 3))
    assert str(error) == "text" and error.stage == "s" and str(error.origin) == "a.b (f.py:3)"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == "text" and again.origin == error.origin


def test_names_of_python_are_not_hidden_by_a_star_import():
    space = {}
    exec("from etrace import *", space)
    for name in ("TypeError", "ValueError", "IndexError", "abs", "max", "min", "sum", "all", "any", "round", "pow", "map"):
        assert name not in space, name
    assert "Array" in space and "grad" in space and "asarray" in space


def test_attributes_and_line():
    with pytest.raises(ValueError) as caught:
        line = here() + 1
        et.matmul(et.ones((2, 3)), et.ones((4, 5)))
    error = caught.value
    assert isinstance(error, et.ValueError) and error.stage and error.message in str(error)
    assert (error.origin.file, error.origin.line, error.origin.module) == (__file__, line, ())


def test_line_of_a_recorded_equation():
    def f(x):
        y = et.tanh(x)
        return (
            y
            * 2.0
        )

    first = f.__code__.co_firstlineno
    jaxpr = et.make_jaxpr(f)(et.ones(3))
    assert [(e.primitive, e.origin.line - first) for e in jaxpr.eqns] == [("tanh", 1), ("mul", 3)]
    assert all(e.origin.file == __file__ for e in jaxpr.eqns)


def test_line_inside_nested_functions():
    def body(c, x):
        return c + et.sin(x), None

    jaxpr = et.make_jaxpr(lambda xs: et.scan(body, 0.0, xs)[0])(np.ones(3, np.float32))
    scan = next(e for e in jaxpr.eqns if e.primitive == "scan")
    assert scan.origin.file == __file__ and scan.origin.line == here() - 2


def test_an_error_inside_a_trace_names_its_line():
    def f(x):
        return x + et.ones(7)

    with pytest.raises(ValueError) as caught:
        et.jit(f)(et.ones(3))
    assert caught.value.origin.line == f.__code__.co_firstlineno + 1


def test_memory_that_is_not_there():
    with pytest.raises((ValueError, MemoryError)):
        et.random.normal(et.random.key(0), (1 << 44,))
    with pytest.raises(ValueError):
        et.zeros((1 << 40, 1 << 40))


@pytest.mark.parametrize("call", [
    lambda: et.exp(), lambda: et.exp(1, 2), lambda: et.exp(y=1), lambda: et.zeros(), lambda: et.sum(et.ones(2), keepdims="x"),
])
def test_wrong_calls_are_type_errors(call):
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize("call, text", [
    (lambda: et.exp("a"), "no array"),
    (lambda: et.zeros("ab"), "integers"),
    (lambda: et.zeros(1.5), "integer"),
    (lambda: et.reshape(et.ones(4), (2.0, 2)), "integers"),
    (lambda: et.add(et.ones(2), {}), "no array"),
    (lambda: et.concatenate(3), "list of arrays|iter"),
    (lambda: et.take([1.0, 2.0], 0.5), "integer"),
    (lambda: et.random.normal("key"), "no array"),
    (lambda: et.random.uniform(et.ones(3)), "key|u32"),
])
def test_wrong_arguments_say_what_was_expected(call, text):
    with pytest.raises((TypeError, ValueError), match=text):
        call()


def compiled(model, *example, **options):
    return et.compile(model, et.D_RTRL, *example, backend="interpreter", **options)


@pytest.mark.parametrize("model, words", [(GruNet, "the class GruNet; make one"), (object(), "of type object"), (3, "of type int")])
@pytest.mark.parametrize("batch", [None, 2])
def test_what_is_no_model_is_said(model, words, batch):
    with pytest.raises(TypeError, match=words):
        compiled(model, et.zeros((2, 3)), batch_size=batch)


def test_an_example_of_numpy_has_the_width_of_the_model():
    """np.zeros is float64, and so is most data: floats of other libraries are converted, arrays of ours are not."""
    x = np.zeros((2, 3))
    assert compiled(GruNet(), x, batch_size=2).update(x).dtype == et.float32
    assert compiled(GruNet(dtype="float64"), x.astype("float32"), batch_size=2).update(x).dtype == et.float64
    net = GruNet()
    et.init_all_states(net)
    assert et.verify(net, et.D_RTRL, np.zeros((4, 3)), np.zeros((4, 2)), et.loss.mse).loss >= 0
    with pytest.raises(TypeError, match="holds f32"):
        compiled(GruNet(), et.asarray(x), batch_size=2)


def test_options_that_nobody_has():
    learner = compiled(GruNet(), et.zeros((2, 3)), batch_size=2)
    xs, ys = np.zeros((3, 2, 3), "float32"), np.zeros((3, 2, 2), "float32")
    with pytest.raises(TypeError, match=r"no option of etrace_grad 'reductoin' \(did you mean reduction\?\)"):
        learner.etrace_grad(xs, ys, et.loss.mse, reductoin="sum")
    with pytest.raises(TypeError, match="two arrays, not 30; lists are trees"):
        learner.etrace_grad(xs.tolist(), ys.tolist(), et.loss.mse)


def test_a_learner_that_was_not_made_can_be_looked_at():
    empty = et.Learner.__new__(et.Learner)
    assert repr(empty) == "Learner(not compiled)"
