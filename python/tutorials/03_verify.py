"""Is the gradient right? A rule's gradient beside that of backpropagation through time.

last line: LIF neurons without recurrent weights: exact; a GRU: an approximation
"""

import etrace as et


# In double precision, so that "the same" means the same to twelve digits.
class Neurons(et.Module):
    """Nothing leads from one neuron to another."""

    def __init__(self):
        super().__init__()
        self.lin = et.nn.Linear(3, 6, dtype="float64")
        self.lif = et.nn.LIF(6, dtype="float64")
        self.out = et.nn.Linear(6, 2, dtype="float64")

    def update(self, x):
        return self.out(self.lif(self.lin(x)))


class GruNet(et.Module):
    """Every unit reaches every other one."""

    def __init__(self):
        super().__init__()
        self.rnn = et.nn.GRUCell(3, 6, dtype="float64")
        self.out = et.nn.Linear(6, 2, dtype="float64")

    def update(self, x):
        return self.out(self.rnn(x))


xs = 2.0 * et.random.normal(et.random.key(1), (12, 3), "float64")
ys = et.random.normal(et.random.key(2), (12, 2), "float64")

verdicts = []
for model in (Neurons(), GruNet()):
    et.init_all_states(model)
    report = et.verify(model, et.D_RTRL(), xs, ys, et.loss.mse)
    print(report)
    steps = [p["measures"][0] for p in report.to_dict()["parameters"]]  # of single steps
    verdicts.append("exact" if max(m["deviation"] for m in steps) < 1e-9 else "an approximation")
print(f"LIF neurons without recurrent weights: {verdicts[0]}; a GRU: {verdicts[1]}")
