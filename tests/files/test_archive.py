"""Archives: other, damaged and hostile files are refused in one sentence, before they cost memory."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored import X, members_of, model, npy, refusal, same, tampered

from blockmix import load
from blockmix.files import archive

MODEL = model()


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, means=np.ones(3))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is not a saved model: load opens only what save has written"),
        (b'{"format": 1}', "is not a saved model: load opens only what save has written"),
        (pickle.dumps(MODEL), "is not a saved model: load opens only what save has written"),
        (npz(), "is a zip file, but no model was saved in it"),
        (np.random.default_rng(0).bytes(5000), "is not a saved model: load opens only what save has written"),
    ],
)
def test_other_files_are_refused(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert refusal(tmp_path / "file") == sentence
    assert refusal(tmp_path) == "is a folder: give the file that a model was saved in"
    with pytest.raises(FileNotFoundError, match=r"/nothing does not exist$"):
        load(tmp_path / "nothing")


@pytest.mark.parametrize("number", [1, 2, "3", None])
def test_a_file_of_another_version_is_refused(number: Any, tmp_path: Path) -> None:
    sentence = "was saved by another version of blockmix: load it with that version, or fit the model again"
    assert refusal(tampered(tmp_path, "format", number)) == sentence


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    for percent in range(10, 100, 10):
        (tmp_path / "model").write_bytes(content[: len(content) * percent // 100])
        assert refusal(tmp_path / "model") == "is truncated: copy it again or save the model again"


def test_tampering_with_nothing_changes_nothing(tmp_path: Path) -> None:
    # Red if the tests below were refused for the way in which the file is written.
    assert same(load(tampered(tmp_path)).predict_proba(X), MODEL.predict_proba(X))


@pytest.mark.parametrize("document", [b"", b"[]", b"{", b"\xff", b"{}", b"[" * 100_000, b"1" * 10_000])
def test_a_document_without_a_model_is_refused(document: bytes, tmp_path: Path) -> None:
    assert refusal(tampered(tmp_path, **{"model.json": document})).startswith("is damaged (")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "arrays/../../x.npy", "arrays/0.npy.pkl", "arrays/"])
def test_other_members_are_refused_and_never_written(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    assert refusal(tampered(folder, **{name: b"x"})) == f"holds {name!r}, which is not part of a saved model"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["inner", "model", "tampered"]


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["model.json", "arrays/0.npy"])
def test_a_bomb_is_refused_before_it_is_opened(name: str, compression: int, tmp_path: Path) -> None:
    # The directory claims a small size, which Python's zipfile believes until 20 MB of blanks are unpacked.
    path = tmp_path / "bomb"
    MODEL.save(path)
    content = members_of(path.read_bytes()) | {name: b" " * 20_000_000}
    with zipfile.ZipFile(path, "w") as bomb:
        for member, data in content.items():
            bomb.writestr(member, data, compression if member == name else zipfile.ZIP_STORED)
    raw = bytearray(path.read_bytes())
    entry = raw.index(b"PK\x01\x02")
    while raw[entry + 46 : entry + 46 + len(name)] != name.encode():
        entry = raw.index(b"PK\x01\x02", entry + 4)
    honest = bytes(raw)
    struct.pack_into("<I", raw, entry + 24, 100)
    for claimed in (honest, bytes(raw)):
        path.write_bytes(claimed)
        tracemalloc.start()
        assert refusal(path) == f"holds {name} compressed: it was not written by blockmix"
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
        tracemalloc.stop()


def test_overlapping_members_are_refused(tmp_path: Path) -> None:
    # The directory of a zip file may list the same bytes many times.
    MODEL.save(tmp_path / "model")
    content, more = (tmp_path / "model").read_bytes(), 2000
    with zipfile.ZipFile(tmp_path / "model") as saved:
        count, start = len(saved.infolist()), saved.start_dir
        largest = max(saved.infolist(), key=lambda info: info.file_size)
    place = content.index(largest.filename.encode(), start) - 46
    entry = content[place : place + 46 + len(largest.filename) + len(largest.extra)]
    directory = content[start : content.rindex(b"PK\x05\x06")] + entry * more
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count + more, count + more, len(directory), start, 0)
    (tmp_path / "model").write_bytes(content[:start] + directory + tail)
    assert refusal(tmp_path / "model") == "holds more than its own size: it was not written by blockmix"


def test_a_small_file_cannot_name_an_array_many_times(tmp_path: Path) -> None:
    # Each partition is as large as its labels; red if 10 000 of them, 8 GB, are built from one array of 800 kB.
    labels = {"$": "Partition", "labels": {"$": "array", "place": 99}}
    path = tampered(tmp_path, "content/note", [labels] * 10_000, **{"arrays/99.npy": npy(np.zeros(10**5, dtype=int))})
    tracemalloc.start()
    assert refusal(path) == "names the same array too often: it was not written by blockmix"
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()


class Trap:
    """An object that makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    trapped = npy(np.array([Trap(mark)], dtype=object))
    for member in (trapped, pickle.dumps(Trap(mark))):
        assert refusal(tampered(tmp_path, **{"arrays/0.npy": member})).startswith("is damaged (ValueError: ")
    assert not mark.exists()
    np.load(io.BytesIO(trapped), allow_pickle=True)
    assert mark.exists()  # the trap does work where it is opened


def header(text: str) -> bytes:
    padded = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


@pytest.mark.parametrize(
    "member",
    [
        b"",
        b"\x93NUMPY",
        npy(np.ones(3))[:-1],
        npy(np.ones(3)) + b"x",
        npy(np.array([(1, 2.0)], dtype=[("a", int), ("b", float)])),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }") + bytes(8),
        header("{'descr': '<V0', 'fortran_order': False, 'shape': (1000000000000000,), }"),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (0,), }"),
        header("__import__('os').system('false')"),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        b"\x93NUMPY\x09\x00" + bytes(20),
    ],
)
def test_a_member_that_is_not_an_array_is_refused(member: bytes, tmp_path: Path) -> None:
    assert refusal(tampered(tmp_path, **{"arrays/0.npy": member})).startswith("is damaged (")


def broken(*arguments: object, **named: object) -> None:
    raise OSError("the disk is full")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MODEL.save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()
    for place in (archive.npy, "write_array"), (archive.os, "fsync"), (archive.os, "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(*place, broken)
            with pytest.raises(OSError, match="the disk is full"):
                model("shared").save(tmp_path / "model")
        assert os.listdir(tmp_path) == ["model"]
        assert (tmp_path / "model").read_bytes() == before


def test_a_file_is_replaced_in_place(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    (tmp_path / "model").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "model")
    MODEL.save(str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert load(str(tmp_path / "model")).n_components == 2
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["link", "model", "usual"]
    with pytest.raises(ValueError, match=r"is a folder: give the name of a file$"):
        MODEL.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"^the folder of .*model does not exist: make it first$"):
        MODEL.save(tmp_path / "none" / "model")
