#!/usr/bin/env python3
"""tools/jax_to_model.py against JAX itself: the file computes what JAX computes, and its weights are learned online.
Skipped where JAX is not installed; tests/reference/jax_gru.json, which this script writes with --write, is checked
everywhere."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    print("JAX is not installed")
    sys.exit(77)

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
    sequence = ([normal(6, *batch, 3, seed=6)], normal(6, *batch, 2, seed=7))
    return to_model.model_of(gru, params, hidden, [jnp.zeros((*batch, 3))], "jax_gru", sequence)


class JaxToModel(unittest.TestCase):
    def etrace(self, model, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.json")
            path.write_text(json.dumps(model))
            command = [os.environ.get("ETRACE_CLI", ROOT / "build/bin/etrace"), *words, path]
            return subprocess.run(command, capture_output=True, text=True)

    def agrees(self, model):
        r = self.etrace(model, "check", "--stage", "forward,bptt")
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn("1 passed", r.stdout)

    def test_computes_what_jax_computes(self):
        self.agrees(gru_model())
        self.agrees(gru_model(batch=(2,)))

    def test_weights_are_learned_online(self):
        report = json.loads(self.etrace(gru_model(), "explain", "--json").stdout)
        online = {"/".join(w["path"]) for w in report["weights"] if w["relations"]}
        self.assertEqual(online, {"Wz/weight", "Wz/bias", "Wh/weight", "gain"})

    def test_control_flow_and_indexing(self):
        def step(params, hidden, x):
            y = to_model.matmul(x, params["W"])
            y, _ = jax.lax.scan(lambda c, s: (jnp.sin(c) + s, None), y, jnp.arange(3.0))
            y = jax.lax.cond(y[0] > 0, jnp.cos, jnp.tanh, y)
            h = jax.lax.fori_loop(0, 2, lambda i, v: 0.5 * v, hidden["h"]) + y[::-1]
            return {"h": h}, jnp.cumsum(h)[1:] * jnp.where(h[1:] > 0, 1.0, -2.0)
        self.agrees(to_model.model_of(step, {"W": normal(3, 4)}, {"h": jnp.zeros(4)}, [jnp.zeros(3)], "flow",
                                      ([normal(5, 3, seed=1)], normal(5, 3, seed=2))))

    def test_what_cannot_be_written_is_refused(self):
        f = jax.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
        with self.assertRaisesRegex(NotImplementedError, "custom_jvp"):
            to_model.model_of(lambda p, h, x: (h, f(x)), {}, {"h": jnp.zeros(2)}, [jnp.zeros(2)])
        with self.assertRaisesRegex(ValueError, "the hidden states that it got"):
            to_model.model_of(lambda p, h, x: (x, x), {}, {"h": jnp.zeros(2)}, [jnp.zeros(2)])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        Path(ROOT, "tests/reference/jax_gru.json").write_text(json.dumps(gru_model()) + "\n")
    else:
        unittest.main()
