#!/usr/bin/env python3
"""Writes model files (docs/model-files.md) from step functions in JAX, from a checkout: the code is python/etrace/jax, of
the package that is installed or that ./dev build made.

    from jax_to_model import matmul, to_model_file

    def step(params, hidden, x):                    # -> new hidden states, result
        xh = jnp.concatenate([x, hidden["h"]])
        h = jnp.tanh(matmul(xh, params["rnn"]["W"], params["rnn"]["b"]))
        return {"h": h}, h @ params["out"]

    to_model_file("rnn.json", step, params, hidden, x)

With the package installed, write `import etrace as et` and `et.jax.to_model_file`. docs/from-jax.md has it all.
"""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("etrace") is None:  # not installed: the package that ./dev build made
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "build/dev/python"))

from etrace.jax import *  # noqa: E402,F401,F403
