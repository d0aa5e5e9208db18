"""et.jax.from_step: what is recognised, what is refused and how, parameters both ways."""

import collections
import json

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import etrace as et  # noqa: E402
import etrace.jax as ej  # noqa: E402
from etrace._errors import NotSupportedError, ValueError as EtraceValueError  # noqa: E402


def normal(*shape, seed=0):
    return 0.5 * jax.random.normal(jax.random.key(seed), shape, jnp.float64)


def gru(params, state, x):
    h = state["h"]
    xh = jnp.concatenate([x, h], -1)
    z = jax.nn.sigmoid(xh @ params["z"]["W"] + params["z"]["b"])
    c = jax.nn.relu(xh @ params["c"]["W"])
    h = (1 - z) * h + z * c * params["gain"] * jax.nn.softplus(params["scale"])
    return {"h": h}, h @ params["out"]


GRU = {"z": {"W": normal(7, 4, seed=1), "b": normal(4, seed=2)}, "c": {"W": normal(7, 4, seed=3)},
       "gain": normal(4, seed=4), "scale": normal(seed=8), "out": normal(4, 2, seed=5)}


def prims(model):
    return collections.Counter(e["prim"] for e in model.file["jaxpr"]["eqns"])


@pytest.mark.parametrize("batch", [(), (3,)])
def test_products_of_parameters_become_operators(program, batch):
    model = ej.trace(gru, GRU, {"h": jnp.zeros((*batch, 4))}, jnp.zeros((*batch, 3)),
                         batch_size=batch[0] if batch else None)
    found = {k: n for k, n in prims(model).items() if k.startswith("etp_")}
    assert found == {"etp_mm" if batch else "etp_mv": 3, "etp_elemwise": 2}  # z's bias stands inside its product
    run = ej.reference_run(gru, GRU, {"h": jnp.zeros((*batch, 4))}, [normal(6, *batch, 3, seed=6)],
                           normal(6, *batch, 2, seed=7))
    model.file["expected"] = {"runs": [run]}
    file = program.file(model)
    program.agrees(file)
    assert program.online(file) == {"z/W", "z/b", "c/W", "gain", "scale"}
    result = program("verify", file)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "etp_m" in repr(model.file) and "test_from_step.py:" in repr(model)


def repeated(depth, y):
    for _ in range(depth):
        y = jnp.sin(y) * y
    return y


@pytest.mark.parametrize("depth", [60, 700])
def test_long_chains_of_equations_come_in_at_once(depth):
    """Each value is read twice: a walk along all ways would not end, one along the longest would go too deep."""
    def step(p, h, x):
        z = repeated(depth, h @ p["W"])
        w = repeated(min(depth, 60), jnp.broadcast_to(p["a"], (2, 4)))
        return jnp.tanh(z[:, :4] * z[:, 4:] + h * w), h
    model = ej.trace(step, {"W": normal(4, 8), "a": normal(4)}, jnp.zeros((2, 4)), jnp.zeros((2, 3)), batch_size=2)
    assert prims(model)["etp_mm"] == 2 and prims(model)["etp_elemwise"] == 1


def test_branches_for_platforms(program):
    def step(p, h, x):
        h = jnp.tanh(lax.platform_dependent(h @ p["W"], tpu=jnp.cos, default=jnp.sin))
        return h, h
    params, state = {"W": normal(4, 4)}, normal(4, seed=1)
    model = ej.trace(step, params, state, jnp.zeros(3))
    model.file["expected"] = {"runs": [ej.reference_run(step, params, state, [normal(5, 3)], normal(5, 4))]}
    program.agrees(program.file(model))

    def elsewhere(p, h, x):
        return lax.platform_dependent(h, tpu=jnp.cos, cuda=jnp.sin), h
    with pytest.raises(NotSupportedError, match=r"test_from_step.py:\d+: .*give lax.platform_dependent a default"):
        ej.trace(elsewhere, {}, jnp.zeros(4), jnp.zeros(3))


def test_what_is_said_of_a_program_names_the_line_of_the_step(program):
    def step(p, h, x):
        y = x @ p["W"]
        h = jnp.tanh(h + y.sum())
        return h, h
    line = step.__code__.co_firstlineno
    file = program.file(ej.trace(step, {"W": normal(3, 4)}, jnp.zeros(4), jnp.zeros(3)))
    said = program("explain", file).stdout
    assert f"(at test_from_step.py:{line + 1})" in " ".join(said.split())

    def half(p, h, x):
        return jnp.tanh((h.astype(jnp.bfloat16) @ p["W"].astype(jnp.bfloat16)).astype(h.dtype)), h
    refused = program("check", program.file(ej.trace(half, {"W": normal(4, 4)}, jnp.zeros(4), jnp.zeros(3))))
    text = refused.stdout + refused.stderr
    assert refused.returncode != 0 and "convert the operand to float32" in text
    assert f"(at test_from_step.py:{half.__code__.co_firstlineno + 1})" in text


