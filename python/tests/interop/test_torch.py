"""et.torch: weights of PyTorch's layers both ways; modules of PyTorch, snnTorch, Norse and SpikingJelly as models that give
the framework's outputs, learn online and go back. What needs no PyTorch runs everywhere; the rest by ./dev interop."""

import warnings

import numpy as np
import pytest

et = pytest.importorskip("etrace")
if not hasattr(et, "compile"):
    pytest.skip("the extension is not built", allow_module_level=True)
warnings.filterwarnings("ignore")
try:
    import torch
except ImportError:
    torch = None
with_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
STEPS, BATCH = 200, 3


# Without PyTorch --------------------------------------------------------------------------------------------
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def weights(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=s).astype(np.float32) * 0.4 for s in shapes]


def cell_state(gates, inputs=3, hidden=4, seed=0):
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return dict(zip(names, weights((gates * hidden, inputs), (gates * hidden, hidden), (gates * hidden,),
                                   (gates * hidden,), seed=seed)))


def test_gates_of_an_lstm_are_put_in_order():
    state = cell_state(4)
    cell = et.nn.LSTMCell(3, 4)
    et.torch.load_state_dict(cell, state)
    x, h, c = weights((3,), (4,), (4,), seed=1)
    et.init_all_states(cell)
    cell.h.value, cell.c.value = h, c
    i, f, g, o = np.split(state["weight_ih"] @ x + state["bias_ih"] + state["weight_hh"] @ h + state["bias_hh"], 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    np.testing.assert_allclose(cell(x), sigmoid(o) * np.tanh(c), rtol=1e-5, atol=1e-6)
    back = et.torch.state_dict(cell, tensors=False)
    for name, value in state.items():
        np.testing.assert_allclose(back[name], value, atol=1e-6)


def test_pytorchs_gru_is_another_than_ours():
    state = cell_state(3)
    cell = et.torch.GRUCell(3, 4)
    et.torch.load_state_dict(cell, state)
    x, h = weights((3,), (4,), seed=1)
    et.init_all_states(cell)
    cell.h.value = h
    a, b = state["weight_ih"] @ x + state["bias_ih"], state["weight_hh"] @ h + state["bias_hh"]
    r, z = sigmoid(a[:4] + b[:4]), sigmoid(a[4:8] + b[4:8])
    n = np.tanh(a[8:] + r * b[8:])
    np.testing.assert_allclose(cell(x), (1 - z) * n + z * h, rtol=1e-5, atol=1e-6)
    with pytest.raises(et.NotSupportedError, match="GRUCell has no counterpart.*use et.torch.GRUCell"):
        et.torch.load_state_dict(et.nn.GRUCell(3, 4), state)


class Net(et.Module):
    def __init__(self):
        super().__init__()
        self.rnn = et.nn.VanillaRNNCell(3, 4, activation="tanh")
        self.head = et.Sequential(et.nn.LayerNorm(4), et.nn.Linear(4, 2))
        self.gain = et.ParamState(et.ones(2))

    def update(self, x):
        return self.head(self.rnn(x)) * self.gain.value


def test_names_shapes_and_what_is_left_over():
    model = Net()
    state = et.torch.state_dict(model, tensors=False)
    assert {k: v.shape for k, v in state.items()} == {
        "rnn.weight_ih": (4, 3), "rnn.weight_hh": (4, 4), "rnn.bias_ih": (4,), "rnn.bias_hh": (4,), "head.0.weight": (4,),
        "head.0.bias": (4,), "head.1.weight": (2, 4), "head.1.bias": (2,), "gain": (2,)}
    before = np.array(model.head[1].weight["weight"])
    for broken, message in (
            ({k: v for k, v in state.items() if k != "head.1.bias"}, "there is no head.1.bias in the state_dict"),
            ({**state, "other.weight": before}, "the model has no parameters other.weight"),
            ({**state, "head.1.weight": np.ones((4, 2))}, r"head.1.weight.weight has shape \(4, 2\) here, the value \(2, 4\)")):
        with pytest.raises(et.ValueError, match=message):
            et.torch.load_state_dict(model, {k: v + 1 for k, v in broken.items()})
        np.testing.assert_array_equal(model.head[1].weight["weight"], before)  # all or none
    strided = {k: np.asarray(np.repeat(v[None], 2, 0)[::2][0], order="F") for k, v in state.items()}
    strided["head.1.weight"] = np.full((2, 4), np.nan, np.float32)
    et.torch.load_state_dict(model, strided)
    assert np.isnan(model.head[1].weight["weight"]).all()


def test_layers_that_share_weights_count_once():
    class Shared(et.Module):
        def __init__(self):
            super().__init__()
            self.a = et.nn.Linear(3, 3)
            self.b = self.a

        def update(self, x):
            return self.b(self.a(x))
    assert set(et.torch.state_dict(Shared(), tensors=False)) == {"a.weight", "a.bias"}


def test_what_pytorch_lacks_is_refused():
    with pytest.raises(et.NotSupportedError, match="MGUCell has no counterpart in PyTorch"):
        et.torch.state_dict(et.nn.MGUCell(3, 4), tensors=False)
    with pytest.raises(et.NotSupportedError, match="layout of its own"):
        et.torch.state_dict(et.nn.Conv2d((2, 5, 5), 3, [3, 3], layout=["NCHW", "HWIO", "NHWC"]), tensors=False)


# With PyTorch -----------------------------------------------------------------------------------------------
def ours(model, xs, learner=None):
    learner = learner or et.compile(model, et.D_RTRL(), xs[0], batch_size=xs.shape[1])
    learner.reset_model_state()
    return np.asarray(learner.etrace_evolve(xs))


def theirs(module, xs, stateful):
    """A step at a time, from fresh states."""
    out, state = [], None
    for part in module.modules():
        for name in ("reset_mem", "reset"):
            if callable(getattr(part, name, None)):
                getattr(part, name)()
    with torch.no_grad():
        for x in torch.as_tensor(xs):
            y, state = module(x, state) if stateful else (module(x), None)
            out.append(y[0] if isinstance(y, tuple) else y)
    return torch.stack(out).numpy()


def modules():
    if torch is None:
        return {}
    nn, out = torch.nn, {}
    try:
        import snntorch as snn

        def after(neuron):
            return lambda: nn.Sequential(nn.Linear(5, 20), neuron(), nn.Linear(20, 2))
        out["snn.Leaky"] = after(lambda: snn.Leaky(beta=0.9, init_hidden=True)), False, 3.0
        out["snn.Leaky zero"] = after(lambda: snn.Leaky(beta=0.9, init_hidden=True, reset_mechanism="zero",
                                                        learn_beta=True, learn_threshold=True)), False, 3.0
        out["snn.Leaky none"] = after(lambda: snn.Leaky(beta=torch.linspace(0.5, 0.99, 20), init_hidden=True,
                                                        reset_mechanism="none", graded_spikes_factor=0.5)), False, 3.0
        out["snn.Synaptic"] = after(lambda: snn.Synaptic(alpha=0.8, beta=0.9, init_hidden=True, learn_alpha=True)), False, 1.0
        out["snn.Synaptic zero"] = after(lambda: snn.Synaptic(alpha=0.8, beta=0.9, init_hidden=True,
                                                              reset_mechanism="zero")), False, 1.0
        out["snn.RLeaky"] = after(lambda: snn.RLeaky(beta=0.9, linear_features=20, init_hidden=True)), False, 3.0
        out["snn.RLeaky zero"] = after(lambda: snn.RLeaky(beta=0.9, linear_features=20, init_hidden=True,
                                                          reset_mechanism="zero")), False, 3.0
        out["snn.Lapicque"] = after(lambda: snn.Lapicque(beta=0.9, init_hidden=True)), False, 20.0
    except ImportError:
        pass
    try:
        import norse.torch as norse
        state = norse.SequentialState
        out["norse.LIFCell"] = lambda: state(nn.Linear(5, 20), norse.LIFCell(), nn.Linear(20, 2), norse.LICell()), True, 60.0
        out["norse.LIFCell alone"] = lambda: state(nn.Linear(5, 20), norse.LIFCell(), nn.Linear(20, 2)), True, 60.0
        out["norse.LIFRecurrentCell"] = lambda: state(norse.LIFRecurrentCell(5, 20), nn.Linear(20, 2)), True, 10.0
        out["norse.LIFBoxCell"] = lambda: state(nn.Linear(5, 20), norse.LIFBoxCell(), nn.Linear(20, 2)), True, 30.0
    except ImportError:
        pass
    try:
        from spikingjelly.activation_based import neuron, surrogate

        def jelly(node):
            return lambda: nn.Sequential(nn.Linear(5, 20), node(), nn.Linear(20, 2))
        out["sj.LIFNode"] = jelly(neuron.LIFNode), False, 4.0
        out["sj.LIFNode soft"] = jelly(lambda: neuron.LIFNode(v_reset=None, decay_input=False, detach_reset=True,
                                                              surrogate_function=surrogate.ATan())), False, 2.0
        out["sj.IFNode"] = jelly(neuron.IFNode), False, 1.0
        out["sj.ParametricLIFNode"] = jelly(neuron.ParametricLIFNode), False, 4.0
    except ImportError:
        pass
    return out


MODULES = modules()


@with_torch
@pytest.mark.parametrize("name", MODULES)
def test_spiking_modules_come_learn_and_go_back(name):
    torch.manual_seed(1)
    make, stateful, scale = MODULES[name]
    module = make()
    xs = (np.random.default_rng(0).normal(size=(STEPS, BATCH, 5)) * scale).astype(np.float32)
    ys = np.ones((STEPS, BATCH, 2), np.float32)
    model = et.torch.from_module(module, torch.as_tensor(xs[0]))
    expected = theirs(module, xs, stateful)
    assert expected.std() > 1e-3, "nothing fires"
    learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=BATCH)
    np.testing.assert_allclose(ours(model, xs, learner), expected, rtol=1e-6, atol=1e-6)
    optimizer = et.optim.Adam(model, 1e-2)
    before, losses = {k: v.clone() for k, v in module.state_dict().items()}, []
    for _ in range(8):
        learner.reset_state()
        learner.reset_model_state()
        losses.append(learner.etrace_train(xs, ys, et.loss.mse, optimizer, update="window", window=50).loss)
    assert losses[-1] < losses[0]
    et.torch.load_into(module, model)
    changed = [k for k, v in module.state_dict().items() if v.numel() and not torch.equal(v, before[k])]
    assert set(n for n, _ in module.named_parameters()) - {"1.V"} <= set(changed)
    np.testing.assert_allclose(theirs(module, xs, stateful), ours(model, xs, learner), rtol=2e-6, atol=2e-6)


