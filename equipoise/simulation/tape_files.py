"""Tapes on disk: one .npz file per seed, without pickle, written atomically.

The caller's key in a file identifies what was recorded. A file that is missing or damaged, or has another key or
format, is ignored, and the caller records again.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import numpy as np

from equipoise.simulation.tapes import Tapes
from equipoise.storage.files import write_atomic

FORMAT = 1


def save_tapes(tapes: Tapes, path: Path, key: str) -> None:
    """Write the tapes, after every learner has played to the end for its own curve."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, format=np.array(FORMAT), key=np.array(key), **tapes.contents())
    write_atomic(path, buffer.getvalue())


def load_tapes(tapes: Tapes, path: Path, key: str) -> bool:
    """Load a file into new tapes; returns whether there was a matching one."""
    try:
        with path.open("rb") as source, np.load(source, allow_pickle=False) as file:
            if int(file["format"]) != FORMAT or str(file["key"]) != key:
                return False
            tapes.restore({name: file[name] for name in file.files})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return False
    return True
