"""In a process with others: interrupts, threads, forks, garbage, exits, warnings."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import etrace as et
from models import GruNet, mse, normal, optimizer

HERE = os.path.dirname(__file__)


def gru(**options):
    options = {"batch_size": 2, "backend": "interpreter", **options}
    return et.compile(GruNet(), et.D_RTRL, et.zeros((2, 3)), **options)


def script(text, **env):
    """Runs a program of its own; a hang is a failure."""
    full = "import numpy as np, etrace as et, os, signal, threading, time\nfrom models import *\n" + textwrap.dedent(text)
    path = HERE + os.pathsep + os.environ.get("PYTHONPATH", "")
    env = {**os.environ, "PYTHONPATH": path, **env}
    return subprocess.run([sys.executable, "-c", full], capture_output=True, text=True, timeout=120, env=env)


# Interrupts ----------------------------------------------------------------------------------------------------------
class Stop(Exception):
    pass


@pytest.fixture
def interrupting():
    """A signal that raises, sent by a timer."""

    def handler(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_long_call_is_interrupted_and_what_was_done_stands(interrupting):
    learner = gru(execution_window=4)
    n = 1_000_000
    xs, ys = np.zeros((n, 2, 3), "float32"), np.zeros((n, 2, 2), "float32")
    xs[:] = normal(1, (2, 3))
    with pytest.raises(Stop):
        interrupting()
        learner.etrace_grad(xs, ys, mse)
    steps = learner.age
    assert 0 <= steps < n and steps % 4 == 0
    other = gru(execution_window=4)
    if steps:
        other.etrace_evolve(xs[:steps])
    assert np.allclose(np.asarray(other.get_state("rnn/h")), np.asarray(learner.get_state("rnn/h")), atol=1e-6)
    assert np.isfinite(learner.etrace_grad(xs[:8], ys[:8], mse).loss)


@pytest.mark.parametrize("call", [
    lambda: et.while_loop(lambda c: c < 1e18, lambda c: c + 1.0, et.asarray(0.0)),
    lambda: et.scan(lambda c, x: (c + 1.0, None), et.asarray(0.0), None, length=10**9),
    lambda: et.jit(lambda x: et.fori_loop(0, 10**7, lambda i, c: c + 1.0, x))(et.asarray(0.0)),
    lambda: et.jit(lambda x: et.while_loop(lambda c: c < 1e18, lambda c: c + 1.0, x), backend="interpreter")(et.asarray(0.0)),
    lambda: et.jit(lambda x: et.while_loop(lambda c: c < 1e18, lambda c: c + 1.0, x), backend="native")(et.asarray(0.0)),
    lambda: et.jit(lambda x: et.scan(lambda c, _: (et.tanh(c @ c), et.sum(c)), x, None, length=10**6)[0], backend="native")(et.ones((32, 32))),
])
def test_loops_that_run_at_once_are_interrupted(interrupting, call):
    with pytest.raises(Stop):
        interrupting()
        call()


def test_ctrl_c_is_a_keyboard_interrupt():
    out = script(
        """
        learner = et.compile(GruNet(), et.D_RTRL, et.zeros((2, 3)), batch_size=2, backend="interpreter")
        xs, ys = np.zeros((3_000_000, 2, 3), "float32"), np.zeros((3_000_000, 2, 2), "float32")
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs that a shell has put aside
        try:
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            learner.etrace_grad(xs, ys, mse)
        except KeyboardInterrupt:
            print("stopped", learner.age < 3_000_000)
        """
    )
    assert out.stdout.strip() == "stopped True", out.stderr


def test_progress_is_told():
    learner = gru()
    seen = []
    xs, ys = normal(1, (40, 2, 3)), normal(2, (40, 2, 2))
    learner.etrace_grad(xs, ys, mse, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (40, 40) and all(0 <= d <= t == 40 for d, t in seen)

    def angry(done, total):
        raise Stop

    with pytest.raises(Stop):
        learner.etrace_grad(xs, ys, mse, progress=angry)


def test_progress_bars_without_tqdm(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    gru().etrace_grad(normal(1, (4, 2, 3)), normal(2, (4, 2, 2)), mse, progress=True)
    assert capsys.readouterr().out == ""


# Threads -------------------------------------------------------------------------------------------------------------
def test_one_learner_one_thread():
    learner = gru()
    inside, go_on = threading.Event(), threading.Event()

    def slow(y, t):
        inside.set()
        go_on.wait(60)
        return mse(y, t)

    xs, ys = normal(1, (4, 2, 3)), normal(2, (4, 2, 2))
    thread = threading.Thread(target=lambda: learner.etrace_grad(xs, ys, slow))
    thread.start()
    assert inside.wait(60)
    try:
        for call in (
            lambda: learner.etrace_grad(xs, ys, mse),
            lambda: learner.step(xs[0]),
            lambda: learner.params,
            lambda: learner.reset_state(),
            lambda: learner.graph,
        ):
            with pytest.raises(et.Error, match="another thread"):
                call()
        with pytest.raises(et.Error, match="at work"):
            et.set_num_threads(2)
    finally:
        go_on.set()
        thread.join()
    assert learner.age == 4


def test_learners_in_several_threads_learn_the_same():
    xs, ys = normal(1, (60, 2, 3)), normal(2, (60, 2, 2))
    expected = gru().etrace_grad(xs, ys, mse).loss
    found = []

    def work():
        found.append(gru().etrace_grad(xs, ys, mse).loss)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [expected] * 4


# Forks ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["interpreter", "auto"])
def test_a_forked_process_learns(backend):
    out = script(
        f"""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        et.set_num_threads(3)
        def run():
            learner = et.compile(GruNet(), et.D_RTRL, et.zeros((2, 3)), batch_size=2, backend="{backend}")
            return learner.etrace_grad(normal(1, (40, 2, 3)), normal(2, (40, 2, 2)), mse).loss
        expected = run()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if run() == expected else 3)
        _, status = os.waitpid(child, 0)
        assert run() == expected
        print("child", os.waitstatus_to_exitcode(status))
        """
    )
    assert out.stdout.strip() == "child 0", out.stderr


# Ends ----------------------------------------------------------------------------------------------------------------
def test_the_process_ends_while_code_is_being_compiled():
    out = script(
        """
        learner = et.compile(GruNet(), et.D_RTRL, et.zeros((2, 3)), batch_size=2, backend="auto")
        learner.etrace_grad(normal(1, (40, 2, 3)), normal(2, (40, 2, 2)), mse)
        model = learner.keep = GruNet()  # alive until the end
        print("end")
        """
    )
    assert out.returncode == 0 and out.stdout.strip() == "end" and out.stderr == "", out.stderr


def test_without_a_compiler_there_is_one_warning():
    out = script(
        """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                learner = et.compile(GruNet(), et.D_RTRL, et.zeros((2, 3)), batch_size=2, backend="native")
                learner.etrace_grad(normal(1, (4, 2, 3)), normal(2, (4, 2, 2)), mse)
        print([w.category.__name__ for w in caught], "interpreter" in str(caught[0].message))
        """,
        CC="/nowhere/cc",
        ETRACE_CACHE_DIR="/tmp/etrace-no-such-cache-" + str(os.getpid()),
    )
    assert out.stdout.strip() == "['RuntimeWarning'] True", out.stdout + out.stderr
    assert out.stderr == ""


# Garbage -------------------------------------------------------------------------------------------------------------
class Allocated(ctypes.Structure):  # mallinfo2 of the C library: all arenas together
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


def held():
    """What was asked for and not given back: bytes of C and C++, and blocks of Python. Pages would be the kernel's affair."""
    gc.collect()
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Allocated
    now = ask()
    return now.uordblks + now.hblkhd, sys.getallocatedblocks()


