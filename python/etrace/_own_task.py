"""Tasks written in Python."""

from __future__ import annotations

from typing import Any


class OwnTask:
    """A task of your own, for et.train: derive from it, set what a batch looks like, and define `batch`.

        class Echo(et.tasks.OwnTask):
            num_inputs, num_outputs, steps, loss = 1, 1, 20, "mse"
            def batch(self, index, batch_size):
                rng = np.random.default_rng(index)
                xs = rng.normal(size=(self.steps, batch_size, 1))
                return xs, np.roll(xs, 3, axis=0), np.arange(self.steps) >= 3

    loss: "cross_entropy" (targets are labels [steps, batch]; without a loss it is this) or "mse" ([steps, batch,
    num_outputs]). name: that of the class, unless it is set.
    """

    num_inputs: int
    num_outputs: int
    steps: int
    loss: str
    name: str

    def batch(self, index: int, batch_size: int) -> Any:
        """Batch `index`: (inputs [steps, batch, num_inputs], targets, mask [steps]); no mask: every step is scored.

        It must be a function of the two numbers alone, so that a run that was stopped goes on with the same bits.
        Training counts from 0; `et.tasks.part_of(index)` says what a batch is for.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no batch(self, index, batch_size)")


def part_of(index: int) -> str:
    """What a batch of this number is for: "train", "check" or "final"."""
    return "final" if index >= 1 << 63 else "check" if index >= 1 << 62 else "train"
