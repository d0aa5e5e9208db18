"""Which rule? All of them on one model: memory of the traces, time of a step, closeness to BPTT.

last line: pp_prop: 288 bytes of traces
"""

import etrace as et


class GruNet(et.Module):
    def __init__(self):
        super().__init__()
        self.rnn = et.nn.GRUCell(4, 16)
        self.out = et.nn.Linear(16, 2)

    def update(self, x):
        return self.out(self.rnn(x))


xs, ys = et.random.normal(et.random.key(2), (15, 4)), et.random.normal(et.random.key(3), (15, 2))
model = GruNet()
et.init_all_states(model)

rules = [et.D_RTRL(), et.pp_prop(decay_or_rank=0.95), et.EProp(), et.UORO()]  # et.rules() has all of them
comparison = et.compare_rules(model, xs, ys, et.loss.mse, rules=rules, windows=[8], seconds=10.0)
print(comparison)  # a notebook draws the frontier

# What the options of a rule are: help(et.pp_prop). Its traces are of the size of states, not of weights.
for rule in rules[:2]:
    learner = et.compile(model, rule, et.zeros((1, 4)), batch_size=1)
    print(f"{rule.name}: {learner.trace_bytes} bytes of traces")
