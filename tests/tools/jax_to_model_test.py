#!/usr/bin/env python3
"""tools/jax_to_model.py against JAX itself: the file computes what JAX computes, and its weights are learned online.
Skipped where JAX is not installed; tests/reference/jax_gru.json, which this script writes with --write, is checked
everywhere. The rest of that code is tested in python/tests/interop."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import needs

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
jax, jnp = needs.modules("jax", "jax.numpy")

jax.config.update("jax_enable_x64", True)
import jax_to_model as to_model  # noqa: E402


def gru(params, hidden, x):
    h = hidden["h"]
    xh = jnp.concatenate([x, h], -1)
    z = jax.nn.sigmoid(to_model.matmul(xh, params["Wz"]["weight"], params["Wz"]["bias"]))
    c = jax.nn.relu(to_model.matmul(xh, params["Wh"]["weight"]))
    h = (1 - z) * h + z * c * to_model.element_wise(params["gain"])
    return {"h": h, "count": hidden["count"] + 1.0}, h @ params["out"]


def normal(*shape, seed=0):
    return jax.random.normal(jax.random.key(seed), shape, jnp.float64)


def gru_model(batch=()):
    params = {"Wz": {"weight": normal(7, 4, seed=1), "bias": normal(4, seed=2)}, "Wh": {"weight": normal(7, 4, seed=3)},
              "gain": normal(4, seed=4), "out": normal(4, 2, seed=5)}
    hidden = {"h": jnp.zeros((*batch, 4)), "count": jnp.zeros((*batch, 4))}
    model = to_model.trace(gru, params, hidden, jnp.zeros((*batch, 3)), name="jax_gru", operators="marked",
                               batch_size=batch[0] if batch else None)
    run = to_model.reference_run(gru, params, hidden, [normal(6, *batch, 3, seed=6)], normal(6, *batch, 2, seed=7))
    return {**model.file, "expected": {"runs": [run]}}


class JaxToModel(unittest.TestCase):
    def etrace(self, model, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.json")
            path.write_text(json.dumps(model))
            command = [needs.program(), *words, path]
            return subprocess.run(command, capture_output=True, text=True)

    def test_computes_what_jax_computes(self):
        for batch in (), (2,):
            r = self.etrace(gru_model(batch), "check", "--stage", "forward,bptt")
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
            self.assertIn("1 passed", r.stdout)

    def test_weights_are_learned_online(self):
        report = json.loads(self.etrace(gru_model(), "explain", "--json").stdout)
        online = {"/".join(w["path"]) for w in report["weights"] if w["relations"]}
        self.assertEqual(online, {"Wz/weight", "Wz/bias", "Wh/weight", "gain"})


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        Path(ROOT, "tests/reference/jax_gru.json").write_text(json.dumps(gru_model()) + "\n")
    else:
        unittest.main()
