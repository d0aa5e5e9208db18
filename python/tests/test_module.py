"""Modules written in Python: attributes, paths, states, errors, copies."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import etrace as et
from models import GruNet, Leaky, Linear, mse, normal


def paths(model, kind=None):
    return list(et.states(model, kind))


def test_attributes_become_members():
    net = GruNet()
    assert paths(net) == ["out/weight", "rnn/Wh/weight", "rnn/Wr/weight", "rnn/Wz/weight", "rnn/h"]
    assert paths(net, et.HiddenState) == ["rnn/h"]
    assert paths(net, et.ParamState) == ["out/weight", "rnn/Wh/weight", "rnn/Wr/weight", "rnn/Wz/weight"]
    assert et.states(net)["rnn/h"] is net.rnn.h
    assert net.rnn.h.name == "h" and net.rnn.h.kind == "HiddenState"


def test_setting_again_replaces_and_deleting_takes_away():
    net = GruNet()
    net.out = Linear(8, 5)
    assert et.states(net)["out/weight"]["weight"].shape == (8, 5)
    net.out = 7
    assert "out/weight" not in paths(net) and net.out == 7
    net.rnn.more = et.ShortTermState(np.zeros(2, "float32"))
    assert "rnn/more" in paths(net)
    del net.rnn.more
    assert "rnn/more" not in paths(net) and not hasattr(net.rnn, "more")


def test_one_object_at_two_names_appears_once():
    net = et.Module()
    net.b = net.a = Linear(2, 2)
    assert paths(net) == ["a/weight"]
    net.c = et.Module()
    net.c.tied = net.a.weight
    assert paths(net) == ["a/weight"]


def test_lists_tuples_and_dictionaries_of_modules():
    net = et.Module()
    net.layers = [Linear(2, 2), Linear(2, 2)]
    net.pair = (Linear(1, 1),)
    net.parts = {"x": Linear(1, 1), "deep": [Linear(1, 1)]}
    assert paths(net) == [
        "layers/0/weight", "layers/1/weight", "pair/0/weight", "parts/deep/0/weight", "parts/x/weight",
    ]  # fmt: skip
    assert isinstance(net.layers, et.ModuleList) and len(net.layers) == 2
    net.layers.append(Linear(3, 3))
    net.layers[0] = Linear(4, 4)
    first = net.layers.pop(1)
    assert first.weight["weight"].shape == (2, 2)
    assert [l.weight["weight"].shape for l in net.layers] == [(4, 4), (3, 3)]
    assert et.states(net)["layers/1/weight"]["weight"].shape == (3, 3)
    net.layers.insert(0, Linear(5, 5))
    del net.layers[-1]
    assert [l.weight["weight"].shape for l in net.layers] == [(5, 5), (4, 4)]
    del net.parts["x"]
    assert "parts/x/weight" not in paths(net)


def test_lists_and_dictionaries_of_modules_are_those_of_python():
    net = et.Module()
    net.layers, net.parts = [Linear(1, 1), Linear(2, 2)], {"a": Linear(1, 1)}
    net.layers += [Linear(3, 3)]
    net.layers[:2] = [Linear(4, 4)]
    assert [l.weight["weight"].shape for l in net.layers] == [(4, 4), (3, 3)]
    with pytest.raises(et.TypeError, match="only modules can be elements"):
        net.layers[:1] = [3]
    net.parts.update({"b": Linear(2, 2)})
    gone = net.parts.pop("a")
    assert net.parts.get("a") is None and gone.weight["weight"].shape == (1, 1)
    assert paths(net) == ["layers/0/weight", "layers/1/weight", "parts/b/weight"]
    with pytest.raises(KeyError):
        del net.parts["a"]
    for container in (net.layers, net.parts):
        with pytest.raises(NotImplementedError, match="call its elements"):
            container(1.0)


def test_members_stay_during_a_step():
    class Changing(GruNet):
        def __init__(self, change):
            super().__init__()
            self.change = change
            self.more = [Linear(2, 2)]

        def update(self, x):
            y = super().update(x)
            self.change(self)
            return y

    def alias(m):
        m.alias = m.rnn

    def replace(m):
        m.out = Linear(8, 2)

    def delete(m):
        del m.out

    for change in (alias, delete, lambda m: m.more.append(m.rnn), lambda m: m.more.pop(), lambda m: setattr(m, "out", None)):
        model = Changing(change)
        before = paths(model)
        with pytest.raises(NotImplementedError, match="during a step"):
            et.compile(model, et.D_RTRL, normal(0, (4, 3)), batch_size=4)
        assert paths(model) == before
    with pytest.raises(NotImplementedError, match="inside a traced step"):
        et.compile(Changing(replace), et.D_RTRL, normal(0, (4, 3)), batch_size=4)


def test_an_array_where_a_state_was():
    class Wrong(et.Module):
        def __init__(self):
            super().__init__()
            self.v = et.HiddenState(et.zeros(3))

        def update(self, x):
            self.v = self.v.value + x
            return self.v

    with pytest.raises(TypeError, match=r"'v' of Wrong is a state, .* write self\.v\.value = …"):
        et.compile(Wrong(), et.D_RTRL, np.zeros(3))
    model = Wrong()
    with pytest.raises(TypeError, match="self.v.value"):
        model.v = np.zeros(3)
    model.v = None  # taken away
    assert paths(model) == []


def test_a_state_is_no_array():
    v = et.HiddenState(et.zeros(3))
    for use in (lambda: v + 1.0 * et.ones(3), lambda: et.ones(3) * v, lambda: et.tanh(v), lambda: np.ones(3) * et.ones(3) - v):
        with pytest.raises(TypeError, match=r"a HiddenState of float32 is no array; its array is its \.value"):
            use()


def test_hidden_states_of_several_arrays():
    with pytest.raises(TypeError, match="use et.HiddenTreeState"):
        et.HiddenState({"a": np.ones(3)})
    assert type(et.HiddenTreeState({"a": np.ones(3)})).__name__ == "HiddenTreeState"


def test_wrong_arguments_of_functions_of_a_model():
    model = GruNet()
    for batch in ("4", 2.0, True):
        with pytest.raises(TypeError, match="batch_size is a whole number or None"):
            et.init_all_states(model, batch)
    with pytest.raises(TypeError, match="values are et.ParamValues or a dictionary"):
        et.set_params(model, 3)
    with pytest.raises(TypeError, match=r"et.Sequential\(\*layers\)"):
        et.Sequential([Linear(3, 3)])


def test_an_attribute_error_inside_a_property_is_its_own():
    class Net(et.Module):
        @property
        def size(self):
            return self.sizes[0]

    with pytest.raises(AttributeError, match="'sizes'"):
        Net().size


def test_sequential():
    net = et.Sequential(Linear(2, 3), Linear(3, 4))
    assert net(np.ones((1, 2), "float32")).shape == (1, 4)
    assert paths(net) == ["layers/0/weight", "layers/1/weight"]
    x = et.ones((1, 2))
    assert (x >> net).shape == (1, 4)


def test_a_forgotten_super_init_is_said():
    class Forgets(et.Module):
        def __init__(self):
            self.size = 3  # plain values are no matter
            self.h = et.HiddenState(et.zeros(3))

    with pytest.raises(AttributeError, match=r"Forgets.__init__\(\) must call super\(\).__init__\(\).*'h'"):
        Forgets()

    class Nothing(et.Module):
        def __init__(self):
            self.size = 3

    with pytest.raises(AttributeError, match="super"):
        Nothing()(1.0)
    with pytest.raises(AttributeError, match="super"):
        et.compile(Nothing(), et.D_RTRL, et.zeros(3))


def test_what_cannot_be_attached():
    net = et.Module()
    with pytest.raises(et.TypeError, match="beside modules"):
        net.mixed = [Linear(1, 1), 3]
    with pytest.raises(et.TypeError, match="a state beside modules"):
        net.states_ = [et.HiddenState(et.zeros(1))]
    with pytest.raises(et.TypeError, match="no order"):
        net.unordered = {Linear(1, 1)}
    with pytest.raises(et.TypeError, match="is a text"):
        net.byint = {1: Linear(1, 1)}
    with pytest.raises(ValueError, match="hold itself"):
        net.me = net
    with pytest.raises(ValueError, match="'/'"):
        setattr(net, "a/b", Linear(1, 1))
    assert paths(net) == []


def test_a_list_that_is_filled_later_is_not_lost_in_silence():
    class Net(Leaky):
        def __init__(self):
            super().__init__()
            self.layers = []
            self.layers.append(Linear(4, 4))

    with pytest.raises(et.ValueError, match="'layers' of Net is a plain list"):
        et.compile(Net(), et.D_RTRL, np.zeros(3))


def test_a_module_without_update():
    with pytest.raises(NotImplementedError, match="define update"):
        et.Module()(1.0)

    class Silent(Leaky):
        def update(self, x):
            super().update(x)

    with pytest.raises(TypeError, match="Silent.update returned nothing"):
        et.compile(Silent(), et.D_RTRL, np.zeros(3))


def test_properties_and_plain_attributes_stay():
    class Net(et.Module):
        def __init__(self):
            super().__init__()
            self.size = 3

        @property
        def double(self):
            return 2 * self.size

        @double.setter
        def double(self, value):
            self.size = value // 2

    net = Net()
    net.double = 10
    assert net.size == 5 and net.double == 10
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        net.nothing


# States --------------------------------------------------------------------------------------------------------------
def test_states_hold_their_types():
    p = et.ParamState(np.ones((2, 3), "float32"))
    assert p.shape == (2, 3) and p.dtype == "float32"
    p.value = np.zeros((2, 3))  # another width of float is converted
    assert p.dtype == "float32" and float(et.sum(p.value)) == 0
    p.value = 2.0
    assert np.asarray(p.value).tolist() == [[2, 2, 2]] * 2
    with pytest.raises(ValueError, match="keeps its shape"):
        p.value = np.zeros((3, 2), "float32")
    with pytest.raises(TypeError, match="i32"):
        p.value = np.zeros((2, 3), "int32")
    with pytest.raises(TypeError, match="holds f32"):
        p.value = et.zeros((2, 3), "float64")


def test_states_of_what_is_no_array():
    for nothing in (None, "text", object()):
        with pytest.raises(TypeError, match="is no array"):
            et.ParamState(nothing)


def test_dictionaries_of_leaves():
    p = et.ParamState({"weight": np.ones((2, 3), "float32"), "bias": np.zeros(3, "float32")})
    assert p.leaf_keys == ["bias", "weight"] and set(p.value) == {"bias", "weight"}
    p["bias"] = np.ones(3)
    p.value = {"weight": np.zeros((2, 3), "float32")}
    assert np.asarray(p["bias"]).tolist() == [1, 1, 1] and not np.asarray(p["weight"]).any()
    with pytest.raises(ValueError, match="no leaf 'wight'"):
        p["wight"] = 1.0
    with pytest.raises(TypeError, match="is a dictionary"):
        p.value = 1.0
    with pytest.raises(ValueError, match="keeps its shape"):
        p.value = {"weight": np.zeros((2, 3), "float32"), "bias": np.zeros(4, "float32")}
    assert np.asarray(p["bias"]).tolist() == [1, 1, 1]


def test_states_copy_what_they_are_given():
    x = np.ones(3, "float32")
    p, h = et.ParamState(x), et.HiddenState(x)
    p2 = et.ParamState(np.zeros(3, "float32"))
    p2.value = x
    x[:] = 5
    assert all(np.asarray(s.value).tolist() == [1, 1, 1] for s in (p, h, p2))
    h.reset()
    assert np.asarray(h.value).tolist() == [1, 1, 1]
    old = np.asarray(p.value)
    p.value = 7.0
    assert old.tolist() == [1, 1, 1]


def test_kinds_of_states():
    group = et.HiddenGroupState(np.zeros((4, 2), "float32"))
    group.set_value(1, np.ones(4, "float32"))
    assert group.num_state == 2 and group.varshape == (4,)
    assert np.asarray(group.value)[:, 1].tolist() == [1] * 4
    tree = et.HiddenTreeState({"v": np.zeros(4, "float32"), "a": np.ones(4, "float32")})
    assert tree.names == ["v", "a"] and np.asarray(tree.get_value("a")).tolist() == [1] * 4
    key = et.RandomState(3)
    assert not np.array_equal(np.asarray(key.next()), np.asarray(key.next()))
    delay = et.ShortTermState(np.zeros(3, "float32"), per_sample=False)
    hidden = et.HiddenState(et.zeros(4))
    net = et.Module()
    net.delay, net.hidden = delay, hidden
    et.init_all_states(net, 5)
    assert delay.shape == (3,) and hidden.shape == (5, 4) and hidden.batch_size == 5
    hidden.value = 1.0
    et.reset_all_states(net)
    assert not np.asarray(hidden.value).any()


def test_init_state_is_asked():
    class Net(Leaky):
        def init_state(self):
            self.count = et.ShortTermState(np.zeros(2))

    net = Net()
    et.init_all_states(net, 3)
    assert net.count.shape == (3, 2)


def test_modes():
    class Net(Leaky):
        def update(self, x):
            y = super().update(x)
            return et.where(self.training, y, 0.0 * y)

    net = Net()
    assert net.is_training
    learner = et.compile(net, et.D_RTRL, np.zeros(3))
    assert np.asarray(learner(np.ones(3))).any()
    net.eval()
    assert not np.asarray(learner(np.ones(3))).any()


# Calls ---------------------------------------------------------------------------------------------------------------
def test_a_step_runs_without_recording():
    net = Leaky()
    y = net(np.ones(3))
    assert np.allclose(np.asarray(y), np.asarray(net.w.value).sum(0))
    assert np.allclose(np.asarray(net(np.ones(3))), 1.9 * np.asarray(y))


def test_origins_are_places_in_the_model_and_lines_of_the_user():
    record = [r for r in et.compile_etrace_graph(GruNet(), et.zeros(3)).diagnostics if r["kind"] == "relation_included"]
    places = {r["origin"][0][-1] for r in record if r["origin"][0]}
    assert {"Wz", "Wh"} <= places
    assert all(r["origin"][1].endswith("models.py") and r["origin"][2] > 0 for r in record)


def test_an_exception_in_update_arrives_as_it_is_and_states_are_restored():
    class Net(et.Module):
        def __init__(self):
            super().__init__()
            self.inner = GruNet()
            self.fail = None

        def update(self, x):
            y = self.inner(x)
            if self.fail is not None:
                raise self.fail
            return y

    net = Net()
    before = np.asarray(net.inner.rnn.h.value).copy()
    net.fail = error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        et.compile(net, et.D_RTRL, et.zeros(3))
    assert caught.value is error
    if hasattr(error, "add_note"):
        assert any("while tracing" in n for n in error.__notes__)
    assert np.array_equal(before, np.asarray(net.inner.rnn.h.value))
    net.fail = None
    et.compile(net, et.D_RTRL, et.zeros(3))


def test_errors_name_the_module():
    class Net(GruNet):
        def update(self, x):
            return self.out(self.rnn(x)) + et.zeros(17)

    with pytest.raises(ValueError) as caught:
        et.compile(Net(), et.D_RTRL, et.zeros(3))
    assert caught.value.origin.file == __file__

    class Deep(GruNet):
        def update(self, x):
            return self.rnn.Wz(x)

    with pytest.raises(ValueError) as caught:
        et.compile(Deep(), et.D_RTRL, et.zeros(4))
    assert "Wz" in str(caught.value)


def test_a_parameter_that_is_written_in_a_step():
    class Net(Leaky):
        def update(self, x):
            y = super().update(x)
            self.w.value = self.w.value * 2.0
            return y

    with pytest.raises(et.NotSupportedError, match="parameters change between steps"):
        et.compile(Net(), et.D_RTRL, np.zeros(3))


def test_trees_as_arguments_and_results():
    class Net(Leaky):
        def update(self, inputs):
            y = super().update(inputs["x"] * inputs["gain"])
            return {"y": y, "twice": (2.0 * y, y)}

    learner = et.compile(Net(), et.D_RTRL, {"x": np.zeros(3), "gain": np.ones(())})
    out = learner({"x": np.ones(3), "gain": np.ones(())})
    assert set(out) == {"y", "twice"}
    assert np.allclose(2 * np.asarray(out["y"]), np.asarray(out["twice"][0]))


# Copies and lifetime -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_states_of_their_own(again):
    net = GruNet()
    net.more = [Linear(2, 2)]
    net.tied = net.rnn.Wz
    et.init_all_states(net, 2)
    net.rnn.h.value = 3.0
    other = again(net)
    assert paths(other) == paths(net) and other.tied is other.rnn.Wz
    assert np.array_equal(np.asarray(other.rnn.h.value), np.asarray(net.rnn.h.value))
    for name, value in et.params(net).numpy().items():
        assert np.array_equal(value, et.params(other).numpy()[name])
    other.rnn.h.value = 0.0
    other.out.weight["bias"] = 9.0
    assert np.asarray(net.rnn.h.value).max() == 3 and np.asarray(net.out.weight["bias"]).max() == 0
    assert et.trace_step(other, et.zeros((2, 3))).jaxpr == et.trace_step(net, et.zeros((2, 3))).jaxpr


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_functions_of_the_package_are_copied_with_a_model(again):
    class Cell(Leaky):
        def __init__(self):
            super().__init__()
            self.phi, self.loss, self.more = et.tanh, et.loss.mse, [et.nn.mish, et.random.normal, et.jit(et.sin)]
            self.cell = et.nn.GRUCell(4, 4, activation=et.sigmoid)

    Cell.__qualname__ = "Cell"
    globals()["Cell"] = Cell  # where a pickle finds it
    other = again(Cell())
    assert other.phi is et.tanh and other.loss is et.loss.mse and other.more[:2] == [et.nn.mish, et.random.normal]
    assert np.allclose(np.asarray(other.more[2](np.ones(2, "float32"))), np.sin(1.0))


def test_no_cycle_leads_through_c():
    net = GruNet()
    net.learner = et.compile(net, et.D_RTRL, et.zeros((1, 3)), batch_size=1)
    net.loss = lambda y, t: mse(y, t) if net is not None else y  # a closure over the model
    net.learner.etrace_grad(normal(1, (4, 1, 3)), normal(2, (4, 1, 2)), net.loss)
    net.learner.bind_step(net.loss)
    net.learner.step(normal(1, (1, 3)), normal(2, (1, 2)))
    dead = weakref.ref(net)
    del net
    gc.collect()
    assert dead() is None


def test_params_by_name():
    net = GruNet()
    values = et.params(net)
    assert list(values) == ["out/weight", "rnn/Wh/weight", "rnn/Wr/weight", "rnn/Wz/weight"]
    assert set(values["out/weight"]) == {"bias", "weight"}
    assert values["out/weight.bias"].shape == (2,) and values[("out", "weight")]["bias"].shape == (2,)
    assert "out/weight" in values and "nothing" not in values and len(values) == 4
    with pytest.raises(KeyError, match="there are: out/weight.bias"):
        values["nothing"]
    double = values * 2.0
    assert np.allclose(double.numpy()["out/weight.weight"], 2 * values.numpy()["out/weight.weight"])
    assert np.allclose((double - values - values).numpy()["rnn/Wz/weight.weight"], 0)
    et.set_params(net, {"out/weight": {"bias": np.ones(2)}, "rnn/Wz/weight.bias": np.ones(8)})
    assert np.asarray(net.out.weight["bias"]).tolist() == [1, 1]
    assert np.asarray(net.rnn.Wz.weight["bias"]).tolist() == [1] * 8
    with pytest.raises(KeyError):
        et.set_params(net, {"out/weigth.bias": np.ones(2)})
    with pytest.raises(ValueError, match="has type"):
        et.set_params(net, {"out/weight.bias": np.ones(3)})
    assert list(pickle.loads(pickle.dumps(values))) == list(values)
