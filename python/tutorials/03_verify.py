"""Is the gradient right? A rule's gradient beside that of backpropagation through time.

last line: LIF neurons without recurrent weights: exact; a GRU: an approximation
"""

import numpy as np

import etrace as et


def model(recurrent: bool):
    """In double precision, so that 'the same' means the same to twelve digits."""
    if recurrent:
        hidden: et.Module = et.nn.GRUCell(3, 6, dtype="float64")
    else:
        hidden = et.Sequential(et.nn.Linear(3, 6, dtype="float64"), et.nn.LIF(6, dtype="float64"))
    net = et.Sequential(hidden, et.nn.Linear(6, 2, dtype="float64"))
    et.init_all_states(net)
    return net


rng = np.random.default_rng(1)
xs, ys = 2 * rng.normal(size=(12, 3)), rng.normal(size=(12, 2))

verdicts = []
for recurrent in (False, True):
    report = et.verify(model(recurrent), et.D_RTRL(), xs, ys, et.loss.mse)
    print(report)
    steps = [p["measures"][0] for p in report.to_dict()["parameters"]]  # of single steps
    verdicts.append("exact" if max(m["deviation"] for m in steps) < 1e-9 else "an approximation")
print(f"LIF neurons without recurrent weights: {verdicts[0]}; a GRU: {verdicts[1]}")
