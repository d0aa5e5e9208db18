"""What the compiler finds in a model: which weight is learned online, which is not, and why.

last line: own step only: out/weight.bias, out/weight.weight because relation_excluded_non_temporal
"""

import etrace as et


class GruNet(et.Module):
    def __init__(self):
        super().__init__()
        self.rnn = et.nn.GRUCell(3, 8)
        self.out = et.nn.Linear(8, 1)

    def update(self, x):
        return self.out(self.rnn(x))


model = GruNet()
et.init_all_states(model)
graph = et.compile_etrace_graph(model, et.zeros(3))

# For a reader. In a notebook, `graph` alone shows a page with a drawing.
print(graph.explain())

# For a program: the reset gate acts only through another weight, and the readout reaches no hidden state.
report = graph.report
for path, groups in report.etrace_weights.items():
    print("learned online:", path)
for path, reason in report.excluded_weights.items():
    print("own step only:", path, "because", reason)