@with_torch
def test_gradients_are_pytorchs():
    """One neuron of each framework: BPTT by PyTorch against the exact rule here, without recurrent products."""
    for name in ("snn.Leaky", "snn.Synaptic", "norse.LIFCell alone", "norse.LIFBoxCell", "sj.LIFNode", "sj.LIFNode soft"):
        if name not in MODULES:
            continue
        torch.manual_seed(1)
        make, stateful, scale = MODULES[name]
        module = make()
        xs = (np.random.default_rng(0).normal(size=(20, BATCH, 5)) * scale).astype(np.float32)
        ys = np.ones((20, BATCH, 2), np.float32)
        model = et.torch.from_module(module, torch.as_tensor(xs[0]))
        learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=BATCH)
        grads = learner.etrace_grad(xs, ys, et.loss.mse, reduction="sum").grads
        loss, state = 0.0, None
        for x, y in zip(torch.as_tensor(xs), torch.as_tensor(ys)):
            out, state = module(x, state) if stateful else (module(x), None)
            loss = loss + ((out - y) ** 2).mean()
        loss.backward()
        mine = grads["layers/0/weight"]["weight"]
        np.testing.assert_allclose(np.asarray(mine).T, module[0].weight.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


@with_torch
def test_surrogates_are_theirs():
    x = np.linspace(-2, 2, 41).astype(np.float32) + 0.013
    cases = []
    try:
        from etrace.torch._neurons import norse_surrogate, snntorch_surrogate, spikingjelly_surrogate
        from snntorch import surrogate as s
        cases += [(f, snntorch_surrogate(f, "")) for f in (s.atan(3.0), s.fast_sigmoid(10), s.sigmoid(5), s.heaviside(),
                                                           s.straight_through_estimator(), s.spike_rate_escape(2, 3), s.SFS(7, 0.5))]
        with pytest.raises(et.NotSupportedError, match="triangular.*has no counterpart.*surrogate="):
            snntorch_surrogate(s.triangular(), "lif")
    except ImportError:
        pass
    try:
        from norse.torch.functional.threshold import threshold
        cases += [(lambda v, m=m: threshold(v, m, 3.0), norse_surrogate(m, 3.0, "")) for m in ("super", "triangle")]
        with pytest.raises(et.NotSupportedError, match="the method 'tanh'"):
            norse_surrogate("tanh", 1.0, "lif")
    except ImportError:
        pass
    try:
        from spikingjelly.activation_based import surrogate as j
        for kind in (j.Sigmoid, j.ATan, j.PiecewiseQuadratic, j.PiecewiseExp, j.SoftSign, j.Erf, j.NonzeroSignLogAbs,
                     j.QPseudoSpike, j.SuperSpike):
            function = kind(alpha=1.7)
            cases.append((function, spikingjelly_surrogate(function, "")))
    except ImportError:
        pass
    for function, mine in cases:
        v = torch.tensor(x, requires_grad=True)
        function(v).sum().backward()
        np.testing.assert_allclose(np.asarray(mine(et.asarray(x))), v.grad.numpy(), rtol=1e-4, atol=1e-6,
                                   err_msg=str(function))


@with_torch
@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell", "RNN", "GRU", "LSTM"])
def test_cells(kind):
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(3, 4, **({"num_layers": 2} if not kind.endswith("Cell") else {}))
    xs = np.random.default_rng(0).normal(size=(STEPS, BATCH, 3)).astype(np.float32)
    model = et.torch.from_module(module)
    with torch.no_grad():
        if kind.endswith("Cell"):
            expected, state = [], None
            for x in torch.as_tensor(xs):
                state = module(x, state)
                expected.append(state[0] if isinstance(state, tuple) else state)
            expected = torch.stack(expected).numpy()
        else:
            expected = module(torch.as_tensor(xs))[0].numpy()
    learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=BATCH)
    np.testing.assert_allclose(ours(model, xs, learner), expected, rtol=1e-5, atol=1e-6)
    learner.etrace_train(xs, 0 * expected, et.loss.mse, et.optim.Adam(model, 1e-2), update="window", window=50)
    et.torch.load_into(module, model)
    twin = et.torch.from_module(module)
    np.testing.assert_allclose(ours(twin, xs), ours(model, xs, learner), rtol=1e-5, atol=1e-5)