def assert_flat(before, after, size=64 << 10, blocks=200):
    assert after[0] - before[0] < size and after[1] - before[1] < blocks, (before, after)


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer keeps what was freed")
def test_memory_does_not_grow():
    def once():
        net = GruNet()
        learner = et.compile(net, et.D_RTRL, et.zeros((2, 3)), batch_size=2, backend="interpreter")
        learner.bind_step(lambda y, t: mse(y, t), optimizer("adam", net))
        learner.step(normal(1, (2, 3)), normal(2, (2, 2)))
        net.learner = learner

    for _ in range(10):
        once()
    before = held()
    for _ in range(30):
        once()
    assert_flat(before, held())
    learner = gru()
    x = normal(1, (2, 3))
    for _ in range(1000):
        learner.step(x)
    before = held()
    for _ in range(20000):
        learner.step(x)
    assert_flat(before, held())
    before = held()
    kept = [bytes(100) for _ in range(1000)]
    with pytest.raises(AssertionError):  # it would be seen
        assert_flat(before, held())
    del kept


def test_views_outlive_what_they_came_from():
    learner = gru()
    view = np.asarray(learner.get_state("rnn/h"))
    params = learner.params.numpy()
    before = view.copy()
    learner.etrace_evolve(normal(1, (8, 2, 3)))
    del learner
    gc.collect()
    assert np.array_equal(view, before) and all(v.flags.writeable for v in params.values())
