"""Random programs: etrace computes what JAX computes, outputs and BPTT gradients to 1e-12 in float64.

What JAX computes for the first programs stands in random_steps.json.gz, since most of the time would go into JAX's
compiler; they are traced anew. With ETRACE_RANDOM_STEPS=N (./dev interop takes 300) JAX computes N programs, and every
part alone. `python test_random_steps.py --write` writes the file."""

import gzip
import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
sys.path.insert(0, str(Path(__file__).parent))
import conftest  # noqa: E402,F401
import random_steps  # noqa: E402

import etrace.jax as ej  # noqa: E402

COUNT = int(os.environ.get("ETRACE_RANDOM_STEPS", "0"))
STORED = Path(__file__).with_name("random_steps.json.gz")
KEPT = 40


def reference(case):
    run = ej.reference_run(case.step, case.params, case.state, (case.xs,), case.targets)
    return {**run, "rtol": 1e-12, "atol": 1e-12}


def write(case, folder, name, run=None):
    model = ej.trace(case.step, case.params, case.state, case.example, batch_size=case.batch, name=name)
    model.file["expected"] = {"runs": [run or reference(case)]}
    path = folder / f"{name}.json"
    model.write(path)
    return path


def test_what_jax_computed(program, tmp_path):
    stored = json.loads(gzip.decompress(STORED.read_bytes()))
    program.agrees(*[write(random_steps.random_step(seed), tmp_path, f"seed{seed}", run)
                     for seed, run in enumerate(stored)])


@pytest.mark.skipif(not COUNT, reason="JAX computes: with ./dev interop")
def test_random_steps(program, tmp_path):
    program.agrees(*[write(random_steps.random_step(seed), tmp_path, f"seed{seed}") for seed in range(COUNT)])


@pytest.mark.skipif(not COUNT, reason="every part alone: with ./dev interop")
def test_every_part_alone(program, tmp_path):
    files = [write(random_steps.random_step(seed, only=part), tmp_path, f"{part.__name__}{seed}")
             for part in random_steps.PARTS for seed in range(2)]
    program.agrees(*files)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    runs = [reference(random_steps.random_step(seed)) for seed in range(KEPT)]
    STORED.write_bytes(gzip.compress(json.dumps(runs).encode(), 9, mtime=0))
