"""An operator of one's own that owns a weight: a synapse that squares its input.

last line: w is learned online, exact against BPTT; a wrong anchor map is refused
"""

import numpy as np

import etrace as et

# y[o] = Σ_i x[i]²·W[i, o]. Entry (i, o) of the weight belongs to output o: axis 1 of its slots.
quadratic_synapse = et.register_primitive(
    "quadratic_synapse",
    lambda x, w: et.dot(et.square(x), w),
    doc="y[o] = Σ_i x[i]²·W[i, o]",
    samples=[(np.array([0.5, -1.0, 2.0]), np.arange(6.0).reshape(3, 2))],
    trainable={"weight": 1},
    anchors=lambda key, shapes, y: et.AnchorMap(shapes[1], y_axes=[1]),
)


class Net(et.Module):
    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(0)
        self.w = et.ParamState(0.3 * rng.normal(size=(3, 4)))
        self.h = et.HiddenState(et.zeros(4, dtype="float64"))

    def update(self, x):
        self.h.value = et.tanh(0.8 * self.h.value + quadratic_synapse(x, self.w.value))
        return self.h.value


model = Net()
et.init_all_states(model)
rng = np.random.default_rng(1)
xs, ys = rng.normal(size=(10, 3)), rng.normal(size=(10, 4))
report = et.verify(model, et.D_RTRL(), xs, ys, et.loss.mse)
print(report)
error = max(p["measures"][0]["deviation"] for p in report.to_dict()["parameters"])

# What is derived from the row is checked against it.
try:
    et.register_primitive(
        "mistaken_synapse",
        lambda x, w: et.dot(et.square(x), w),
        samples=[(np.array([0.5, -1.0, 2.0]), np.arange(9.0).reshape(3, 3))],
        trainable={"weight": 1},
        anchors=lambda key, shapes, y: et.AnchorMap(shapes[1], y_axes=[0]),
    )
    refused = False
except et.CompilationError as e:
    print(e)
    refused = True
if error < 1e-9 and refused:
    print("w is learned online, exact against BPTT; a wrong anchor map is refused")
