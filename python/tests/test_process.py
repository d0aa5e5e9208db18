"""What ends with the process, and what must not end it."""

import subprocess
import sys

import pytest

THREADS = {
    "learner": """
class Net(et.Module):
    def __init__(s):
        super().__init__()
        s.rnn = et.nn.GRUCell(2, 16)
    def update(s, x): return s.rnn(x)
x = et.ones((2,))
local = threading.local()
def work():
    if not hasattr(local, "learner"):
        local.learner = et.compile(Net(), et.D_RTRL(), et.zeros((2,)), backend="interpreter")
    local.learner(x)
""",
    "function": """
f = et.jit(lambda x: et.scan(lambda c, _: (et.tanh(c), ()), x, None, 50)[0], backend="interpreter")
x = et.ones((64,))
def work(): f(x)
""",
    "recording": """
def body(x):
    for _ in range(20): x = et.tanh(x) + 1.0
    return et.sum(x)
def work(): et.grad(body)(et.ones(3))
""",
    "compiling": """
class Net(et.Module):
    def __init__(s):
        super().__init__()
        s.rnn = et.nn.GRUCell(2, 4)
    def update(s, x): return s.rnn(x)
def work(): et.compile(Net(), et.D_RTRL(), et.zeros((2,)), backend="interpreter")
""",
}
AT_EXIT = """
import threading
import etrace as et
{setup}
started = threading.Event()
def run():
    while True:
        work()
        started.set()
for _ in range({threads}): threading.Thread(target=run, daemon=True).start()
started.wait()
print("done", flush=True)
"""


def run(program, **kwargs):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, **kwargs)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("what", THREADS)
def test_a_process_ends_while_a_daemon_thread_is_at_work(what, threads):
    for _ in range(2):
        done = run(AT_EXIT.format(setup=THREADS[what], threads=threads))
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_second_interpreter_is_refused():
    program = (
        "import _testcapi, etrace\n"
        "code = 'try:\\n import etrace\\nexcept ImportError as e: print(\"refused\", e)'\n"
        "print(_testcapi.run_in_subinterp(code)); print(etrace.ones(2).tolist())"
    )
    if subprocess.run([sys.executable, "-c", "import _testcapi"], capture_output=True).returncode != 0:
        pytest.skip("this Python has no _testcapi, with which a second interpreter is made")
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused") and "interpreter" in done.stdout
    assert done.stdout.endswith("0\n[1.0, 1.0]\n")


def test_no_memory_is_an_exception():
    program = (
        "import resource, etrace as et\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "try: et.random.normal(et.random.key(0), (1 << 36,))\n"
        "except et.Error as e: print(e)\n"
    )
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert "out of memory" in done.stdout
