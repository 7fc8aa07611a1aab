"""Archives: other, damaged and hostile files are refused in one sentence, before they cost memory."""

from __future__ import annotations

import io
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored import MODEL, X, members_of, refusal, same, tampered

from blockmix import load


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"/nothing does not exist$"):
        load(tmp_path / "nothing")
    assert refusal(tmp_path) == "is a folder: give the file that a model was saved in"


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, means=np.ones(3))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"n_components,bic\n1,2\n", "is not a saved model: load opens only what save has written"),
        (b'{"format": 1}', "is not a saved model: load opens only what save has written"),
        (pickle.dumps(MODEL), "is a pickle, which could run code: load opens only what save has written"),
        (pickle.dumps(MODEL, protocol=2), "is a pickle, which could run code: load opens only what save has written"),
        (npz(), "is a zip file, but no model was saved in it"),
        (np.random.default_rng(0).bytes(5000), "is not a saved model: load opens only what save has written"),
    ],
)
def test_other_files_are_refused(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert refusal(tmp_path / "file") == sentence


@pytest.mark.parametrize("percent", range(0, 100, 10))
def test_a_truncated_file_is_refused(percent: int, tmp_path: Path) -> None:
    MODEL.save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    (tmp_path / "model").write_bytes(content[: len(content) * percent // 100])
    expected = "is truncated: copy it again or save the model again" if percent else "is empty"
    assert refusal(tmp_path / "model") == expected


def test_a_byte_that_changed_is_seen_or_does_not_matter(tmp_path: Path) -> None:
    # Most bytes belong to a checked sum; the others are dates and rights, which nobody reads.
    MODEL.save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.choice(len(content), 250, replace=False):
        changed = bytearray(content)
        changed[place] ^= int(rng.integers(1, 256))
        (tmp_path / "changed").write_bytes(changed)
        try:
            found = load(tmp_path / "changed")
        except ValueError:
            refused += 1
            continue
        assert same(found.predict_proba(X), MODEL.predict_proba(X))
        assert same(found.get_params(), MODEL.get_params())
    assert refused > 150


def test_tampering_with_nothing_changes_nothing(tmp_path: Path) -> None:
    # Red if the tests below were refused for the way in which the file is written.
    assert same(load(tampered(tmp_path)).predict_proba(X), MODEL.predict_proba(X))


@pytest.mark.parametrize("document", [b"", b"[]", b"{", b"\xff", b"{}", b"[" * 100_000, b"1" * 10_000])
def test_a_document_that_is_none_is_refused(document: bytes, tmp_path: Path) -> None:
    assert refusal(tampered(tmp_path, members={"model.json": document})).startswith("is damaged (")


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "arrays/../../x.npy", "arrays/0.npy.pkl", "code.py", "arrays/"]
)
def test_other_members_are_refused_and_never_written(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path = tampered(folder, members={name: b"x"})
    assert refusal(path) == f"holds {name!r}, which is no part of a saved model"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["honest", "inner", "tampered"]


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["model.json", "arrays/0.npy"])
def test_a_bomb_is_refused_before_it_is_opened(name: str, compression: int, tmp_path: Path) -> None:
    # The directory claims a small size, which Python's zipfile believes until 20 MB of blanks are unpacked.
    path = tmp_path / "bomb"
    MODEL.save(path)
    content = members_of(path) | {name: b" " * 20_000_000}
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in content.items():
            archive.writestr(member, data, compression if member == name else zipfile.ZIP_STORED)
    entry = path.read_bytes().index(b"PK\x01\x02")
    raw = bytearray(path.read_bytes())
    while raw[entry + 46 : entry + 46 + len(name)] != name.encode():
        entry = raw.index(b"PK\x01\x02", entry + 4)
    for claimed in (raw, patched(raw, entry + 24, 100)):
        path.write_bytes(claimed)
        tracemalloc.start()
        assert refusal(path) == f"holds {name} compressed: it was not written by blockmix"
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
        tracemalloc.stop()


def patched(content: bytes, place: int, number: int) -> bytes:
    changed = bytearray(content)
    struct.pack_into("<I", changed, place, number)
    return bytes(changed)


def test_members_that_lie_on_each_other_are_refused(tmp_path: Path) -> None:
    # The directory of a zip file may name the same bytes many times.
    MODEL.save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    with zipfile.ZipFile(tmp_path / "model") as archive:
        count, start = len(archive.infolist()), archive.start_dir
        largest = max(archive.infolist(), key=lambda info: info.file_size)
    end = content.rindex(b"PK\x05\x06")
    place = content.index(largest.filename.encode(), start) - 46
    entry = content[place : place + 46 + len(largest.filename) + len(largest.extra)]
    more = 2000
    directory = content[start:end] + entry * more
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count + more, count + more, len(directory), start, 0)
    (tmp_path / "model").write_bytes(content[:start] + directory + tail)
    assert refusal(tmp_path / "model") == "holds more than its own size: it was not written by blockmix"


class Trap:
    """An object that makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def test_an_array_of_objects_is_refused_and_not_opened(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    trapped = npy(np.array([Trap(mark)], dtype=object))
    assert refusal(tampered(tmp_path, members={"arrays/0.npy": trapped})).startswith(
        "is damaged (ValueError: arrays/0.npy"
    )
    assert not mark.exists()
    np.load(io.BytesIO(trapped), allow_pickle=True)
    assert mark.exists()  # the trap does work where it is opened


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(pickle.dumps(Trap(tmp_path / "mark")))
    assert refusal(tmp_path / "model").startswith("is a pickle")
    assert refusal(tampered(tmp_path, members={"arrays/0.npy": pickle.dumps(Trap(tmp_path / "mark"))})).startswith(
        "is da"
    )
    assert not (tmp_path / "mark").exists()


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
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (10**15,), }"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }") + bytes(8),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }") + bytes(8),
        header("{'descr': '<V0', 'fortran_order': False, 'shape': (1000000000000000,), }"),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (0,), }"),
        header("__import__('os').system('false')"),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        b"\x93NUMPY\x09\x00" + bytes(20),
    ],
)
def test_an_array_that_is_none_is_refused(member: bytes, tmp_path: Path) -> None:
    assert refusal(tampered(tmp_path, members={"arrays/0.npy": member})).startswith("is damaged (")
