"""Tasks to learn: seeded streams of batches.

    task = et.tasks.copying(lag=20, seed=1)
    inputs, targets, mask = task.batch(0, 32)

Batch `index` is a function of the task's options, the index and the batch size: a run that was stopped goes on where
it was.
"""

from __future__ import annotations

from . import _core
from ._core import Task, TaskBatch  # noqa: F401
from ._own_task import OwnTask, part_of  # noqa: F401


def make(name: str, *, seed: int = 0, dtype=None, **settings) -> Task:
    """A task by name; its settings are keywords."""
    task = _core._make_task(name, settings, dtype, seed)
    task._row = (name, settings)  # what et.train needs to name it
    return task


def names() -> list[str]:
    """All tasks."""
    return [row[0] for row in _core._task_rows()]


def accuracy(outputs, batch: TaskBatch) -> float:
    """The part of scored steps and samples in which the largest of outputs [steps, batch, classes] is the label's."""
    return _core._task_accuracy(outputs, batch)


def _function(name: str, doc: str, settings):
    def task(*, seed: int = 0, dtype=None, **given) -> Task:
        return make(name, seed=seed, dtype=dtype, **given)

    task.__name__ = task.__qualname__ = name.replace("-", "_")
    lines = [
        f"    {s} = {int(value) if whole else value}  ({int(low) if whole else low:g} to "
        f"{int(high) if whole else high:g}) {text}"
        for s, value, low, high, whole, text in settings
    ]
    task.__doc__ = "\n".join([doc, "", "Settings:", *lines, "    seed = 0, dtype = float32"])
    return task


for _row in _core._task_rows():
    globals()[_row[0].replace("-", "_")] = _function(*_row)
