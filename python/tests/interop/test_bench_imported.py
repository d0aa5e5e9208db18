"""The script behind the speeds on the pages "From …", at small sizes."""

import importlib.util
from pathlib import Path

import pytest

et = pytest.importorskip("etrace")
if not hasattr(et, "compile"):
    pytest.skip("the extension is not built", allow_module_level=True)


@pytest.mark.parametrize("framework", ["jax", "braintrace", "snntorch"])
def test_it_runs(framework, capsys):
    pytest.importorskip(framework)
    spec = importlib.util.spec_from_file_location("imported", Path(__file__).parents[3] / "bench/imported.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    there, here = module.main([framework, "--units", "4", "--batch", "2", "--steps", "3", "--repeat", "1"])
    assert there > 0 and here > 0
    assert "imported, D_RTRL" in capsys.readouterr().out
