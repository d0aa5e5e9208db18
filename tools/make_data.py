"""Makes data sets that no package holds as files, for `etrace data` to find.

usage: make_data.py mnist1d                    needs the package mnist1d of PyPI
       make_data.py spoken_digits_wav CLONE    CLONE: the repository free-spoken-digit-dataset

The files go to $ETRACE_DATA, else ~/.local/share/etrace/data.
"""

import os
import pathlib
import shutil
import sys


def data_folder(name):
    root = os.environ.get("ETRACE_DATA") or os.path.expanduser("~/.local/share/etrace/data")
    folder = pathlib.Path(root) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def mnist1d():
    """The package's generator with its own settings and seed: a curve of 40 steps for each sample."""
    import numpy as np
    from mnist1d.data import get_dataset_args, make_dataset

    made = make_dataset(get_dataset_args())
    arrays = {
        "X_train": made["x"][:, :, None].astype(np.float32),
        "y_train": made["y"].astype(np.int64),
        "X_test": made["x_test"][:, :, None].astype(np.float32),
        "y_test": made["y_test"].astype(np.int64),
    }
    path = data_folder("mnist1d") / "mnist1d.npz"
    np.savez(path, **arrays)
    return path


def spoken_digits_wav(clone):
    """Recordings DIGIT_SPEAKER_INDEX.wav: by the repository's own rule, index 0 to 4 is the test part."""
    recordings = sorted((pathlib.Path(clone) / "recordings").glob("*_*_*.wav"))
    if not recordings:
        sys.exit(f"make_data.py: '{clone}' has no folder recordings with files DIGIT_SPEAKER_INDEX.wav")
    folder = data_folder("spoken_digits_wav")
    for recording in recordings:
        index = int(recording.stem.rsplit("_", 1)[1])
        part = folder / ("test" if index < 5 else "train")
        part.mkdir(exist_ok=True)
        shutil.copyfile(recording, part / recording.name)
    return folder


if __name__ == "__main__":
    makers = {"mnist1d": mnist1d, "spoken_digits_wav": spoken_digits_wav}
    if len(sys.argv) < 2 or sys.argv[1] not in makers:
        sys.exit(__doc__)
    try:
        print(makers[sys.argv[1]](*sys.argv[2:]))
    except TypeError:
        sys.exit(__doc__)
