"""et.nir: graphs in and out, and their steps against formulas and against snnTorch and Norse (./dev interop)."""

import numpy as np
import pytest

nir = pytest.importorskip("nir")
et = pytest.importorskip("etrace")
if not hasattr(et, "compile"):
    pytest.skip("the extension is not built", allow_module_level=True)
DT, STEPS, BATCH = 1e-3, 200, 2


def rng(seed=0):
    return np.random.default_rng(seed)


def full(n, value):
    return np.full(n, value)


def recurrent(n=6, inputs=3, cuba=True, flat=False, seed=0):
    r = rng(seed)
    one = np.ones(n)
    neuron = nir.CubaLIF(tau_syn=5e-3 * one, tau_mem=1e-2 * one, r=one, v_leak=0 * one, v_threshold=0.1 * one, w_in=2 * one) \
        if cuba else nir.LIF(tau=1e-2 * one, r=one, v_leak=0.02 * one, v_threshold=0.1 * one, v_reset=-0.01 * one)
    w_rec = nir.Affine(r.normal(size=(n, n)) * 0.3, r.normal(size=n) * 0.01)
    outer = {"input": nir.Input(np.array([inputs])), "fc1": nir.Affine(r.normal(size=(n, inputs)), np.zeros(n)),
             "fc2": nir.Linear(r.normal(size=(2, n))), "output": nir.Output(np.array([2]))}
    if flat:
        return nir.NIRGraph({**outer, "lif1.lif": neuron, "lif1.w_rec": w_rec},
                            [("input", "fc1"), ("fc1", "lif1.lif"), ("lif1.lif", "lif1.w_rec"), ("lif1.w_rec", "lif1.lif"),
                             ("lif1.lif", "fc2"), ("fc2", "output")])
    inner = nir.NIRGraph({"input": nir.Input(np.array([n])), "lif": neuron, "w_rec": w_rec, "output": nir.Output(np.array([n]))},
                         [("input", "lif"), ("lif", "w_rec"), ("w_rec", "lif"), ("lif", "output")])
    return nir.NIRGraph({**outer, "lif1": inner},
                        [("input", "fc1"), ("fc1", "lif1"), ("lif1", "fc2"), ("fc2", "output")])


def simulate(graph, xs):
    """The recurrent graph above by its formulas: forward Euler, the new current, reset at once."""
    inner = graph.nodes["lif1"].nodes if "lif1" in graph.nodes else \
        {"lif": graph.nodes["lif1.lif"], "w_rec": graph.nodes["lif1.w_rec"]}
    n, w = inner["lif"], inner["w_rec"]
    fc1, fc2 = graph.nodes["fc1"], graph.nodes["fc2"]
    v = np.broadcast_to(n.v_leak, (xs.shape[1], n.v_leak.size)).copy()
    i, z, out = np.zeros_like(v), np.zeros_like(v), []
    for x in xs:
        drive = x @ fc1.weight.T + fc1.bias + z @ w.weight.T + w.bias
        if isinstance(n, nir.CubaLIF):
            i = i + DT / n.tau_syn * (n.w_in * drive - i)
            v = v + DT / n.tau_mem * (n.v_leak - v + n.r * i)
        else:
            v = v + DT / n.tau * (n.v_leak - v + n.r * drive)
        z = (v > n.v_threshold).astype(float)
        v = np.where(z > 0, n.v_reset, v)
        out.append(z @ fc2.weight.T)
    return np.stack(out)


def inputs(seed=1, n=3):
    return rng(seed).normal(size=(STEPS, BATCH, n)) * 2


def run(model, xs):
    learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=xs.shape[1])
    return np.asarray(learner.etrace_evolve(xs))


@pytest.mark.parametrize("cuba", [True, False])
@pytest.mark.parametrize("flat", [True, False])
def test_recurrent_graphs_learn_online_and_go_back(cuba, flat, tmp_path):
    graph, xs = recurrent(cuba=cuba, flat=flat), inputs()
    expected = simulate(graph, xs)
    assert expected.std() > 0.1
    model = et.nir.read(graph, dt=DT, dtype="float64")
    learner = et.compile(model, et.D_RTRL(), xs[0], batch_size=BATCH)
    np.testing.assert_allclose(learner.etrace_evolve(xs), expected, atol=1e-9)
    online = " ".join(learner.graph.report.etrace_weights)
    assert "fc1" in online and "w_rec" in online
    optimizer, losses = et.optim.Adam(model, 1e-2), []
    for _ in range(5):
        learner.reset_state()
        learner.reset_model_state()
        losses.append(learner.etrace_train(xs, 0 * expected + 1, et.loss.mse, optimizer, update="window", window=50).loss)
    assert losses[-1] < losses[0]
    et.nir.write(model, tmp_path / "trained.nir")
    back = nir.read(tmp_path / "trained.nir")
    assert float(back.metadata["dt"]) == DT and set(back.nodes) == set(graph.nodes)
    assert not np.allclose(back.nodes["fc1"].weight, graph.nodes["fc1"].weight)
    learner.reset_model_state()
    np.testing.assert_allclose(simulate(back, xs), learner.etrace_evolve(xs), atol=1e-9)
    again = et.nir.read(tmp_path / "trained.nir", dtype="float64")  # dt from the metadata
    np.testing.assert_allclose(run(again, xs), simulate(back, xs), atol=1e-9)