def test_a_weight_whose_result_is_spread_leaves_the_others_learning(program):
    """Its gradient is that of the step; the model as a whole is not refused."""
    def step(p, h, x):
        h = jnp.tanh(h @ p["W"] + (x @ p["v"]).sum() + (h[None] * p["column"]).sum(0))
        return h, h[:2]
    params = {"W": normal(4, 4), "v": normal(3, 1), "column": normal(3, 1)}
    model = ej.trace(step, params, jnp.zeros(4), jnp.zeros(3))
    model.file["expected"] = {"runs": [ej.reference_run(step, params, jnp.zeros(4), [normal(6, 3)], normal(6, 2))]}
    file = program.file(model)
    program.agrees(file)
    assert program.online(file) == {"W"}
    assert program("verify", file).returncode == 0


def test_only_marked_ones():
    def step(p, s, x):
        h = jnp.tanh(ej.matmul(x, p["W"], p["b"]) + s @ p["V"])
        return h, h
    params = {"W": normal(3, 4), "b": normal(4), "V": normal(4, 4)}
    marked = ej.trace(step, params, jnp.zeros(4), jnp.zeros(3), operators="marked")
    assert prims(marked)["etp_mv"] == 1 and prims(marked)["dot_general"] == 1
    assert prims(ej.trace(step, params, jnp.zeros(4), jnp.zeros(3)))["etp_mv"] == 2
    with pytest.raises(EtraceValueError, match="there are 'auto' and 'marked'"):
        ej.trace(step, params, jnp.zeros(4), jnp.zeros(3), operators="all")


def samples():
    """Every operator with plain JAX that computes the same."""
    x, g = normal(2, 4, seed=1), normal(2, 3, 4, seed=2)
    pattern = ej.SparsePattern("csr", (4, 3), [0, 1, 2, 4, 5], [2, 0, 1, 2, 0])
    dense = jnp.zeros((4, 3)).at[pattern.entries()].set
    w, b = normal(4, 3, seed=3), normal(3, seed=4)
    yield "matmul", lambda x, w, b: ej.matmul(x, w, b, weight_fn=jnp.sin), lambda x, w, b: x @ jnp.sin(w) + b, (x, w, b)
    yield "grouped", ej.grouped_matmul, lambda x, w, b: jnp.einsum("bgk,gkn->bgn", x, w) + b, \
        (g, normal(3, 4, 2), normal(3, 2))
    yield "einsum", lambda x, w: ej.einsum("bgk,kn->bgn", x, w), lambda x, w: jnp.einsum("bgk,kn->bgn", x, w), (g, w)
    yield "element", lambda w: ej.element_wise(w, jnp.tanh), jnp.tanh, (w,)
    yield "sparse", lambda x, d: ej.sparse_matmul(x, d, pattern), lambda x, d: x @ dense(d), (x, normal(5, seed=5))
    yield "lora", lambda x, b, a: ej.lora_matmul(x, b, a, alpha=2.0), lambda x, b, a: 2 * x @ b @ a, \
        (x, normal(4, 2), normal(2, 3))
    yield "conv", lambda x, k, b: ej.conv(x, k, b), \
        lambda x, k, b: lax.conv_general_dilated(x, k, (1,), "SAME") + b[:, None], (normal(2, 3, 5), normal(4, 3, 3),
                                                                                      normal(4))


@pytest.mark.parametrize("name,marked,plain,operands", list(samples()), ids=lambda v: v if isinstance(v, str) else "")
def test_marks_are_functions_of_jax(name, marked, plain, operands):
    def close(a, b):
        jax.tree_util.tree_map(lambda u, v: np.testing.assert_allclose(u, v, rtol=1e-12), a, b)
    close(marked(*operands), plain(*operands))
    every = tuple(range(len(operands)))
    close(jax.grad(lambda *v: marked(*v).sum(), every)(*operands), jax.grad(lambda *v: plain(*v).sum(), every)(*operands))
    many = jnp.stack([operands[0], 2 * operands[0]])
    axes = (0, *[None] * (len(operands) - 1))
    close(jax.vmap(marked, axes)(many, *operands[1:]), jax.vmap(plain, axes)(many, *operands[1:]))


def test_marks_under_vmap_stay_operators():
    def one(p, s, x):
        h = jnp.tanh(ej.matmul(x, p["W"]) + s)
        return h, h
    step = jax.vmap(one, in_axes=(None, 0, 0))
    model = ej.trace(step, {"W": normal(3, 4)}, jnp.zeros((5, 4)), jnp.zeros((5, 3)), batch_size=5,
                         operators="marked")
    assert prims(model)["etp_mm"] == 1


