"""Random programs: etrace computes what JAX computes, outputs and BPTT gradients to 1e-12 in float64.
ETRACE_RANDOM_STEPS says how many (default 8; ./dev interop takes 300)."""

import os

import pytest

pytest.importorskip("jax")
import random_steps  # noqa: E402

import etrace.jax as ej  # noqa: E402

COUNT = int(os.environ.get("ETRACE_RANDOM_STEPS", "8"))


def write(case, folder, name):
    model = ej.from_step(case.step, case.params, case.state, case.example, batch_size=case.batch, name=name)
    run = ej.reference_run(case.step, case.params, case.state, (case.xs,), case.targets)
    model.file["expected"] = {"runs": [{**run, "rtol": 1e-12, "atol": 1e-12}]}
    path = folder / f"{name}.json"
    model.write(path)
    return path


def test_random_steps(program, tmp_path):
    program.agrees(*[write(random_steps.random_step(seed), tmp_path, f"seed{seed}") for seed in range(COUNT)])


@pytest.mark.skipif(COUNT < 100, reason="every part alone: with ./dev interop")
def test_every_part_alone(program, tmp_path):
    files = [write(random_steps.random_step(seed, only=part), tmp_path, f"{part.__name__}{seed}")
             for part in random_steps.PARTS for seed in range(3)]
    program.agrees(*files)