def test_conventions():
    one = np.ones(1)
    node = nir.LI(tau=5e-3 * one, r=2 * one, v_leak=0.5 * one)
    xs = np.ones((3, 1, 1))

    def values(a):
        v, out = 0.5, []
        for _ in range(3):
            v = v + a * (0.5 - v + 2)
            out.append(v)
        return np.array(out)
    for name, a in (("euler", 0.2), ("exact", 1 - np.exp(-0.2))):
        model = et.nir.read(node, dt=1e-3, discretisation=name, dtype="float64")
        et.init_all_states(model, 1)
        np.testing.assert_allclose([float(model(x)[0, 0]) for x in xs], values(a), rtol=1e-12)
    with pytest.raises(et.ValueError, match="tau is 0.005 s, which a step of 0.01 s is too long for"):
        et.nir.read(node, dt=1e-2)
    with pytest.raises(et.ValueError, match="there are 'euler', 'exact'"):
        et.nir.read(node, discretisation="rk4")
    assert "discretisation='euler'" in repr(et.nir.read(node, dt=1e-3).conventions)
    assert et.nir.read(node).conventions.dt == 1e-4


def test_every_other_node():
    r = rng()
    shape = np.array([2, 6, 6])
    conv = nir.Conv2d((6, 6), r.normal(size=(4, 1, 3, 3)), 1, (1, 1), 1, 2, r.normal(size=4))
    graph = nir.NIRGraph(
        {"input": nir.Input(shape), "conv": conv, "if": nir.IF(r=full((4, 6, 6), 1 / DT), v_threshold=full((4, 6, 6), 1.0)),
         "sum": nir.SumPool2d(np.array([2, 2]), np.array([2, 2]), np.array([0, 0])), "avg": nir.AvgPool2d(
             np.array([3, 3]), np.array([1, 1]), np.array([1, 1])), "flat": nir.Flatten({"input": np.array([4, 3, 3])}, 0, -1),
         "scale": nir.Scale(r.normal(size=36)), "delay": nir.Delay(full(36, 2 * DT)), "i": nir.I(full(36, 1 / DT)),
         "threshold": nir.Threshold(full(36, 0.5)), "cuba": nir.CubaLI(full(36, 2e-3), full(36, 4e-3), full(36, 1.0),
                                                                       full(36, 0.0)), "output": nir.Output(np.array([36]))},
        [("input", "conv"), ("conv", "if"), ("if", "sum"), ("sum", "avg"), ("avg", "flat"), ("flat", "scale"),
         ("scale", "delay"), ("delay", "i"), ("i", "threshold"), ("threshold", "cuba"), ("cuba", "output")], type_check=False)
    graph.nodes["conv"].input_type = {"input": shape}
    model = et.nir.read(graph, dt=DT, dtype="float64")
    xs = r.normal(size=(12, BATCH, 2, 6, 6))
    outputs = run(model, xs)
    assert outputs.shape == (12, BATCH, 36) and outputs.std() > 0
    back = et.nir.write(model)
    for name, node in graph.nodes.items():
        for field in ("weight", "bias", "scale", "delay", "r", "tau_mem", "v_threshold", "threshold", "kernel_size"):
            if hasattr(node, field):
                np.testing.assert_allclose(getattr(back.nodes[name], field), getattr(node, field), err_msg=f"{name}.{field}")
    np.testing.assert_array_equal(run(et.nir.read(back, dtype="float64"), xs), outputs)


def test_several_inputs_and_sums():
    graph = nir.NIRGraph({"a": nir.Input(np.array([2])), "b": nir.Input(np.array([2])), "w": nir.Linear(np.eye(2)),
                          "li": nir.LI(full(2, 2e-3), full(2, 1.0), full(2, 0.0)), "output": nir.Output(np.array([2]))},
                         [("a", "w"), ("w", "li"), ("b", "li"), ("li", "output")])
    model = et.nir.read(graph, dt=DT, dtype="float64")
    et.init_all_states(model)
    np.testing.assert_allclose(model(np.ones(2), np.full(2, 3.0)), full(2, 2.0))
    with pytest.raises(et.ValueError, match="inputs a, b; 1 were given"):
        model(np.ones(2))


