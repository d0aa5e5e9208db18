"""The package as it is installed: what it needs, how long it takes to import, and the wheel in an empty environment."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
start = time.perf_counter()
import etrace as et
seconds = time.perf_counter() - start
import numpy as np
x = np.ones((4, 3), np.float32)
w = np.full((3, 2), 0.5, np.float32)
grad = et.grad(lambda w: et.sum(et.matmul(x, w) ** 2))(w)
assert grad.shape == (3, 2) and abs(grad[0, 0].item() - 12) < 1e-5, grad
assert et.jit(lambda a: et.tanh(a) + 1)(x).shape == (4, 3)
print(seconds)
"""


def run(command, **env):
    out = subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**os.environ, **env})
    assert out.returncode == 0, out.stdout + out.stderr
    return out.stdout.strip()


def test_import_loads_numpy_only():
    """No package but NumPy is imported, it starts no thread, and the C++ library is found without help."""
    program = """
import sys
import numpy  # whose linear algebra may have started threads of its own
threads = lambda: next(line for line in open("/proc/self/status") if line.startswith("Threads:"))
before, began = set(sys.modules), threads()
import etrace
new = {name.split(".")[0] for name in set(sys.modules) - before}
third = {n for n in new if n not in sys.stdlib_module_names and n not in ("etrace", "numpy")}
assert not third, third
assert "jax" not in sys.modules and "torch" not in sys.modules and "tqdm" not in sys.modules
assert threads() == began, (began, threads())
"""
    run([sys.executable, "-c", program])


def test_version_is_that_of_the_repository():
    import etrace

    version = Path(__file__).parents[2] / "VERSION"
    assert etrace.__version__ == version.read_text().strip()


def test_cpu_without_the_instructions(tmp_path):
    """The check comes before the library is loaded, and is an ImportError."""
    program = """
import sys, types
fake = types.ModuleType("etrace._cpu")
fake.missing = lambda: "AVX2"
sys.modules["etrace._cpu"] = fake
try:
    import etrace
except ImportError as error:
    print(error)
assert "etrace._core" not in sys.modules
"""
    assert "this CPU has no AVX2" in run([sys.executable, "-c", program])


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    wheel = os.environ.get("ETRACE_WHEEL_FILE")
    if not wheel:
        pytest.skip("no wheel was built; run ./dev wheel")
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], PYTHONPATH="")
    return folder


def test_wheel_in_an_empty_environment(installed):
    seconds = float(run([installed / "bin" / "python", "-c", PROGRAM], PYTHONPATH=""))
    print(f"import etrace took {seconds:.3f} s")
    packages = run([installed / "bin" / "python", "-m", "pip", "list", "--format=freeze"], PYTHONPATH="")
    names = {line.split("==")[0].lower() for line in packages.splitlines()}
    assert names <= {"etrace", "numpy", "pip", "setuptools", "wheel"}, names


def test_wheel_brings_the_program(installed):
    version = Path(__file__).parents[2] / "VERSION"
    assert run([installed / "bin" / "etrace", "--version"], PYTHONPATH="") == version.read_text().strip()
    assert "d_rtrl" in run([installed / "bin" / "etrace", "rules"], PYTHONPATH="").lower()


def test_wheel_brings_its_library(installed):
    program = """
import etrace, glob, os
folder = os.path.dirname(etrace.__file__)
print(sorted(os.path.relpath(p, folder) for p in glob.glob(folder + "/lib/**/*.so*", recursive=True)))
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "libetrace" in line}
assert all(p.startswith(folder) for p in loaded) and loaded, loaded
assert not any("libfmt" in line for line in open("/proc/self/maps"))
assert os.path.exists(folder + "/py.typed")
"""
    files = run([installed / "bin" / "python", "-c", program], PYTHONPATH="")
    assert "lib/libetrace.so" in files