def test_marks_reach_the_file(program):
    pattern = ej.SparsePattern("csc", (4, 4), [0, 1, 2, 4, 5], [2, 0, 1, 2, 0])

    def step(p, s, x):
        h = ej.matmul(x, p["W"], weight_fn=jnp.abs) + ej.sparse_matmul(s["h"], p["S"], pattern)
        h = h + ej.lora_matmul(s["h"], p["B"], p["A"], alpha=0.5)
        h = h + ej.conv(s["h"][:, None], p["K"], p["kb"])[:, 0]
        h = h + ej.grouped_matmul(s["h"].reshape(2, 2, 2), p["G"]).reshape(2, 4)
        h = h + ej.embedding((jnp.abs(x[:, 0]) * 9).astype(jnp.int32) % 3, p["T"])
        h = jnp.tanh(h * ej.element_wise(p["e"]))
        return {"h": h}, h
    p = {"W": normal(3, 4), "S": normal(5), "B": normal(4, 2), "A": normal(2, 4), "K": normal(1, 1, 3),
         "kb": normal(1), "G": normal(2, 2, 2), "T": normal(3, 4), "e": normal(4)}
    state = {"h": jnp.zeros((2, 4))}
    model = ej.trace(step, p, state, jnp.zeros((2, 3)), batch_size=2, operators="marked")
    model.file["expected"] = {"runs": [ej.reference_run(step, p, state, [normal(4, 2, 3)], normal(4, 2, 4))]}
    file = program.file(model)
    program.agrees(file)
    assert program.online(file) == set(p) - {"G", "K", "kb"}  # their results have other shapes than h
    assert program("verify", file).returncode == 0


# Trees ------------------------------------------------------------------------------------------------------
Pair = collections.namedtuple("Pair", "v a")


def test_trees_paths_and_results():
    def step(p, s, x):
        v = jnp.tanh(x["in"] @ p["layers"][0]["W"] + s["cell"].v)
        return {"cell": Pair(v, s["cell"].a + 1), "n": s["n"] + 1}, {"out": v, "sum": v.sum()}
    params = {"layers": [{"W": normal(3, 4)}]}
    state = {"cell": Pair(jnp.zeros(4), jnp.zeros(4)), "n": jnp.zeros((), jnp.int32)}
    model = ej.trace(step, params, state, {"in": jnp.zeros(3)})
    assert [(r["role"], "/".join(r.get("path", []))) for r in model.file["inputs"]] == [
        ("param", "layers/0/W"), ("hidden", "cell/v"), ("hidden", "cell/a"), ("other", "n"), ("arg", "")]
    assert [r["role"] for r in model.file["outputs"]] == ["hidden", "hidden", "other", "out", "out"]
    new = model.parameters({"layers/0/W": np.ones((3, 4))})
    assert new["layers"][0]["W"].sum() == 12
    with pytest.raises(EtraceValueError, match="no value for the parameter layers/0/W"):
        model.parameters({})
    with pytest.raises(EtraceValueError, match=r"has shape \(3, 4\), the value \(3,\)"):
        model.parameters({"layers/0/W": np.ones(3)})


def test_states_that_are_not_traced():
    def step(p, s, x):
        return {"h": s["h"] + x, "sum": s["sum"] + x}, s["h"]
    state = {"h": jnp.zeros(3), "sum": jnp.zeros(3)}
    model = ej.trace(step, {}, state, jnp.zeros(3), hidden=lambda path, value: path == ("h",))
    assert [r["role"] for r in model.file["inputs"]] == ["hidden", "other", "arg"]
    with pytest.raises(EtraceValueError, match="only states of floating type"):
        ej.trace(lambda p, s, x: (s, x), {}, jnp.zeros(2, jnp.int32), jnp.zeros(2), hidden=lambda *_: True)


def test_wrong_states_and_batches():
    zeros = jnp.zeros((2, 3))
    with pytest.raises(EtraceValueError, match="must return the states that it got"):
        ej.trace(lambda p, s, x: (x, x), {}, {"h": zeros}, zeros)
    with pytest.raises(EtraceValueError, match=r"state h is float64\[2, 3\] before the step and float32\[2, 3\]"):
        ej.trace(lambda p, s, x: ({"h": s["h"].astype(jnp.float32)}, x), {}, {"h": zeros}, zeros)
    with pytest.raises(EtraceValueError, match="batch_size is 4, but state h has shape"):
        ej.trace(lambda p, s, x: (s, x), {}, {"h": zeros}, zeros, batch_size=4)
    with pytest.raises(EtraceValueError, match="batch_size is 2, but argument 0 has shape"):
        ej.trace(lambda p, s, x: (s, x), {}, {"h": zeros}, jnp.zeros(3), batch_size=2)


