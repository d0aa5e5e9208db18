"""Arrays over memory of somebody else (et.asarray): what is kept never follows it, whoever writes or frees it."""

import gc

import numpy as np
import pytest

import etrace as et
from models import GruNet, Leaky, mse, normal, optimizer

N = 1000


def written(x):
    """x + 0 + 1 + 2 + 3 + 4, by one array that is written in between."""
    a = np.zeros(N, "float32")
    for i in range(5):
        a[:] = i
        x = x + et.asarray(a)
    return x


def freed(x):
    """The same by arrays of which each may lie where the last one lay."""
    for i in range(5):
        x = x + et.asarray(np.full(N, i, "float32"))
        gc.collect(0)
    return x


def mixed(x):
    """The same, and every second is memory of ours."""
    for i in range(5):
        x = x + (et.array if i % 2 else et.asarray)(np.full(N, i, "float32"))
    return x


WAYS = {
    "jit": lambda f: et.jit(f)(et.zeros(N)),
    "scan": lambda f: et.scan(lambda c, _: (f(et.zeros(N) + 0 * c), 0.0), et.zeros(N), np.zeros(3, "float32"))[0],
    "while": lambda f: et.while_loop(lambda c: c[0] < 10, f, et.zeros(N)),
    "cond": lambda f: et.cond(et.array(True), f, lambda x: x, et.zeros(N)),
    "vmap": lambda f: et.vmap(f)(et.zeros((2, N)))[0],
    "grad": lambda f: et.grad(lambda x: et.sum(x * f(0 * x)))(et.zeros(N)),
    "vjp": lambda f: et.vjp(lambda x: x * f(0 * x), et.zeros(N))[1](et.ones(N))[0],
    "jvp": lambda f: et.jvp(lambda x: x * f(0 * x), (et.zeros(N),), (et.ones(N),))[1],
    "make_jaxpr": lambda f: et.make_jaxpr(f)(et.zeros(N))(et.zeros(N))[0],
}


@pytest.mark.parametrize("f", [written, freed, mixed])
@pytest.mark.parametrize("way", WAYS)
def test_a_recording_holds_the_numbers_of_the_time(way, f):
    assert np.array_equal(np.asarray(WAYS[way](f)), np.full(N, 10.0, "float32"))


@pytest.mark.parametrize("f", [written, freed, mixed])
def test_an_update_and_a_loss_hold_them_too(f):
    class Net(Leaky):
        def update(self, x):
            super().update(x)
            return f(et.zeros(N) + 0 * x[0])

    learner = et.compile(Net(dtype="float32"), et.D_RTRL, et.zeros(3), backend="interpreter")
    assert np.array_equal(np.asarray(learner.update(np.ones(3, "float32"))), np.full(N, 10.0, "float32"))
    xs = np.ones((3, 3), "float32")
    found = learner.etrace_grad(xs, xs, lambda y, t: et.mean(f(0 * y)))
    assert np.asarray(found.losses).tolist() == [10.0] * 3


def test_a_state_that_is_set_while_a_step_is_recorded():
    memory = np.ones(3, "float32")

    class Net(Leaky):
        def __init__(self):
            super().__init__(dtype="float32")
            self.g = et.HiddenState(np.zeros(3, "float32"))

        def update(self, x):
            super().update(x)
            memory[:] = 1
            self.g.value = et.asarray(memory)
            memory[:] = 9
            return x + self.g.value

    learner = et.compile(Net(), et.D_RTRL, et.zeros(3), backend="interpreter")
    assert np.asarray(learner.update(np.zeros(3, "float32"))).tolist() == [1, 1, 1]
    assert np.asarray(learner.get_state("g")).tolist() == [1, 1, 1]


def test_a_pullback_remembers_its_point():
    x = np.ones(3, "float32")
    y, pullback = et.vjp(lambda v: v * v, et.asarray(x))
    x[:] = 5
    assert np.asarray(pullback(et.ones(3))[0]).tolist() == [2, 2, 2]


def changed(source, keep, read):
    """What `read` gives before and after the memory that was given to `keep` is written."""
    kept = keep(et.asarray(source))
    before = np.array(read(kept))
    source[...] = -7
    return before, np.array(read(kept))


KEEPERS = {
    "ParamState": (et.ParamState, lambda s: s.value),
    "HiddenState": (et.HiddenState, lambda s: s.value),
    "LongTermState": (et.LongTermState, lambda s: s.value),
    "leaf": (lambda a: et.ParamState({"a": a}), lambda s: s["a"]),
    "initial value": (et.HiddenState, lambda s: (s.init(2), s.value)[1]),
    "set": (lambda a: (s := et.ParamState(et.zeros((3, 4))), setattr(s, "value", a))[0], lambda s: s.value),
    "initialiser": (lambda a: et.nn.Linear(3, 4, weight_init=a), lambda m: m.weight["weight"]),
    "function as initialiser": (
        lambda a: et.Sequential(et.nn.Linear(3, 4, weight_init=lambda key, shape, dtype: a)),
        lambda m: m[0].weight["weight"],
    ),
    "mask": (lambda a: et.nn.Linear(3, 4, weight_init=1.0, mask=a), lambda m: m(et.ones(3))),
    "neuron": (lambda a: et.nn.LIF(4, tau=10 + a[0]), lambda m: (et.init_all_states(m), m(et.ones(4)), m.V.value)[2]),
    "ParamValues": (lambda a: et.params(et.nn.Linear(3, 4)).replace({"weight.weight": a}), lambda p: p["weight.weight"]),
}


