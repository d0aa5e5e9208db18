"""et.tasks: the tasks of the library."""

import numpy as np
import pytest

import etrace as et


def test_every_task_draws_batches():
    names = et.tasks.names()
    assert "copying" in names
    for name in names:
        if name == "data":  # needs a file
            continue
        task = getattr(et.tasks, name.replace("-", "_"))(seed=1)
        inputs, targets, mask = task.batch(0, 3)
        assert inputs.shape == (task.steps, 3, task.num_inputs) and mask.shape == (task.steps,)
        assert hasattr(et.loss, task.loss) and targets.shape[:2] == (task.steps, 3)
        again = et.tasks.make(name, seed=1).batch(0, 3)
        assert np.array_equal(inputs, again.inputs) and np.array_equal(targets, again.targets)
        if name != "pattern_generation":  # every batch is the pattern
            assert not np.array_equal(inputs, task.batch(1, 3).inputs), name
        assert et.tasks.make(name, dtype="float64").batch(0, 1).inputs.dtype == et.float64
        assert getattr(et.tasks, name.replace("-", "_")).__doc__


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: et.tasks.make("copyng"), ValueError, "copying"),
        (lambda: et.tasks.copying(lagg=3), (TypeError, ValueError), "lag"),
        (lambda: et.tasks.copying(lag=-3), ValueError, "lag"),
        (lambda: et.tasks.copying(lag="a"), TypeError, "lag is a number"),
        (lambda: et.tasks.copying(seed=-1), ValueError, "seed"),
        (lambda: et.tasks.copying().batch(0, 0), ValueError, "."),
        (lambda: et.tasks.copying().batch(0, 1.5), TypeError, "batch_size is a whole number"),
    ],
)
def test_wrong_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_task_is_learned_and_scored():
    task = et.tasks.copying(lag=1, symbols=1, alphabet=2, seed=2)
    model = et.Sequential(et.nn.GRUCell(task.num_inputs, 12), et.nn.Linear(12, task.num_outputs))
    batch = task.batch(0, 8)
    learner = et.compile(model, et.D_RTRL(), batch.inputs[0], batch_size=8, backend="interpreter")
    optimizer = et.optim.Adam(model, 0.02)
    for i in range(40):
        learner.reset_state()
        learner.reset_model_state()
        inputs, targets, mask = task.batch(i, 8)
        result = learner.etrace_train(inputs, targets, et.loss.cross_entropy, optimizer, mask=mask)
    learner.reset_model_state()
    fresh = task.batch(1000, 8)
    score = et.tasks.accuracy(learner.etrace_evolve(fresh.inputs), fresh)
    assert result.loss < 0.5 and score > 0.8
