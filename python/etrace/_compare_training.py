"""Rules side by side: a run of each, and one table."""

from __future__ import annotations

import json
import os
from pathlib import Path

from . import _core
from . import _errors
from ._module import Module, node_of
from ._progress import Progress
from ._show import frame
from ._train import Run, _rule_items, _runs_folder, train


class TrainingComparison:
    """Runs of several rules on the same data. `table`: a dictionary per rule, with mean and spread over the seeds of
    accuracy, loss, updates, seconds, memory, and the cosine to BPTT's gradient; `runs`: {rule: [Run, …]}."""

    def __init__(self, folder: str, runs: dict[str, list[Run]], text: str, table: list[dict]):
        self.folder, self.runs, self.table, self._text = folder, runs, table, text

    def to_string(self) -> str:
        return self._text

    @property
    def page(self) -> str:
        """The path of its page."""
        return str(Path(self.folder) / "page.html")

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return frame(Path(self.page).read_text(), 640)


def _free_folder(root: str, name: str | None, otherwise: str) -> Path:
    if name is not None:
        folder = Path(root) / name
        if folder.exists():
            raise _errors.ValueError(f"'{folder}' exists; choose another name", stage="train")
        return folder
    number, folder = 1, Path(root) / otherwise
    while folder.exists():
        number += 1
        folder = Path(root) / f"{otherwise}-{number}"
    return folder


def compare_training(
    task=None,
    *,
    rules,
    seeds: int = 1,
    model=None,
    data=None,
    classes=None,
    runs=None,
    name: str | None = None,
    seed: int = 0,
    progress=None,
    **options,
) -> TrainingComparison:
    """Trains with each of the rules, `seeds` times, and gives one table: `et.compare_training("copying", rules=["BPTT", "D_RTRL"])`.

    One run after the other, each in a folder of its own below that of the comparison; seeds count from `seed` on. All
    else is as for `et.train`. A `model` of your own starts each run with the values that it has, and has them again
    afterwards: `run.load_into(model)` takes those of a run. `etrace train --compare` runs in parallel processes.
    """
    rules = list(rules) if not isinstance(rules, str) else [rules]
    if not rules or seeds < 1:
        raise _errors.ValueError("compare_training takes at least one rule and one seed", stage="train")
    names = [dict(_rule_items(r))["rule"] for r in rules]
    doubled = [n for n in names if names.count(n) > 1]
    if doubled:
        raise _errors.ValueError(f"the rule {doubled[0]} is there twice; runs are named by their rule", stage="train")
    before = _core._param_values(node_of(model)) if isinstance(model, Module) else None
    what = task if isinstance(task, str) else "data" if data is not None else getattr(task, "name", "") or type(task).__name__
    folder = _free_folder(_runs_folder() if runs is None else os.fspath(runs), name, f"compare-{Path(what).name}")
    out: dict[str, list[Run]] = {n: [] for n in names}
    bar = Progress(progress, len(rules) * seeds, "compare_training") if progress else None
    try:
        for rule, rule_name in zip(rules, names):
            for k in range(seeds):
                run = train(
                    task, model=model, rule=rule, data=data, classes=classes, runs=str(folder), name=f"{rule_name}-{seed + k}",
                    seed=seed + k, **options,
                )  # fmt: skip
                out[rule_name].append(run)
                if before is not None:
                    _core._set_param_values(node_of(model), before)
                if bar is not None:
                    bar(sum(map(len, out.values())))
    finally:
        if before is not None:
            _core._set_param_values(node_of(model), before)
        if bar is not None and bar.bar is not None:
            bar.bar.close()
    first = next(iter(out.values()))[0].info
    groups = [(n, [json.dumps(r.info) for r in some]) for n, some in out.items()]
    text, table = _core._write_comparison(str(folder), first["task"], first["model"], groups)
    return TrainingComparison(str(folder), out, text, json.loads(table))