@pytest.mark.parametrize("name", KEEPERS)
def test_what_is_kept_is_a_copy(name):
    before, after = changed(np.ones((3, 4), "float32"), *KEEPERS[name])
    assert np.array_equal(before, after)


def test_learners_and_optimisers_keep_copies():
    net = Leaky()
    learner = et.compile(net, et.D_RTRL, np.zeros(3), backend="interpreter")
    adam = optimizer("adam", net, 0.1)
    state, weight, h = np.ones((3, 4)), np.ones((3, 4)), np.ones(4)
    slots = {k: np.array(v) for k, v in adam.state().items()}
    given = {k: v.copy() for k, v in slots.items()}
    adam.set_state({k: et.asarray(v) for k, v in given.items()})
    learner.set_state("h", et.asarray(h))
    net.w.value = et.asarray(weight)
    adam.update(et.params(net).replace({"w": et.asarray(state)}))
    expected = np.array(net.w.value), np.array(learner.get_state("h"))
    after = {k: np.array(v) for k, v in adam.state().items()}
    for each in (state, weight, h, *given.values()):
        each[...] = 1000
    assert np.array_equal(np.array(net.w.value), expected[0])
    assert np.array_equal(np.array(learner.get_state("h")), expected[1])
    assert all(np.array_equal(np.array(v), after[k]) for k, v in adam.state().items())


def test_arguments_that_a_model_hands_through():
    class Through(Leaky):
        def update(self, x):
            return x, super().update(x)

    learner = et.compile(Through(), et.D_RTRL, np.zeros(3), backend="interpreter")
    x = np.ones(3)
    r = learner.step(x)
    y = learner.update(et.asarray(x))
    ys = learner.etrace_evolve(et.asarray(x[None]))
    x[:] = 5
    assert np.asarray(r.results[0]).tolist() == [1, 1, 1]
    assert np.asarray(y[0]).tolist() == [1, 1, 1] and np.asarray(ys[0]).tolist() == [[1, 1, 1]]


def test_the_owner_lives_as_long_as_the_array():
    class Owner(np.ndarray):
        pass

    import weakref

    memory = np.ones(3, "float32").view(Owner)
    there = weakref.ref(memory)
    a = et.asarray(memory)
    del memory
    assert there() is not None and a.tolist() == [1, 1, 1]
    del a
    gc.collect()
    assert there() is None


def test_memory_that_its_owner_would_move_is_held():
    memory = bytearray(16)
    a = et.asarray(memoryview(memory).cast("f"))
    with pytest.raises(BufferError):
        memory.extend(b"more")
    assert a.tolist() == [0, 0, 0, 0]
    del a
    memory.extend(b"more")


def test_a_sequence_is_read_where_it_lies():
    learner = et.compile(GruNet(), et.D_RTRL, et.zeros((2, 3)), batch_size=2, backend="interpreter")
    xs, ys = normal(1, (4, 2, 3)).copy(), normal(2, (4, 2, 2)).copy()
    first = learner.etrace_grad(et.asarray(xs), et.asarray(ys), mse)
    losses, grads = np.array(first.losses), first.grads.numpy()
    xs[:], ys[:] = 0, 0
    assert np.array_equal(np.asarray(first.losses), losses)
    assert all(np.array_equal(first.grads.numpy()[k], v) for k, v in grads.items())


# --- memory that is not what it seems ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "times", [np.timedelta64(1, "s"), np.datetime64("2020-01-01"), np.array(["2020-01-01"], "M8[D]"), np.ones(2, "m8[s]")]
)
def test_times_are_refused(times):
    with pytest.raises(et.TypeError, match="holds times"):
        et.asarray(times)


class ByDlpack:
    """Memory that is offered by DLPack only."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("offered", [lambda a: a, ByDlpack], ids=["buffer", "dlpack"])
def test_truth_values_are_zero_and_one(offered):
    odd = np.frombuffer(bytearray(b"\x02\x00\xff\x01"), np.bool_)
    for source in (odd, odd[::2]):
        a = et.asarray(offered(source))
        assert a.tolist() == [bool(v) for v in source.view("u1")]
        assert et.sum(a.astype("int32")).item() == sum(v != 0 for v in source.view("u1"))
        assert np.asarray(a).view("u1").max() == 1
    with pytest.raises(BufferError, match="other bytes than 0 and 1"):
        et.asarray(offered(odd), copy=False)


def test_texts_that_are_no_utf8_are_bytes_as_in_python(tmp_path):
    name = "w\udc80"
    model = GruNet()
    path = tmp_path / f"m{name}.npz"
    et.save_parameters(model, path)
    assert path.exists()
    et.load_parameters(model, str(path))
    with pytest.raises(et.ValueError, match="surrogate"):
        et.nn.spike(et.ones(2), name)
    with pytest.raises(TypeError):
        et.save_parameters(model, "lone \ud800")
