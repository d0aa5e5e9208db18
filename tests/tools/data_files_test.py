#!/usr/bin/env python3
"""Files that other programs write (NumPy, h5py, SciPy) are read as they were meant: `etrace data show` counts what was
written, and a damaged HDF5 file is an error, never a crash."""

import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLI = os.environ.get("ETRACE_CLI", str(ROOT / "build" / "bin" / "etrace"))

try:
    import h5py
    import numpy as np
    from scipy.io import wavfile
except ImportError:
    venv = ROOT / "build/venv/bin/python"
    if venv.exists() and Path(sys.prefix).resolve() != (ROOT / "build/venv").resolve():
        os.execv(venv, [str(venv), *sys.argv])
    print("h5py, numpy or scipy is not installed")
    sys.exit(77)


def show(*words):
    done = subprocess.run([CLI, "data", "show", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


class DataFiles(unittest.TestCase):
    def setUp(self):
        self.held = tempfile.TemporaryDirectory()
        self.folder = Path(self.held.name)
        self.random = np.random.default_rng(0)

    def tearDown(self):
        self.held.cleanup()

    def spoken(self, name, samples):
        with h5py.File(self.folder / name, "w") as file:
            times = file.create_dataset("spikes/times", (samples,), dtype=h5py.vlen_dtype(np.float16))
            units = file.create_dataset("spikes/units", (samples,), dtype=h5py.vlen_dtype(np.uint16))
            for i in range(samples):
                count = 7 * i  # the first row is empty
                times[i] = np.sort(self.random.uniform(0, 1.2, count)).astype(np.float16)
                units[i] = self.random.integers(0, 700, count).astype(np.uint16)
            file["labels"] = (np.arange(samples) % 3).astype(np.uint8)
            file.create_dataset("extra/keys", data=np.array([b"zero", b"one", b"two"]))
            file.create_dataset("extra/speaker", data=(np.arange(samples) % 2).astype(np.uint16))

    def test_shd_written_by_h5py(self):
        self.spoken("shd_train.h5", 9)
        self.spoken("shd_test.h5", 3)
        code, text = show(self.folder)
        if "needs HDF5" in text:
            self.skipTest("no library of HDF5")
        self.assertEqual(code, 0, text)
        self.assertIn("12 samples of 100 steps with 700 channels, 3 classes (9 for training, 3 for testing)", text)
        self.assertIn("class 2 two: 4 samples", text)
        self.assertIn(f"{7 * 36 + 7 * 3} spikes; 0 come after 1.4 s", text)
        code, text = show(self.folder, "--option", "duration=0.1")
        self.assertNotIn("; 0 come after", text)

    def test_damaged_hdf5_is_no_crash(self):
        self.spoken("shd_train.h5", 4)
        whole = (self.folder / "shd_train.h5").read_bytes()
        if "needs HDF5" in show(self.folder / "shd_train.h5")[1]:
            self.skipTest("no library of HDF5")
        draw = random.Random(5)
        for _ in range(40):
            broken = bytearray(whole)
            for _ in range(draw.randint(1, 8)):
                broken[draw.randrange(len(broken))] = draw.randrange(256)
            (self.folder / "shd_train.h5").write_bytes(broken[: draw.choice([len(broken), draw.randrange(len(broken))])])
            code, text = show(self.folder / "shd_train.h5")
            self.assertIn(code, (0, 2), text)

    def test_npz_written_by_numpy(self):
        x = self.random.normal(size=(30, 7, 2)).astype(np.float32)
        np.savez_compressed(self.folder / "a.npz", X=x, y=np.arange(30) % 3)
        self.assertIn("30 samples of 7 steps with 2 channels, 3 classes", show(self.folder / "a.npz")[1])
        lengths = np.arange(1, 11)
        np.savez(self.folder / "b.npz", X=np.zeros((lengths.sum(), 4)), y=np.arange(10) % 2, lengths=lengths)
        self.assertIn("10 samples of 1 to 10 steps with 4 channels, 2 classes", show(self.folder / "b.npz")[1])
        np.savez(self.folder / "c.npz", X=np.zeros((5, 4)), y=np.arange(2), lengths=np.array([2, 2]))
        code, text = show(self.folder / "c.npz")
        self.assertEqual(code, 2)
        self.assertIn("2 series with 4 steps, but x is", text)

    def test_wav_written_by_scipy(self):
        for label, hertz in (("low", 300), ("high", 2000)):
            (self.folder / label).mkdir()
            wave = 0.5 * np.sin(2 * np.pi * hertz * np.arange(1600) / 8000)
            for i, kind in enumerate((np.float32, np.float64, np.int16, np.int32)):
                scale = 1 if np.issubdtype(kind, np.floating) else np.iinfo(kind).max
                wavfile.write(self.folder / label / f"{i}.wav", 8000, (wave * scale).astype(kind))
        code, text = show(self.folder)
        self.assertEqual(code, 0, text)
        self.assertIn("8 samples of 18 steps with 40 channels, 2 classes", text)


if __name__ == "__main__":
    unittest.main()
