"""Atomic writing: the old content or the new, never anything else, and nothing left over."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from equipoise.errors import EquipoiseError
from equipoise.storage.files import canonical_json, digest, write_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_creates_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    assert path.read_bytes() == b"old"
    write_atomic(str(path), b"new, longer")
    assert path.read_bytes() == b"new, longer"
    assert names(tmp_path) == ["file"]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_atomic(tmp_path / "atomic", b"")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(
        EquipoiseError, match=r"file' could not be written: No space left on device; its old content remains"
    ):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_an_interruption_passes_through_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EquipoiseError, match="could not be written: No such file or directory"):
        write_atomic(tmp_path / "none" / "file", b"")


def test_canonical_json_has_one_text_and_no_nan() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def test_digest_ignores_itself_and_order_only() -> None:
    sealed = {"a": 1, "b": 2, "digest": "x"}
    assert digest(sealed) == digest({"b": 2, "a": 1})
    assert digest(sealed) != digest({"a": 1, "b": 3})
    assert digest({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
