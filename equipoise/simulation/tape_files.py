"""Tapes on disk: an .npz file per seed, without pickle, written whole or not at all.

A file says what it was recorded of by a key of the caller's making. One that exhausted, is damaged or has another key or
format is no file: whoever asks for it records anew.
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
    """Write what is on the tapes, after every learner has played to the end for its own curve."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, format=np.array(FORMAT), key=np.array(key), **tapes.contents())
    write_atomic(path, buffer.getvalue())


def load_tapes(tapes: Tapes, path: Path, key: str) -> bool:
    """Put on fresh tapes what a file holds; whether there was one that fits."""
    try:
        with path.open("rb") as source, np.load(source, allow_pickle=False) as file:
            if int(file["format"]) != FORMAT or str(file["key"]) != key:
                return False
            tapes.restore({name: file[name] for name in file.files})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return False
    return True