@with_torch
def test_layers_without_time():
    torch.manual_seed(0)
    nn = torch.nn
    layers = [nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 8, (3, 1), groups=2,
              padding="same", bias=False), nn.GroupNorm(2, 8), nn.AvgPool2d(2, padding=1), nn.GELU(), nn.MaxPool2d(2),
              nn.PReLU(), nn.Flatten(), nn.LayerNorm(8 * 4), nn.Linear(32, 5), nn.Softmax(-1)]
    module = nn.Sequential(*layers)
    x = torch.randn(6, 3, 12, 12)
    module(x)  # running averages
    module.eval()
    model = et.torch.from_module(module, x)
    et.init_all_states(model, 6)
    with torch.no_grad():
        expected = module(x).numpy()
    np.testing.assert_allclose(np.asarray(model(x)), expected, rtol=1e-5, atol=1e-6)
    for name, value in et.torch.state_dict(model).items():
        if "num_batches" not in name:
            torch.testing.assert_close(value, module.state_dict()[name], rtol=0, atol=0)
    table = nn.Embedding(7, 3)
    np.testing.assert_array_equal(et.torch.from_module(table)(np.array([2, 6])), table.weight.detach()[[2, 6]])
    for conv, shape in ((nn.Conv1d(2, 3, 3, dilation=2), (2, 9)), (nn.Conv3d(1, 2, 2), (1, 4, 4, 4))):
        x = torch.randn(2, *shape)
        mine = et.torch.from_module(conv, x)
        et.init_all_states(mine, 2)
        np.testing.assert_allclose(np.asarray(mine(x)), conv(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@with_torch
def test_parts_at_several_places():
    torch.manual_seed(0)
    nn = torch.nn
    linear, tanh, flatten = nn.Linear(4, 4), nn.Tanh(), nn.Flatten()
    conv = nn.Sequential(nn.Conv1d(1, 2, 2), flatten, linear, tanh, linear, flatten, nn.Linear(4, 5), tanh)
    x = torch.randn(3, 1, 3)
    model = et.torch.from_module(conv, x)
    et.init_all_states(model, 3)
    np.testing.assert_allclose(np.asarray(model(x)), conv(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert len(et.params(model)) == 3  # conv, the shared one, the last
    et.set_params(model, {name: 0.5 * value for name, value in et.params(model).numpy().items()})
    et.torch.load_into(conv, model)
    np.testing.assert_allclose(np.asarray(model(x)), conv(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@with_torch
def test_dropout_and_modes():
    nn = torch.nn
    x = torch.ones(2000, 4)
    model = et.torch.from_module(nn.Sequential(nn.Identity(), nn.Dropout(0.2)), x)
    et.init_all_states(model, 2000)
    values = np.asarray(model(x))
    assert set(np.unique(values.round(4))) == {0.0, 1.25} and abs((values == 0).mean() - 0.2) < 0.05
    still = et.torch.from_module(nn.Sequential(nn.Dropout(0.2)).eval(), x)
    et.init_all_states(still, 2000)
    np.testing.assert_array_equal(np.asarray(still(x)), x)
    mixed = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    mixed[1].eval()
    with pytest.raises(et.NotSupportedError, match="BatchNorm1d at 1: it is in another mode"):
        et.torch.from_module(mixed, x)


@with_torch
def test_what_would_be_left_out_is_refused():
    nn = torch.nn
    hooked, before = nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)
    hooked[0].register_forward_hook(lambda module, inputs, output: 2 * output)
    before.register_forward_pre_hook(lambda module, inputs: (2 * inputs[0],))
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    for module, message in ((hooked, "Linear at 0: it has forward hooks"), (before, "forward hooks"),
                            (normed, "weight has a parametrization.*remove_parametrizations"),
                            (nn.Linear(2, 2).half(), r"weight is of torch.float16.*\.float\(\)"),
                            (nn.Linear(2, 2).bfloat16(), "weight is of torch.bfloat16")):
        with pytest.raises(et.NotSupportedError, match=message):
            et.torch.from_module(module)
    frozen = nn.Linear(2, 2)
    frozen.bias.requires_grad_(False)
    with pytest.warns(RuntimeWarning, match="bias: no gradient is wanted there.*frozen="):
        et.torch.from_module(frozen)


@with_torch
def test_tensors_are_arrays():
    tensor = torch.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(et.asarray(tensor.T), tensor.numpy().T)  # strided
    np.testing.assert_array_equal(et.asarray(tensor) + tensor[:, :1], tensor + tensor[:, :1])
    np.testing.assert_array_equal(torch.from_dlpack(et.asarray(tensor) * 2).numpy(), tensor * 2)
    half = torch.nn.Linear(3, 2).to(torch.bfloat16)
    assert str(et.torch.from_module(half.float()).weight["weight"].dtype) == "float32"
    double = et.torch.from_module(torch.nn.GRUCell(3, 4).double())
    assert str(double.h.dtype) == "float64"


@with_torch
def test_what_has_no_counterpart_is_refused_by_name():
    nn = torch.nn

    class Mine(nn.Module):
        def forward(self, x):
            return x

    class Odd(nn.Linear):
        def forward(self, x):
            return super().forward(x) ** 2
    for module, message in ((Mine(), "Mine: there is no counterpart.*load_state_dict"),
                            (nn.Sequential(nn.Linear(2, 2), Mine()), "Mine at 1: "),
                            (Odd(2, 2), "Odd: it derives from Linear and has a forward of its own"),
                            (nn.GRU(2, 3, bidirectional=True), "bidirectional"),
                            (nn.LSTMCell(2, 3, bias=False), "without biases"),
                            (nn.Conv2d(1, 1, 3), "give from_module an example"),
                            (nn.Embedding(3, 2, padding_idx=0), "padding_idx"),
                            (nn.ConvTranspose1d(1, 1, 2), "there is no counterpart"),
                            (nn.Flatten(2), "start_dim=2")):
        with pytest.raises(et.NotSupportedError, match=message):
            et.torch.from_module(module)
    snn = pytest.importorskip("snntorch")
    x = torch.zeros(1, 3)
    for module, message in ((snn.Leaky(beta=0.9, inhibition=True, init_hidden=True), "inhibition"),
                            (snn.Leaky(beta=0.9, reset_delay=False, init_hidden=True), "reset_delay"),
                            (snn.Alpha(alpha=0.9, beta=0.8, init_hidden=True), "difference of two filters"),
                            (snn.Leaky(beta=0.9, spike_grad=snn.surrogate.triangular(), init_hidden=True), "triangular")):
        with pytest.raises(et.NotSupportedError, match=message):
            et.torch.from_module(module, x)
    own = et.torch.from_module(snn.Leaky(beta=0.9, spike_grad=snn.surrogate.triangular(), init_hidden=True), x,
                               surrogate=et.nn.surrogate.sigmoid())
    assert own.size == (3,)
