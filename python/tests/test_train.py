"""Runs from Python: built-in models and tasks, those written in Python, series in memory, going on, errors."""

import json
import os
import subprocess
import sys
import textwrap
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import etrace as et

PACKAGE = Path(et.__file__).absolute().parent
PROGRAM = next((p for p in (PACKAGE / "bin/etrace", PACKAGE.parents[1] / "bin/etrace") if p.exists()), None)
QUICK = dict(model="gru", rule="D_RTRL", hidden=6, batch=4, backend="interpreter", no_fidelity=True)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ETRACE_RUNS", raising=False)
    return tmp_path


def etrace(*words):
    if PROGRAM is None:
        pytest.skip("the program is not built beside the package")
    return subprocess.run([str(PROGRAM), *words], capture_output=True, text=True)


def best(run):
    folder = run if isinstance(run, str) else run.folder
    return et.load_safetensors(f"{folder}/best.safetensors")[0]


def same(a, b):
    return sorted(a) == sorted(b) and all(np.array_equal(np.asarray(a[k]), np.asarray(b[k])) for k in a)


class Net(et.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.rnn = et.nn.GRUCell(inputs, 6)
        self.out = et.nn.Linear(6, outputs)

    def update(self, x):
        return self.out(self.rnn(x))


def xor_net():
    task = et.tasks.delayed_xor()
    return Net(task.num_inputs, task.num_outputs)


def series(seed=0, n=60):
    rng = np.random.default_rng(seed)
    ys = np.arange(n) % 2
    xs = rng.uniform(0.2, 1.0, size=(n, 6, 2)) * np.where(ys == 0, 1, -1)[:, None, None]
    return xs, ys, rng.integers(3, 7, size=n)


# --- a run ----------------------------------------------------------------------------------------------------------
def test_a_run_of_a_task():
    told = []
    run = et.train("delayed_xor", updates=8, check_every=4, on_progress=lambda u, s: told.append((u, s.loss)), **QUICK)
    assert run.folder == "runs/delayed_xor-gru-D_RTRL-0" and run.reason == "updates" and run.updates == 8
    assert [u for u, _ in told] == list(range(1, 9)) == run.history["updates"]
    assert [x for _, x in told] == run.history["loss"]
    assert run.checks["updates"] == [4, 8] and len(run.checks["accuracy"]) == 2
    assert run.outcome in ("guessing", "better than guessing", "solved") and 0 <= run.score.accuracy <= 1
    assert run.evaluate() == run.score and run.evaluate(part="check") != run.score
    assert run.info["command"] == ["train", f"--config={run.folder}/config.toml"]
    assert Path(run.page).exists() and run._repr_html_().startswith("<iframe") and "delayed_xor" in repr(run)
    again = et.Run(run.folder)
    assert again.score == run.score and again.history == run.history and again.checks == run.checks
    assert [r["folder"] for r in et.runs()] == [run.folder] and et.runs()[0]["status"] == "done"


def test_without_a_folder():
    run = et.train("delayed_xor", updates=2, runs=None, **QUICK)
    assert run.folder is None and len(run.history["loss"]) == 2 and not Path("runs").exists()
    assert "None" in repr(run) and run._repr_html_().startswith("<pre")
    with pytest.raises(et.ValueError, match="without a folder"):
        run.evaluate()


def test_tasks_and_rules_as_objects():
    run = et.train(
        et.tasks.copying(lag=3, symbols=2, seed=4), model="gru", rule=et.pp_prop(decay_or_rank=0.8), hidden=5, batch=4,
        updates=2, backend="interpreter", no_fidelity=True,
    )  # fmt: skip
    settings = run.info["settings"]
    assert settings["--set lag"] == "3" and settings["--seed"] == "4" and "0.8" in settings["--rule"]
    with pytest.raises(et.ValueError, match="the task has the seed 4, and the run 5"):
        et.train(et.tasks.copying(seed=4), seed=5)


def test_what_the_command_line_says_is_what_python_says():
    words = "--model gru --rule D_RTRL --hidden 6 --batch 4 --backend interpreter --no-fidelity --updates 6 --set delay=4".split()
    out = etrace("train", "delayed_xor", *words, "--name", "shell", "--quiet")
    assert out.returncode == 0, out.stderr
    run = et.train("delayed_xor", updates=6, set={"delay": 4}, name="python", **QUICK)
    assert same(best("runs/shell"), best(run))
    assert et.Run("runs/shell").score == run.score == et.Run("runs/shell").evaluate()


def test_each_goes_on_with_the_run_of_the_other():
    whole = et.train("delayed_xor", updates=10, name="whole", **QUICK)
    cut = et.train("delayed_xor", updates=10, name="cut", on_progress=lambda u, s: u == 4, **QUICK)
    assert cut.reason == "interrupted" and cut.updates == 4 and cut.outcome is None
    out = etrace("train", "runs/cut", "--resume", "--quiet")
    assert out.returncode == 0, out.stderr
    assert same(best("runs/cut"), best(whole))
    on = et.resume("runs/cut", updates=12)
    assert on.updates == 12 and len(on.history["loss"]) == 12


# --- models written in Python ------------------------------------------------------------------------------------------
def test_a_module_gets_the_best_parameters():
    net = xor_net()
    run = et.train("delayed_xor", model=net, rule="D_RTRL", batch=4, updates=8, check_every=4, backend="interpreter", no_fidelity=True)
    assert same({k: np.asarray(v) for k, v in et.params(net).numpy().items()}, best(run))
    assert Path(run.folder, "model.json").exists() and run.evaluate() == run.score
    other = xor_net()
    run.load_into(other)
    assert same(et.params(other).numpy(), et.params(net).numpy())
    out = etrace("eval", run.folder, "--json", "--backend", "interpreter")
    assert json.loads(out.stdout)["loss"] == run.score.loss
    cut = et.train("delayed_xor", model=xor_net(), rule="D_RTRL", batch=4, updates=8, check_every=4, backend="interpreter",
                   no_fidelity=True, name="cut", on_check=lambda u, s: True)  # fmt: skip
    assert cut.updates == 4
    assert etrace("train", "runs/cut", "--resume", "--quiet").returncode == 0
    assert same(best("runs/cut"), best(run))


def test_a_module_in_float64():
    net = xor_net()
    for state in et.states(net).values():
        assert state.dtype == et.float32
    double = et.models.make("gru", sizes=(et.tasks.delayed_xor().num_inputs, 5, 2), batch=4, dtype="float64")
    run = et.train("delayed_xor", model=double, batch=4, updates=2, backend="interpreter", no_fidelity=True)
    assert run.info["settings"]["--dtype"] == "f64"


def test_layers_in_words():
    run = et.train("delayed_xor", model=[{"type": "GRU", "size": 5}], batch=4, updates=2, backend="interpreter", no_fidelity=True)
    assert "type=GRU,size=5" in run.info["settings"]["--model"]


# --- tasks written in Python -------------------------------------------------------------------------------------------
class Echo(et.tasks.OwnTask):
    num_inputs, num_outputs, steps, loss = 1, 1, 12, "mse"

    def batch(self, index, batch_size):
        xs = np.random.default_rng(index).normal(size=(self.steps, batch_size, 1))
        return xs, np.roll(xs, 1, axis=0), np.arange(self.steps) >= 1


def test_a_task_written_in_python():
    options = dict(model="gru", rule="D_RTRL", hidden=8, batch=8, lr=0.02, backend="interpreter", no_fidelity=True)
    run = et.train(Echo(), updates=60, **options)
    assert run.score.accuracy is None and run.score.loss < 0.7 * run.guess.loss and run.evaluate() == run.score
    cut = et.train(Echo(), updates=60, name="cut", on_progress=lambda u, s: u == 9, **options)
    assert cut.updates == 9
    with pytest.raises(et.ValueError, match="the own one of the program"):
        et.resume("runs/cut")
    et.resume("runs/cut", task=Echo())
    assert same(best("runs/cut"), best(run))


def test_a_task_that_is_wrong():
    class Short(Echo):
        def batch(self, index, batch_size):
            return np.zeros((3, batch_size, 1)), np.zeros((3, batch_size, 1))

    class Odd(Echo):
        def batch(self, index, batch_size):
            return 1

    class Angry(Echo):
        def batch(self, index, batch_size):
            raise KeyError("angry")

    class Loose(Echo):
        loss = "hinge"

    with pytest.raises(et.ValueError, match=r"the task Short gives inputs .*expected f32\[12,4,1\]"):
        et.train(Short(), **QUICK)
    with pytest.raises(et.TypeError, match="batch\\(\\) of the task Odd gave"):
        et.train(Odd(), **QUICK)
    with pytest.raises(KeyError, match="angry"):
        et.train(Angry(), **QUICK)
    with pytest.raises(et.ValueError, match="'cross_entropy' or 'mse'"):
        et.train(Loose(), **QUICK)
    with pytest.raises(et.TypeError, match="an object with num_inputs"):
        et.train(object(), **QUICK)


# --- series in memory -------------------------------------------------------------------------------------------------
def test_series_in_memory():
    options = dict(model="gru", rule="D_RTRL", hidden=6, batch=8, lr=0.02, backend="interpreter", no_fidelity=True)
    xs, ys, lengths = series()
    run = et.train(data=(xs, np.array(["up", "down"])[ys], lengths), updates=60, **options)
    assert run.outcome == "solved" and run.evaluate() == run.score
    new, truth, n = series(7, 20)
    p = run.predict(new, n)
    assert p.classes == ["down", "up"] and [a == "up" for a in p.answers] == [t == 0 for t in truth]
    assert (p.probability > 0.5).all() and p.labels == [""] * 20
    assert json.loads(etrace("eval", run.folder, "--json").stdout)["accuracy"] == run.score.accuracy
    cut = et.train(data=(xs, np.array(["up", "down"])[ys], lengths), updates=60, name="cut", on_progress=lambda u, s: u == 9, **options)
    assert cut.updates == 9
    assert etrace("train", "runs/cut", "--resume", "--quiet").returncode == 0
    assert same(best("runs/cut"), best(run))
    parts = et.train(data={"train": (xs, ys, lengths), "test": (new, truth, n)}, classes=["a", "b"], updates=2, **options)
    assert "20 for the final score (as the data has them)" in parts.info["data"] and parts.predict(new, n).classes == ["a", "b"]


def test_channels_and_columns_are_found_by_name():
    options = dict(model="gru", rule="D_RTRL", hidden=6, batch=8, lr=0.02, backend="interpreter", no_fidelity=True)
    xs, ys, lengths = series()
    run = et.train(data=(xs, ys, lengths), channels=["u", "v"], updates=40, **options)
    here = run.predict(xs, lengths, channels=["u", "v"])
    there = run.predict(xs[:, :, ::-1], lengths, channels=["v", "u"])
    assert (here.index == there.index).all() and (here.probability == there.probability).all()
    with pytest.raises(et.ValueError, match="no column v"):
        run.predict(xs, lengths, channels=["u", "w"])
    with pytest.warns(RuntimeWarning, match="taken by their places"):
        run.predict(xs, lengths)
    with pytest.raises(et.ValueError, match="1 names for 2 channels"):
        et.train(data=(xs, ys, lengths), channels=["u"], updates=1, **options)
    with pytest.raises(et.ValueError, match="files have their own"):
        et.train(data="s.csv", channels=["u"], updates=1, **options)
    np.savez("t.npz", X=xs[:, :, ::-1], y=np.array(["a", "b"])[ys], lengths=lengths, channels=np.array(["v", "u"]))
    with pytest.raises(et.ValueError, match="expected numbers"):
        et.data.load("t.npz")
    np.savez("t.npz", X=xs[:, :, ::-1], y=np.array(["a", "b"])[ys], channels=np.array(["v", "u"]))
    data = et.data.load("t.npz")
    assert data.channel_names == ["v", "u"] and data.classes == ["a", "b"]
    with pytest.warns(RuntimeWarning, match="does not know: a, b"):
        assert len(run.predict("t.npz").index) == len(xs)
    np.savez("odd.npz", X=xs, y=ys, channels=np.array(["u"]))
    with pytest.raises(et.ValueError, match="1 names for 2 channels"):
        et.data.load("odd.npz")


@pytest.mark.parametrize(
    "data, text",
    [
        ((np.zeros(3), [0, 1, 0]), r"xs are f(64|32)\[3\]"),
        ((np.zeros((4, 3)), [0, 1]), "a label, a whole number, for each of 4"),
        ((np.zeros((4, 3)), [0.5, 1, 0, 1]), "a label, a whole number"),
        ((np.zeros((2, 3)), [0, 1], [3, 4]), "the length of series 1 is 4; xs have 3 steps"),
        ((np.full((2, 3), np.nan), [0, 1]), "not finite: series 0, step 0"),
        ({"tests": (np.zeros((2, 3)), [0, 1])}, "expected 'train'"),
    ],
)
def test_series_that_are_none(data, text):
    with pytest.raises(et.ValueError, match=text):
        et.train(data=data, **QUICK)


# --- readers ----------------------------------------------------------------------------------------------------------
def table(path="s.csv"):
    xs, ys, lengths = series(3, 40)
    lines = ["id,a,b,kind"]
    for i in range(40):
        lines += [f"{i},{xs[i, t, 0]},{xs[i, t, 1]},{'up' if ys[i] == 0 else 'down'}" for t in range(lengths[i])]
    Path(path).write_text("\n".join(lines) + "\n")
    return xs, ys, lengths


def test_readers_and_runs_on_what_they_read():
    xs, ys, lengths = table()
    data = et.data.load("s.csv", series="id", label="kind")
    assert len(data) == 40 and data.channels == 2 and data.classes == ["down", "up"]
    assert (data.lengths == lengths).all() and [data.classes[k] == "up" for k in data.labels] == [y == 0 for y in ys]
    np.testing.assert_allclose(np.asarray(data[3]), xs[3, : lengths[3]], rtol=1e-6)
    padded = np.asarray(data.xs)
    assert padded.shape == (40, max(lengths), 2) and (padded[3, lengths[3] :] == 0).all()
    assert data[-1].shape[1] == 2 and "40 samples" in repr(data) and data.parts == [""] * 40
    with pytest.raises(IndexError):
        data[40]
    run = et.train(data=data, updates=4, **QUICK)
    out = etrace("train", "s.csv", "--set", "read=series=id,label=kind", "--model=gru", "--rule=D_RTRL", "--hidden=6", "--batch=4",
                 "--updates=4", "--no-fidelity", "--backend=interpreter", "--name=shell", "--quiet")  # fmt: skip
    assert out.returncode == 0, out.stderr
    assert same(best(run), best("runs/shell"))
    assert len(run.predict("s.csv").labels) == 40
    by_path = et.train(data="s.csv", set={"read": "series=id,label=kind"}, updates=4, name="path", **QUICK)
    assert same(best(run), best(by_path))
    with pytest.raises(et.IoError, match="there is no file or folder 'nowhere.csv'"):
        et.train(data="nowhere.csv", **QUICK)


def test_models_of_neurons_and_layers_that_keep_statistics():
    class Spiking(et.Module):
        def __init__(self, last):
            super().__init__()
            self.synapse, self.neurons, self.last = et.nn.Linear(2, 10), et.nn.LIF(10), last
            self.out = et.nn.LeakyRateReadout(10, 2)

        def update(self, x):
            return self.out(self.last(self.neurons(self.synapse(x))))

    xs, ys, lengths = series()
    options = dict(data=(xs, ys, lengths), rule="EProp", updates=2, batch=8, backend="interpreter", no_fidelity=True)
    run = et.train(model=Spiking(et.nn.Dropout()), **options)
    assert run.evaluate() == run.score
    with pytest.raises(et.NotSupportedError, match="keeps last/running_mean from sequence to sequence"):
        et.train(model=Spiking(et.nn.BatchNorm(10)), **options)
    with pytest.raises(et.ValueError, match="the module has 2 results"):
        et.train(model=Two(), **options)


class Two(et.Module):
    def __init__(self):
        super().__init__()
        self.cell = et.nn.GRUCell(2, 2)

    def update(self, x):
        return self.cell(x), x


def test_readers_say_what_is_wrong():
    with pytest.raises(et.IoError, match="there is no file or folder 'none.csv'"):
        et.data.load("none.csv")
    table()
    with pytest.raises(et.ValueError, match="has no option 'lable' .did you mean label"):
        et.data.load("s.csv", lable="kind")
    Path("bad.csv").write_text("a,kind\n1,x\nnot,y\n")
    with pytest.raises(et.ValueError, match=r"bad\.csv.*line 3|line 3.*bad\.csv"):
        et.data.load("bad.csv", label="kind")
    with pytest.raises(et.ValueError, match="no part 'train'"):
        et.data.load("s.csv", series="id", label="kind").part("train")
    assert "csv" in et.data.formats() and any(k["name"] == "digits" or k["package"] for k in et.data.known())


# --- rules side by side -------------------------------------------------------------------------------------------------
def test_rules_are_compared():
    net = xor_net()
    before = et.params(net).numpy()
    both = et.compare_training(
        "delayed_xor", rules=["BPTT", et.D_RTRL()], seeds=2, model=net, batch=4, updates=3, backend="interpreter"
    )
    assert [row["name"] for row in both.table] == ["BPTT", "D_RTRL"] and both.table[0]["accuracy"]["runs"] == 2
    assert Path(both.page).exists() and "D_RTRL" in both.to_string() and len(both.runs["BPTT"]) == 2
    assert same(before, et.params(net).numpy())
    with pytest.raises(et.ValueError, match="twice"):
        et.compare_training("delayed_xor", rules=["BPTT", "BPTT"])


# --- manners ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options, kind, text",
    [
        (dict(hiden=3), et.ValueError, r"there is no option 'hiden' \(did you mean hidden\?\)"),
        (dict(hidden="many"), et.ValueError, "hidden is 'many'"),
        (dict(lr=-1), et.ValueError, "lr is '-1'"),
        (dict(model="gruu"), et.ValueError, "did you mean gru"),
        (dict(rule="D_RTL"), et.ValueError, "did you mean D_RTRL"),
        (dict(rule=["D_RTRL"]), et.TypeError, "rule is a text or a number, not list"),
        (dict(set=[1]), et.TypeError, "set is a dictionary"),
        (dict(set={"lagg": 1}), et.ValueError, "has no setting 'lagg'"),
        (dict(model=Net), et.TypeError, "model is the class Net; make one"),
        (dict(on_progress=3), et.TypeError, "on_progress is a function"),
        (dict(data=([[1.0]], [0])), et.ValueError, "a run learns one thing"),
        (dict(classes=["a"]), et.ValueError, "names of the labels of data="),
    ],
)
def test_what_is_wrong_is_said(options, kind, text):
    with pytest.raises(kind, match=text):
        et.train("copying", **options)


