"""What the compiler found, plans, verification, comparison of rules, model files, notebooks."""

import json

import numpy as np
import pytest

import etrace as et
from models import GruNet, Leaky, mse, normal


@pytest.fixture(scope="module")
def learner():
    return et.compile(GruNet(), et.D_RTRL, et.zeros((2, 3)), batch_size=2, backend="interpreter")


def test_graph(learner):
    graph = learner.graph
    assert [g["hidden_paths"] for g in graph.hidden_groups] == [["rnn/h"]]
    assert {r["path"] for r in graph.hidden_param_op_relations} == {"rnn/Wz/weight", "rnn/Wh/weight"}
    text = graph.explain()
    assert "rnn/Wz/weight" in text and "out/weight" in text
    assert json.loads(graph.to_json())["format"] == "etrace.graph"
    assert graph.to_dot().startswith("digraph") and "<html" in graph.to_html()
    assert "1 hidden group" in repr(graph)
    kinds = {r["kind"] for r in graph.diagnostics}
    assert "relation_included" in kinds


def test_report(learner):
    report = learner.report
    assert any("rnn/Wz/weight" in name for name in report.etrace_weights)
    assert any("rnn/Wr/weight" in name for name in report.excluded_weights)
    assert "rnn/Wz" in str(report) and report.errors == 0
    assert report.records and report.records[0]["text"]


def test_verbose_prints_to_pythons_stdout(capsys):
    et.compile(GruNet(), et.D_RTRL, et.zeros(3), verbose=1)
    out = capsys.readouterr().out
    assert "rnn/Wz" in out and "Sequences run" in out


def test_plan(learner):
    plan = learner.plan(normal(1, (4, 2, 3)), normal(2, (4, 2, 2)), mse)
    assert {"step", "window", "solve"} <= set(plan)
    assert "rnn/h" in plan["step"].text() and plan["step"].counts()["equations"] > 0
    with pytest.raises(KeyError, match="there are"):
        plan["nothing"]
    assert learner.compiled() == [] or learner.compiled()[0].name


def test_compile_etrace_graph():
    assert len(et.compile_etrace_graph(GruNet(), et.zeros(3)).hidden_groups) == 1
    coupled = et.compile_etrace_graph(GruNet(), et.zeros(3), scope="coupled")
    assert coupled.hidden_groups
    with pytest.raises(ValueError, match="'diagonal' or 'coupled'"):
        et.compile_etrace_graph(GruNet(), et.zeros(3), scope="all")


def test_models_as_files(tmp_path):
    net = GruNet()
    et.init_all_states(net, 2)
    model = et.trace_step(net, et.zeros((2, 3)))
    assert "etp_mm" in model.jaxpr
    model.save(tmp_path / "m.json")
    again = et.read_model(tmp_path / "m.json")
    assert again.jaxpr == model.jaxpr
    learner = et.compile(again, et.D_RTRL, backend="interpreter")
    assert np.isfinite(learner.etrace_grad(normal(1, (4, 2, 3)), normal(2, (4, 2, 2)), mse).loss)
    with pytest.raises(OSError):
        et.read_model(tmp_path / "nothing.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(et.CompilationError):
        et.read_model(tmp_path / "bad.json")


def test_verify_with_a_loss_and_with_a_step_function():
    net = Leaky()
    xs, ys = normal(1, (5, 3), "float64"), normal(2, (5, 4), "float64")
    before = np.asarray(net.h.value).copy()
    one = et.verify(net, et.D_RTRL, xs, ys, mse, windows=[1, 2])
    two = et.verify(net, et.D_RTRL, xs, ys, step_fn=lambda x, y: (mse(net(x), y), x), windows=[1, 2])
    assert one.met() and two.met() and one.loss == two.loss
    assert np.array_equal(before, np.asarray(net.h.value))
    assert "w" in str(one) and json.loads(one.to_json())["format"] == "etrace.verify"
    approximate = et.verify(GruNet(dtype="float64"), et.D_RTRL, normal(1, (5, 3), "float64"), normal(2, (5, 2), "float64"), mse)
    assert approximate.to_dict()
    with pytest.raises(et.CompilationError, match="does not call"):
        et.verify(net, et.D_RTRL, xs, ys, step_fn=lambda x, y: mse(x, x))
    with pytest.raises(TypeError, match="windws"):
        et.verify(net, et.D_RTRL, xs, ys, mse, windws=[1])


def test_compare_rules():
    rows = []
    found = et.compare_rules(
        Leaky(), normal(1, (6, 3), "float64"), normal(2, (6, 4), "float64"), mse,
        rules=[et.D_RTRL, "pp_prop"], windows=[2], repeats=1, lags=3, progress=lambda n, name: rows.append(name),
    )  # fmt: skip
    text = str(found)
    assert "D_RTRL" in text and "pp_prop" in text and rows
    assert found.to_dict()["format"] == "etrace.rules" and "|" in found.to_markdown()


def test_pages_in_a_notebook(learner):
    net = Leaky()
    report = et.verify(net, et.D_RTRL, normal(1, (4, 3), "float64"), normal(2, (4, 4), "float64"), mse, windows=[2])
    for thing in (learner, learner.graph, learner.report, report):
        page = thing._repr_html_()
        assert page.startswith("<") and "http" not in page.split("<svg")[0][:200]
    assert "srcdoc" in learner.graph._repr_html_()


def test_summary():
    text = et.summary(GruNet(), et.zeros(3))
    assert "rnn" in text and "Wz" in text
    assert "rnn" in et.summary(GruNet())