# What is refused --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("function,message", [
    (lambda x: jnp.fft.fft(x).real, "element type complex|primitive 'fft'"),
    (lambda x: jax.pure_callback(lambda v: v, x, x), "pure_callback.*jax.numpy"),
    (lambda x: jnp.linalg.cholesky(jnp.outer(x, x)).sum(0), "cholesky"),
    (lambda x: x.astype(jnp.int8).astype(x.dtype), "element type int8"),
    (lambda x: x + jax.random.normal(jax.random.key(0, impl="rbg"), x.shape, jnp.float32), "threefry"),
    (lambda x: x + jax.random.normal(jax.random.key(0), x.shape, jnp.float64), "64 bits.*float32"),
    (lambda x: lax.reduce_precision(x, 5, 10), "convert to a type of that width"),
    (lambda x: x.at[0].multiply(2.0), "scatter_mul.*jnp.where"),
], ids="complex callback solver int8 generator bits precision scatter".split())
def test_what_has_no_counterpart_is_refused_with_its_line(function, message):
    with pytest.raises(NotSupportedError, match=message) as error:
        ej.trace(lambda p, s, x: (s, function(x)), {}, jnp.zeros(3), jnp.zeros(3))
    assert error.value.origin.file.endswith("test_from_step.py") and "test_from_step.py:" in str(error.value)


def test_random_numbers_of_the_older_kind_are_refused():
    def step(p, s, x):
        return jax.random.split(s)[0], x + jax.random.uniform(s, x.shape, jnp.float32)
    before = jax.config.jax_threefry_partitionable
    jax.config.update("jax_threefry_partitionable", False)
    try:
        with pytest.raises(NotSupportedError, match="jax_threefry_partitionable.*the default since"):
            ej.trace(step, {}, jax.random.key(0), jnp.zeros(3))
    finally:
        jax.config.update("jax_threefry_partitionable", before)


def test_prints_are_left_out_and_said():
    def step(p, s, x):
        jax.debug.print("x {}", x)
        return s + x, x
    model = ej.trace(step, {}, jnp.zeros(3), jnp.zeros(3))
    assert any("left out" in n for n in model.notes)


def test_what_nobody_reads_is_not_refused():
    def step(p, s, x):
        jnp.fft.fft(x)
        return s + x, x
    ej.trace(step, {}, jnp.zeros(3), jnp.zeros(3))


def test_to_model_file(program, tmp_path):
    path = tmp_path / "gru.json"
    ej.to_model_file(path, gru, GRU, {"h": jnp.zeros(4)}, jnp.zeros(3), name="gru",
                     sequence=(normal(6, 3, seed=6), normal(6, 2, seed=7)))
    assert json.loads(path.read_text())["name"] == "gru"
    program.agrees(path)


def test_only_keys_are_keys():
    """A pair of uint32 is one of numbers, unless it is said to be a key; keys of JAX's own type are known. Resets set all
    of them back, as JAX begins with the state that it is given."""

    def step(p, s, x):
        rng, sub = jax.random.split(s["rng"])
        h = p * s["h"] + x + jax.random.normal(sub, x.shape, x.dtype)
        return {"h": h, "n": s["n"], "rng": rng}, h + s["n"].astype(jnp.float32)

    for made, keys, kind in ((jax.random.key(1), (), "KeyState"), (jax.random.PRNGKey(1), (), "ShortTermState"),
                             (jax.random.PRNGKey(1), "rng", "KeyState")):
        state = {"h": jnp.zeros((4, 2), jnp.float32), "n": jnp.array([7, 8], jnp.uint32), "rng": made}
        model = ej.from_step(step, jnp.ones((), jnp.float32), state, jnp.zeros((4, 2), jnp.float32), batch_size=4, keys=keys)
        assert model._by_path[("rng",)].kind == kind and model._by_path[("n",)].kind == "ShortTermState"
        learner = et.compile(model, et.D_RTRL(), np.zeros((4, 2), np.float32), batch_size=4, backend="interpreter")
        xs = np.zeros((3, 4, 2), np.float32)
        expected = jax.lax.scan(lambda s, x: step(jnp.ones((), jnp.float32), s, x), state, xs)[1]
        for _ in range(2):
            learner.reset_model_state()
            np.testing.assert_allclose(learner.etrace_evolve(xs), expected, rtol=1e-5, atol=1e-6)
    for keys, text in ((["nix"], "keys names 'nix', which is no state"), (["h"], "a random key is a pair of uint32")):
        with pytest.raises(EtraceValueError, match=text):
            ej.from_step(step, jnp.ones((), jnp.float32), state, jnp.zeros((4, 2), jnp.float32), batch_size=4, keys=keys)
