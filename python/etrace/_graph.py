"""What the compiler found, and the programs of a learner, for readers and notebooks."""

from __future__ import annotations

from . import _core
from ._show import frame, preformatted
from ._trace import Root


class Report:
    """What is learned online, what is not, and why. `records` are all decisions of the compiler."""

    def __init__(self, graph):
        self._graph = graph
        online, excluded, dynamic, self.warnings, self.errors = graph._weights()
        self.etrace_weights = {name: groups for name, groups, _ in online}
        self.excluded_weights = dict(excluded)
        self.dynamic_states = list(dynamic)

    @property
    def records(self) -> list[dict]:
        return self._graph._records()

    def to_string(self, level: int = 1) -> str:
        """Level 2 adds warnings and errors."""
        return self._graph._report(level)

    __str__ = to_string

    def __repr__(self) -> str:
        return self.to_string()

    def _repr_html_(self) -> str:
        return preformatted(self.to_string(2), wrap=True)


class ETraceGraph:
    """What the compiler found: hidden groups, relations from weights to groups, and records of every decision."""

    def __init__(self, graph):
        self._graph = graph

    @property
    def hidden_groups(self) -> list[dict]:
        return self._graph._groups()

    @property
    def hidden_param_op_relations(self) -> list[dict]:
        return self._graph._relations()

    @property
    def diagnostics(self) -> list[dict]:
        return self._graph._records()

    @property
    def report(self) -> Report:
        return Report(self._graph)

    def explain(self, *notes: str) -> str:
        """For a reader: what is learned online, what is not and why, and the records by kind."""
        return self._graph.explain(list(notes))

    def to_json(self) -> str:
        return self._graph.to_json()

    def to_dot(self) -> str:
        return self._graph.to_dot()

    def to_html(self) -> str:
        """One page that loads nothing."""
        return self._graph.to_html()

    def _repr_html_(self) -> str:
        return frame(self.to_html())

    def __repr__(self) -> str:
        groups, relations = len(self.hidden_groups), len(self.hidden_param_op_relations)
        return f"ETraceGraph({groups} hidden group{'s' * (groups != 1)}, {relations} relation{'s' * (relations != 1)})"


class Plan:
    """The programs that a learner runs for one loss, by name."""

    def __init__(self, programs):
        self.programs = {p.name: p for p in programs}

    def __getitem__(self, name: str):
        if name not in self.programs:
            raise KeyError(f"no program '{name}'; there are: {', '.join(self.programs)}")
        return self.programs[name]

    def __iter__(self):
        return iter(self.programs)

    def __len__(self) -> int:
        return len(self.programs)

    def to_string(self, equations: bool = False) -> str:
        return "\n\n".join(p.text(equations) for p in self.programs.values())

    def __repr__(self) -> str:
        return self.to_string()

    def _repr_html_(self) -> str:
        return preformatted(self.to_string())


def compile_etrace_graph(model, *example, **options) -> ETraceGraph:
    """What the compiler finds in one step of a model, without a rule.

    Options: `scope`: "diagonal" or "coupled"; `sparse_n`, `composite`, `batch_size`, `strict`, `compat`, `control_flow`.
    """
    root = Root(model, example)
    return ETraceGraph(_core._compile_graph(root.node, root.update, root.leaves, options))