def test_a_folder_that_is_no_run():
    for wrong in (lambda: et.Run("nowhere"), lambda: et.resume("nowhere")):
        with pytest.raises(et.ValueError, match="no folder of a run"):
            wrong()
    with pytest.raises(et.IoError, match="cannot be read"):
        et.runs("nowhere")


def test_what_a_callback_throws_comes_out():
    class Stop(Exception):
        pass

    def stop(update, score):
        raise Stop

    with pytest.raises(Stop):
        et.train("delayed_xor", updates=5, on_progress=stop, **QUICK)
    assert et.runs()[0]["status"] == "failed"


def test_a_page_while_it_goes(capsys):
    seen = {}

    def look(update, score):
        address = capsys.readouterr().out
        if address:
            seen["address"] = address.split()[1]
            seen["page"] = urllib.request.urlopen(seen["address"]).read().decode()

    run = et.train("delayed_xor", hidden=4, batch=2, updates=3, runs=None, live=True, backend="interpreter", on_progress=look)
    assert "delayed_xor" in seen["page"] and 'data-events="events"' in seen["page"]
    assert run.history["updates"] == [1, 2, 3]
    with pytest.raises(OSError):
        urllib.request.urlopen(seen["address"])
    with pytest.raises(et.ValueError, match="65535"):
        et.train("delayed_xor", runs=None, live=70000)


