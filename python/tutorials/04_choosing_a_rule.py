"""Which rule? All of them on one model: memory of the traces, time of a step, closeness to BPTT.

last line: pp_prop keeps less than D_RTRL
"""

import numpy as np

import etrace as et

rng = np.random.default_rng(2)
xs, ys = rng.normal(size=(15, 4)).astype(np.float32), rng.normal(size=(15, 2)).astype(np.float32)

model = et.Sequential(et.nn.GRUCell(4, 16), et.nn.Linear(16, 2))
et.init_all_states(model)

print("all rules:", ", ".join(et.rules()))
comparison = et.compare_rules(
    model, xs, ys, et.loss.mse, rules=[et.D_RTRL(), et.pp_prop(), et.EProp(), et.UORO()], seconds=2.0
)
print(comparison)  # a notebook draws the frontier

# What the options of a rule are: help(et.pp_prop). Its traces are of the size of states, not of weights.
memory = {}
for rule in (et.D_RTRL(), et.pp_prop(decay_or_rank=0.95)):
    learner = et.compile(model, rule, np.zeros((1, 4), np.float32), batch_size=1, backend="interpreter")
    memory[rule.name] = sum(np.asarray(t.value).nbytes for t in learner.etraces)
    print(f"{rule!r}: {memory[rule.name]} bytes of traces")
print("pp_prop keeps less than D_RTRL" if memory["pp_prop"] < memory["D_RTRL"] else "D_RTRL keeps less")
