"""The folder of results: replaced as a whole or not at all, and never files of the user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import MIXTURE, fails, files_below, lines_of, run, summary_of, wine

from blockmix.cli import results


def test_predictions_leave_the_fit_alone(wine_csv: str, wine_model: str) -> None:
    before = files_below("out")
    for _ in range(2):
        run("predict", wine_model, wine_csv, "--out", "out")
    after = files_below("out")
    assert set(after) - set(before) == {"out/predictions.csv", "out/predictions.json"}
    assert before.items() <= after.items()
    run("fit", wine_csv, "--components", "1:2", "--out", "out")
    assert {path.name for path in Path("out").iterdir()} == MIXTURE | {
        "selection.csv",
        "predictions.csv",
        "predictions.json",
    }


@pytest.mark.parametrize("name", sorted({*MIXTURE, "selection.csv"}))
def test_a_file_of_the_user_with_the_name_of_a_result_is_refused(wine_csv: str, name: str) -> None:
    Path(wine_csv).rename(name)
    sentence = fails("fit", name, "--components", "2", "--out", ".")
    assert sentence.startswith(f". has a {name} that is not the result of an earlier run of this kind: give another")


def test_files_with_other_names_stay(wine_csv: str) -> None:
    Path(wine_csv).rename("topics.csv")
    before = files_below(".")
    run("fit", "topics.csv", "--components", "2", "--out", ".")
    assert before.items() <= files_below(".").items()


def test_the_results_of_another_kind_of_run_are_refused(wine_csv: str, wine_model: str) -> None:
    assert "out has a model.blockmix that is not the result" in fails("covariance", wine_csv, "--out", "out")
    assert "out has a model.blockmix that is not the result" in fails(
        "topics", wine_csv, "--text", "id", "--out", "out"
    )
    # A summary that lists files of the user does not make them ours.
    Path("mine").mkdir()
    Path("mine/wine.csv").write_text("a,b\n1,2\n")
    Path("mine/summary.json").write_text('{"kind": "mixture", "files": ["wine.csv", "summary.json", "../wine.csv"]}')
    before = {path: content for path, content in files_below(".").items() if path.endswith("wine.csv")}
    run("fit", wine_csv, "--components", "2", "--out", "mine")
    assert before.items() <= files_below(".").items()


@pytest.mark.parametrize("summary", ["", "{", "[]", "{}", '{"kind": "mixture"}', '{"kind": "mixture", "files": 3}'])
def test_a_summary_of_someone_else_owns_nothing(wine_csv: str, summary: str) -> None:
    Path("out").mkdir()
    Path("out/summary.json").write_text(summary)
    assert "out has a summary.json that is not the result" in fails("fit", wine_csv, "--out", "out")


def test_an_input_is_never_replaced(wine_csv: str, wine_model: str) -> None:
    sentence = "out/rows.csv is an input and would be replaced: give another folder with --out"
    assert fails("fit", "out/rows.csv", "--components", "1", "--out", "out") == sentence
    Path("link.csv").symlink_to("out/rows.csv")
    assert fails("fit", "link.csv", "--components", "1", "--out", "out") == sentence


def test_an_output_folder_that_is_not_a_folder(wine_csv: str) -> None:
    Path("dangling").symlink_to("nowhere")
    for out in (wine_csv, "dangling"):
        sentence = fails("fit", wine_csv, "--out", out)
        assert sentence == f"{out} is not a folder: give a folder for the results with --out"
    assert "wine.csv/below cannot be written to" in fails("fit", wine_csv, "--out", "wine.csv/below")


def test_a_link_to_a_folder(wine_csv: str) -> None:
    Path("real").mkdir()
    Path("link").symlink_to("real")
    for components in ("1:2", "2"):
        run("fit", wine_csv, "--components", components, "--out", "link")
    assert {path.name for path in Path("real").iterdir()} == MIXTURE
    assert Path("link").is_symlink()


def test_a_folder_in_the_place_of_a_result(wine_csv: str, wine_model: str) -> None:
    Path("out/rows.csv").unlink()
    Path("out/rows.csv").mkdir()
    assert "out has a rows.csv that is not the result" in fails("fit", wine_csv, "--components", "2", "--out", "out")


def test_a_failed_swap_leaves_everything_as_it_was() -> None:
    # The last move fails: a file cannot take the place of a folder.
    for name in ("out/rows.csv/mine", "out/model.blockmix", "new/model.blockmix", "new/columns.csv", "new/rows.csv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    before = files_below(".")
    with pytest.raises(OSError):
        results._swap(Path("new"), Path("out"), ["model.blockmix"])
    Path("new/old").rmdir()
    assert files_below(".") == before


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder that a user without rights may read but not write; root itself may always write."""
    folder = Path(tempfile.mkdtemp())
    (folder / "wine.csv").write_text(wine().to_csv(index=False))
    (folder / "secret.csv").write_text("a,b\n1,2\n")
    (folder / "secret.csv").chmod(0o000)
    (folder / "out").mkdir()
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    folder.chmod(0o555)
    (folder / "out").chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        (folder / "out").chmod(0o755)
        shutil.rmtree(folder)