def test_what_is_refused():
    loop = nir.NIRGraph({"input": nir.Input(np.array([2])), "a": nir.Linear(np.eye(2)), "b": nir.Linear(np.eye(2)),
                         "output": nir.Output(np.array([2]))}, [("input", "a"), ("a", "b"), ("b", "a"), ("a", "output")])
    with pytest.raises(et.NotSupportedError, match="closes a cycle and is also part of another way"):
        et.nir.read(loop)
    with pytest.raises(et.ValueError, match="no whole number of steps"):
        et.nir.read(nir.Delay(full(2, 1.5e-4)))
    for layer, message in ((et.nn.GRUCell(2, 3), "GRUCell has no counterpart"),
                           (et.nn.Conv2d((5, 5, 2), 3, [3, 3]), "channels last"),
                           (et.nn.LIFRef(3), "refractory")):
        with pytest.raises(et.NotSupportedError, match=message):
            et.nir.write(layer, shape=(2,))


@pytest.mark.parametrize("synapse", ["expon", "delta"])
def test_layers_of_the_library_go_out(synapse):
    n = {"tau": 12.0, "reset": "hard", "V_th": 0.6, "V_rest": 0.1, "dtype": "float64"}
    model = et.Sequential(et.nn.LIFLayer(3, 6, neuron=n, synapse=synapse, tau_syn=4.0, input_scale=3.0) if synapse == "expon"
                          else et.nn.LIFLayer(3, 6, neuron=n, synapse=synapse, input_scale=1.0),
                          et.nn.Linear(6, 5, dtype="float64"), et.nn.LIF(5, tau=7 * et.units.ms, V_th=0.2, reset="hard",
                                                                         dtype="float64"),
                          et.nn.LeakyRateReadout(5, 2, tau=20.0, dtype="float64"))
    graph = et.nir.write(model)
    assert float(graph.metadata["dt"]) == 1e-3
    xs = inputs()
    expected = run(model, xs)
    assert expected.std() > 1e-3
    np.testing.assert_allclose(run(et.nir.read(graph, dtype="float64"), xs), expected, atol=1e-9)
    with pytest.warns(UserWarning, match="NIR has the hard reset only"):
        et.nir.write(et.nn.LIF(3))


def test_a_step_takes_time():
    graph = et.nir.write(et.Sequential(et.nn.Linear(3, 2)))
    for dt in (0.0, -1e-4, float("nan"), float("inf")):
        with pytest.raises(et.ValueError, match="a step takes a positive time"):
            et.nir.read(graph, dt=dt)


def test_snntorch_writes_and_we_read():
    torch = pytest.importorskip("torch")
    snn = pytest.importorskip("snntorch")
    from snntorch.export_nir import export_to_nir
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 20), snn.Leaky(beta=torch.full((20,), 0.9), threshold=torch.ones(20),
                                                                   init_hidden=True, reset_mechanism="zero"),
                                 torch.nn.Linear(20, 2))
    graph = export_to_nir(module, torch.zeros(3))
    xs = inputs().astype(np.float32)
    expected = []
    with torch.no_grad():
        for x in torch.as_tensor(xs):
            expected.append(module(x))
    model = et.nir.read(graph)
    np.testing.assert_allclose(run(model, xs), torch.stack(expected).numpy(), atol=1e-5)


def test_norse_reads_what_we_write(tmp_path):
    torch = pytest.importorskip("torch")
    norse = pytest.importorskip("norse.torch")
    model = et.Sequential(et.nn.Linear(3, 8), et.nn.LIF(8, tau=12.0, V_th=0.4, reset="hard"), et.nn.Linear(8, 2))
    graph = et.nir.write(model, tmp_path / "model.nir")
    try:
        module = norse.from_nir(nir.read(tmp_path / "model.nir"), dt=1e-3)
    except Exception as error:  # nirtorch and norse change their ways to each other
        pytest.skip(f"Norse does not read its own kind of graph: {error}")
    xs, state, expected = inputs().astype(np.float32), None, []
    with torch.no_grad():
        for x in torch.as_tensor(xs):
            y, state = module(x, state)
            expected.append(y)
    np.testing.assert_allclose(run(model, xs), torch.stack(expected).numpy(), atol=1e-5)
    assert graph.nodes["1"].tau.shape == (8,)
