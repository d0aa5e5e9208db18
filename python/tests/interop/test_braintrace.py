"""et.jax.from_braintrace: models of braintrace and brainpy.state come in as they are, and give braintrace's own outputs
and D_RTRL, pp_prop and e-prop gradients at 1e-9 in float64 under compat.

What braintrace computes stands in braintrace_runs.json.gz; `python test_braintrace.py --write [NAME …]` computes it
anew, and so do the tests with ETRACE_RANDOM_STEPS set (./dev interop)."""

import gzip
import json
import os
import sys
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("braintrace")
pytest.importorskip("brainpy")
sys.path.insert(0, str(Path(__file__).parent))
import conftest  # noqa: E402,F401
import jax.numpy as jnp  # noqa: E402

import braintrace_models as models  # noqa: E402
import braintrace_reference as reference  # noqa: E402
import etrace.jax as ej  # noqa: E402
from etrace._errors import ValueError as EtraceValueError  # noqa: E402

STORED = Path(__file__).with_name("braintrace_runs.json.gz")
ANEW = bool(os.environ.get("ETRACE_RANDOM_STEPS"))
STEPS, BATCH = 5, 2


def runs_of(name):
    """Outputs, and the gradients of the rules under which braintrace takes the model; it refuses several states that meet
    in one equation, which is no matter here."""
    xs, targets = reference.draw(STEPS, BATCH, models.INPUTS, seed=1), reference.draw(STEPS, BATCH, models.OUTPUTS, seed=2)
    return reference.runs(lambda: models.make(name), 3 * xs, targets, BATCH)


def imported(name):
    return ej.trace_braintrace(models.make(name), jnp.zeros((BATCH, models.INPUTS)), batch_size=BATCH, name=name)


def stored():
    return json.loads(gzip.decompress(STORED.read_bytes())) if STORED.exists() else {}


# In ordinary runs one of each kind; tracing all of them takes its time.
SOME = "ValinaRNNCell LSTMCell LRUCell LeakyRateReadout ALIF AdExIFRef Gif HH synapse_STP projection_CUBA".split()


def test_parts_give_braintraces_gradients(program, tmp_path):
    known, files, refused = stored(), [], 0
    assert set(known) == set(models.MODELS)
    for name in models.MODELS if ANEW else SOME:
        model, runs = imported(name), runs_of(name) if ANEW else known[name]
        model.file["expected"] = {"runs": runs}
        refused += len(runs) == 1
        files.append(tmp_path / f"{name}.json")
        model.write(files[-1])
    result = program("check", "--stage", "forward,learn", "--compat", "braintrace", *files)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr
    # What braintrace refuses has no gradients to compare: its outputs agree, and that counts as skipped.
    assert f"{len(files) - refused} passed, 0 failed, {refused} skipped" in result.stdout
    assert result.stdout.count("(passed: forward)") == refused


def test_weights_states_and_units():
    model = imported("LIF")
    roles = {"/".join(map(str, r["path"])): r["role"] for r in model.file["inputs"] if r["role"] != "arg"}
    assert roles == {"into/weight": "param", "neuron/V": "hidden", "out/weight": "param"}
    assert model.units == {"neuron/V": "mV"}
    assert model.paths() == ["into/weight", "out/weight"]


def test_parameters_go_back():
    source = models.make("LIF")
    model = ej.trace_braintrace(source, jnp.zeros((BATCH, models.INPUTS)), batch_size=BATCH)
    values = {path: {k: v + 1 for k, v in leaf.items()} for path, leaf in model.parameters().items()}
    before = source.into.weight.value["weight"]
    with pytest.raises(EtraceValueError, match="no value for the parameter out/weight"):
        model.put_back({"into/weight": values["into/weight"]})
    assert (source.into.weight.value["weight"] == before).all()
    model.put_back(values)
    assert (source.into.weight.value["weight"] == before + 1).all()


def test_auto_takes_what_braintrace_does_not_mark(program):
    import brainstate

    class Plain(brainstate.nn.Module):
        def __init__(self):
            super().__init__()
            self.h = brainstate.HiddenState(jnp.zeros(3))
            self.w = brainstate.ParamState(0.1 * jnp.ones((6, 3)))

        def update(self, x):
            self.h.value = jnp.tanh(jnp.concatenate([x, self.h.value]) @ self.w.value)
            return self.h.value
    assert program.online(program.file(ej.trace_braintrace(Plain(), jnp.zeros(3)))) == set()
    assert program.online(program.file(ej.trace_braintrace(Plain(), jnp.zeros(3), operators="auto"))) == {"w"}


if __name__ == "__main__" and sys.argv[1:2] == ["--write"]:
    known = stored()
    for each in sys.argv[2:] or models.MODELS:
        known[each] = runs_of(each)
        known = {name: known[name] for name in models.MODELS if name in known}
        STORED.write_bytes(gzip.compress(json.dumps(known).encode(), 9, mtime=0))
        print(each, flush=True)