def test_no_permission_to_write(as_nobody: Path) -> None:
    for out in (as_nobody / "new", as_nobody / "out"):
        done = run("fit", str(as_nobody / "wine.csv"), "--components", "2", "--out", str(out), code=1)
        reason = "cannot be written to (Permission denied): give another folder with --out"
        assert done.stderr == f"blockmix: {out} {reason}\n"


def test_a_table_that_may_not_be_read_is_named(as_nobody: Path) -> None:
    file = as_nobody / "secret.csv"
    done = run("fit", str(file), "--out", str(as_nobody / "open" / "out"), code=1)
    assert done.stderr == f"blockmix: {file}: Permission denied\n"


def test_results_replace_the_old_ones_only_when_they_are_complete(wine_csv: str) -> None:
    run("fit", wine_csv, "--components", "1:2", "--out", "out")
    Path("out/mine.txt").write_text("notes")
    before = files_below(".")
    # The largest file that the process may write is smaller than the report.
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
    code = limit + "from blockmix.cli import main; main(sys.argv[1:])"
    arguments = ("fit", wine_csv, "--components", "3", "--out", "out")
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 1
    assert "blockmix: out cannot be written to (File too large): give another folder with --out" in done.stderr
    assert files_below(".") == before
    run(*arguments)
    # selection.csv described another model; mine.txt is not ours to remove.
    assert {path.name for path in Path("out").iterdir()} == MIXTURE | {"mine.txt"}
    assert [path.name for path in Path().rglob(".*")] == []
    assert sorted(summary_of("out")["files"]) == sorted(MIXTURE)


def test_cells_that_look_like_formulas_are_disarmed() -> None:
    names = ["=HYPERLINK(1)", "+x", "-5", "@a", "-1+2", "a=b", "-1.5e3"]
    lines = "\n".join(f"{name},{i},{i * i % 5}" for i, name in enumerate(names))
    Path("names.csv").write_text(f"id,=cmd|x,b\n{lines}\n")
    run("fit", "names.csv", "--components", "1", "--out", "out")
    safe = ["'=HYPERLINK(1)", "'+x", "-5", "'@a", "'-1+2", "a=b", "-1.5e3"]
    assert [line["row"] for line in lines_of("out/rows.csv")] == safe
    assert [line["column"] for line in lines_of("out/columns.csv")] == ["'=cmd|x", "b"]
    assert run("predict", "out/model.blockmix", "names.csv").stdout == Path("out/rows.csv").read_text()
    run("fit", "names.csv", "--components", "1", "--raw-text", "--out", "out")
    assert [line["row"] for line in lines_of("out/rows.csv")] == names