def test_progress(capsys):
    seen = []
    et.train("delayed_xor", updates=4, runs=None, progress=lambda done, total: seen.append((done, total)), **QUICK)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert capsys.readouterr().out == ""
    et.train("delayed_xor", updates=4, runs=None, verbose=True, **QUICK)
    assert "task delayed_xor" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["in progress", "in a batch", "in between"])
def test_ctrl_c_keeps_the_checkpoint(where):
    """Pressed in Python that training calls, or while no Python of it runs: from another thread, once the run has begun,
    which also shows that the GIL is free meanwhile."""
    program = textwrap.dedent(
        """
        import os, signal, threading
        import numpy as np
        import etrace as et
        signal.signal(signal.SIGINT, signal.default_int_handler)
        press, pressed = lambda: os.kill(os.getpid(), signal.SIGINT), []
        class Ones(et.tasks.OwnTask):
            num_inputs, num_outputs, steps, loss = 1, 1, 5, "mse"
            def batch(self, index, batch_size):
                if index == 3 and not pressed:
                    pressed.append(index)
                    press()
                xs = np.ones((5, batch_size, 1))
                return xs, xs
        def progress(update, score):
            if update == 3:
                press()
        def between():
            while not os.path.exists("runs/a/checkpoints/last.safetensors"):
                os.sched_yield()
            press()
        if WHERE == "in between":
            threading.Thread(target=between, daemon=True).start()
        task = Ones() if WHERE == "in a batch" else "delayed_xor"
        try:
            et.train(task, model="gru", hidden=4, updates=100000, check_every=1,
                     schedule="constant", on_progress=progress if WHERE == "in progress" else None, backend="interpreter",
                     no_fidelity=True, name="a")
        except KeyboardInterrupt:
            print("stopped", et.Run("runs/a").info["status"], et.Run("runs/a").updates)
        """
    )
    program = program.replace("WHERE", repr(where))
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    words = out.stdout.split()
    assert words[:2] == ["stopped", "stopped"], out.stdout + out.stderr
    updates = int(words[2])
    assert (updates < 100000) if where == "in between" else (3 <= updates <= 5)
    saved = et.load_safetensors("runs/a/checkpoints/last.safetensors")[1]
    assert int(saved["note.batches"]) == et.Run("runs/a").batches >= 1
    if where != "in a batch":
        assert et.resume("runs/a", updates=et.Run("runs/a").updates + 2).reason == "updates"
