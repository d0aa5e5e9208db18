"""The package as it is installed: what it needs, how long it takes to import, and the wheel in an empty environment."""

import json
import os
import re
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
fake.main_interpreter = lambda: True
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


ROOT = Path(__file__).parents[2]


def without_sources(command):
    """The command where the sources and what is built of them cannot be seen, if this system lets us hide them."""
    hidden = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", f"mount -t tmpfs none '{ROOT}' && exec \"$@\"", "sh"]
    permitted = subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode == 0
    return [*hidden, *command] if permitted else command


def files_of(installed):
    package = next(installed.glob("lib/python3*/site-packages/etrace"))
    return package, [p for p in package.rglob("*") if p.is_file()]


def test_wheel_brings_the_program(installed):
    version = ROOT / "VERSION"
    program = installed / "bin" / "etrace"
    assert run(without_sources([program, "--version"]), PYTHONPATH="") == version.read_text().strip()
    assert "d_rtrl" in run(without_sources([program, "rules"]), PYTHONPATH="").lower()
    train = [program, "train", "delayed_xor", "--updates", "3", "--hidden", "4", "--quiet", "--runs", "none"]
    run(without_sources(train), PYTHONPATH="")


def test_wheel_works_without_the_sources(installed):
    run(without_sources([installed / "bin" / "python", "-c", PROGRAM]), PYTHONPATH="")


def test_wheel_knows_no_path_of_the_build(installed):
    package, files = files_of(installed)
    binaries = [p for p in files if p.read_bytes().startswith(b"\x7fELF")]
    assert len(binaries) >= 4, binaries
    for binary in binaries:
        text = binary.read_bytes()
        assert text.find(str(ROOT).encode()) == -1, binary
        dynamic = run(["readelf", "-dW", binary])
        paths = re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", dynamic)
        assert all(p.startswith("$ORIGIN") for p in ":".join(paths).split(":") if p), (binary, paths)
        if "abi3" not in binary.name or "_core" in binary.name:
            assert re.search(r"FLAGS.*NOW", dynamic), binary


def test_wheel_has_every_file_once(installed):
    """Archives of Python have no links: a library under three names would be in it three times."""
    package, files = files_of(installed)
    seen = {}
    for path in files:
        if path.stat().st_size > 100_000:
            seen.setdefault(path.read_bytes(), []).append(str(path.relative_to(package)))
    assert [names for names in seen.values() if len(names) > 1] == []
    libraries = sorted(p.parent.name for p in files if p.name.startswith("libetrace"))
    assert libraries in (["lib"], ["lib", "x86-64-v4"]), libraries


def test_wheel_has_licences_and_a_list_of_parts(installed):
    info = next(installed.glob("lib/python3*/site-packages/etrace-*.dist-info"))
    texts = {p.name: p.read_text("utf-8") for p in info.rglob("*") if p.name in ("LICENSE", "NOTICE")}
    assert texts == {name: (ROOT / name).read_text("utf-8") for name in ("LICENSE", "NOTICE")}
    parts = json.loads((info / "sboms" / "etrace.spdx.json").read_text())
    assert parts["spdxVersion"] == "SPDX-2.3"
    named = {p["name"]: p.get("versionInfo") for p in parts["packages"]}
    assert set(named) == {"etrace", *re.findall(r"^--- (\S+)$", texts["NOTICE"], re.M)}
    assert all(named[name] for name in ("fmt", "nlohmann_json", "CLI11", "tomlplusplus", "nanobind")), named
    said = run([installed / "bin" / "etrace", "--licences"], PYTHONPATH="")
    assert said == (texts["NOTICE"] + "\n" + texts["LICENSE"]).strip()


def test_wheel_brings_its_library(installed):
    program = """
import etrace, glob, os
folder = os.path.dirname(etrace.__file__)
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "libetrace" in line}
assert all(p.startswith(folder) for p in loaded) and loaded, loaded
assert not any("libfmt" in line for line in open("/proc/self/maps"))
assert os.path.exists(folder + "/py.typed")
"""
    run([installed / "bin" / "python", "-c", program], PYTHONPATH="")
