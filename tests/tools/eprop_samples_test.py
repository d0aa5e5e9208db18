"""examples/08_eprop_evidence.cpp with several samples per update: twice the same sample is that sample, and two
others learn as e-prop's equations in plain NumPy do, which give the recorded losses to 1e-12."""

import ast
import os
import re
import struct
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

import needs

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "08_eprop_evidence.cpp"
DATA = Path(__file__).resolve().parents[1] / "eprop" / "evidence_accumulation.npz"
PROGRAM = Path(os.environ.get("ETRACE_CLI", "")).parents[1] / "examples" / "08_eprop_evidence"


def parts(npy):
    """The header's description and the bytes of an array, npy version 1."""
    size = struct.unpack("<H", npy[8:10])[0]
    return ast.literal_eval(npy[10:10 + size].decode("latin1").strip()), npy[10 + size:]


def npy(description, data):
    text = repr(description).encode("latin1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def repeated(npy_file, times, updates):
    """[all updates, 1, …] becomes [updates, times, …]."""
    description, data = parts(npy_file)
    assert not description["fortran_order"] and description["shape"][1] == 1
    size = len(data) // description["shape"][0]
    description["shape"] = (updates, times) + tuple(description["shape"][2:])
    return npy(description, b"".join(data[i * size:(i + 1) * size] * times for i in range(updates)))


def joined(npy_file, times, updates):
    """The first updates × times samples of [all updates, 1, …] as [updates, times, …]."""
    description, data = parts(npy_file)
    size = len(data) // description["shape"][0]
    description["shape"] = (updates, times) + tuple(description["shape"][2:])
    return npy(description, data[:updates * times * size])


class Samples(unittest.TestCase):
    def test_two_of_the_same(self):
        recorded = re.search(r"// numbers to 1e-8: (.*)", SOURCE.read_text(encoding="utf-8")).group(1).split()
        self.learns(repeated, recorded)

    # The rates of the samples differ, and each is regularised by itself.
    def test_two_others(self):
        self.learns(joined, ["0.750010067486", "0.641097988040"])

    def learns(self, sampled_as, recorded):
        updates = 2
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(DATA) as source:
            path = Path(folder) / "two.npz"
            with zipfile.ZipFile(path, "w") as target:
                for name in source.namelist():
                    data = source.read(name)
                    sampled = name in ("input_spikes.npy", "target.npy")
                    target.writestr(name, sampled_as(data, 2, updates) if sampled else data)
            done = subprocess.run([str(PROGRAM), str(path)], capture_output=True, text=True, check=True)
        losses = [float(line) for line in done.stdout.split()]
        self.assertEqual(len(losses), updates)
        for found, expected in zip(losses, recorded):
            self.assertAlmostEqual(found, float(expected), delta=1e-8)


if __name__ == "__main__":
    if not PROGRAM.is_file():
        needs.skip(f"there is no program {PROGRAM}")
    unittest.main()
