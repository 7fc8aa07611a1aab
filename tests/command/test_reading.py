"""Text tables: the layout is recognized, and whatever cannot be read is one sentence."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from commands import read

from blockmix.command.reading import read_table, recognize


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a\n1\n2\n", ","),
        ("a\n1.5\n2.25\n", ","),
        ("1,5;2,5\n3,5;4,5\n", ";"),
        ("a;b\n1,5;2,5\n", ";"),
        ("name\tx\nDoe, John\t1\nRoe, Jane\t2\n", "\t"),
        ("name,x\nnew york,1\nsan jose,2\n", ","),
        ("a|b\n1|2\n", "|"),
        ('x,text\n1,"one; two\nthree"\n2,"four ""five"""\n', ","),
        ("g1 g2\nr1 1 2\nr2 3 4\n", " "),
    ],
)
def test_separators(text: str, separator: str) -> None:
    assert recognize(text).separator == separator


def test_a_table_without_header_gets_names(tmp_path: Path) -> None:
    table = read(tmp_path, "1.5,2\n2.5,-3e2\n")
    assert not table.named
    assert table.names == ("x0", "x1")
    assert len(table.values) == 2
    years = read(tmp_path, "1990,1991\n2.5,-3e2\n", header=True)
    assert years.names == ("1990", "1991")
    assert len(years.values) == 1


def test_quoted_cells_contain_separators_and_line_ends(tmp_path: Path) -> None:
    table = read(tmp_path, 'a,text\n1,"one, two\nthree"\n2,"four ""five"""\n', kept=("text",))
    assert table.texts["text"] == ["one, two\nthree", 'four "five"']


def test_quoted_names_contain_line_ends(tmp_path: Path) -> None:
    table = read(tmp_path, '\n"a\nb","c\r\nd"\n1,2\n3,4\n')
    assert table.names == ("a\ufffdb", "c\ufffd\ufffdd")  # a line end must not break a message
    assert table.values.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "decimal"),
    [
        ("a;b\n1,5;2\n", ","),
        ("a;b\n1,5;2.5\n", "."),
        ("a\tb\n1,5\t2\n", ","),
        ("a\tb\n1,500\t12,000,000\n", "."),  # thousands
        ("a\tb\n1,500\t2.5\n", "."),
        ("a;b\n1.500;2,5\n", ","),
        ("a;b\n1.500.000;3\n", ","),
        ("a;b\n1,500,000;3\n", "."),
        ("a;b\n1,500.5;3\n", "."),
        ('a,b\n"0,153","4,200"\n', ","),
        ("a;b\n1;3\n", ""),  # unknown
        ("a,b\n1,5\n", "."),
    ],
)
def test_decimal_signs(text: str, decimal: str) -> None:
    assert recognize(text).decimal == decimal


@pytest.mark.parametrize(
    ("text", "values", "grouped"),
    [
        ("a;b\n1.234,5;2\n-12.345.678;3,5\n999;1\n", [1234.5, -12345678, 999], "1.234 is read as 1234: a"),
        ('a,b\n"1,234.5",2\n"-12,345,678",3\n999,1\n', [1234.5, -12345678, 999], "1,234 is read as 1234: a"),
        ("a,b\n1\u00a0234.5,2\n\u221212\u202f345\u202f678,3\n\u22120.5,1\n", [1234.5, -12345678, -0.5], None),
        ("a;b\n1 234,5;2\n12'345'678;3\n-7;1\n", [1234.5, 12345678, -7], None),
        ("a;b\n1.234;2,5\n2.345;3\n3;4\n", [1234, 2345, 3], "1.234 is read as 1234: a"),
        ("sep=;\na;b\n1,5;2\n2,5;3\n1;4\n", [1.5, 2.5, 1], None),
        ("sep=|\r\na|b\r\n1,5|2\r\n3|4\r\n", [1.5, 3], None),
    ],
)
def test_numbers_as_people_write_them(text: str, values: list[float], grouped: str | None, tmp_path: Path) -> None:
    table = read(tmp_path, text)
    assert table.names == ("a", "b")
    assert table.values[:, 0].tolist() == values
    assert table.notes == ((grouped,) if grouped else ())


def test_a_first_row_of_such_numbers_is_not_a_header(tmp_path: Path) -> None:
    assert len(read(tmp_path, "\u22121.5,1\u00a0000\n2,3\n5,2\n").values) == 3


def test_a_sign_that_no_number_of_the_sample_shows(tmp_path: Path) -> None:
    # Red if 1.234 is taken for thousands because semicolons suggest a decimal comma.
    text = "a;b\n" + "1;3\n" * 60 + "1.234;2,5\n"
    assert read(tmp_path, text).values[-1].tolist() == [1.234, 2.5]


@pytest.mark.parametrize("cell", ["0,53", "1,2345", "12,34,567", "1.234.5"])
def test_what_is_not_a_number_stays_text(cell: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"has text in columns of numbers: a \\('{cell}' in row 4\\)"):
        read(tmp_path, f'a,b\n1.5,2\n2.5,3\n3.5,1\n"{cell}",4\n')


@pytest.mark.parametrize("sign", ["\t", " ", ",", ";"])
@pytest.mark.parametrize("first", ["1", "ALL_1"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_short_header_of_r(sign: str, first: str, encoding: str, tmp_path: Path) -> None:
    # What write.table(x, "file") of R writes: the header has no cell for the row names.
    path = tmp_path / "r.txt"
    rows = (['"g1"', '"g2"'], [f'"{first}"', "1.5", "2"], ['"2"', "3", "4"])
    path.write_text("\n".join(sign.join(row) for row in rows), encoding=encoding)
    table = read_table(path)
    assert table.names == ("g1", "g2")
    assert table.values.tolist() == [[1.5, 2], [3, 4]]
    assert list(table.row_names) == [first, "2"]


def test_the_short_header_of_many_genes(tmp_path: Path) -> None:
    # Red if the first row of data, which is longer than the first sample, is not seen.
    path, genes = tmp_path / "genes.tsv", [f"gene_number_{j}" for j in range(30_000)]
    rows = [f"s{i}\t" + "\t".join(f"{i + 0.125}" for _ in genes) for i in range(3)]
    path.write_text("\n".join(["\t".join(genes), *rows]))
    table = read_table(path)
    assert table.names == tuple(genes)
    assert list(table.row_names) == ["s0", "s1", "s2"]


@pytest.mark.parametrize(
    "content",
    [
        "a,b\ns,2,3\nt,5,6\nu,8\n",
        "a,b\n1,2,3\n4,5,6\n",  # numbers without quotes are not row names
        "a,b,c\n1,2,3,\n4,5,6,\n",  # a separator at the end of each row
        "a,b\ns,2,\nt,5,\n",
        "a,b\ns,2,3\ns,5,6\n",  # row names differ
    ],
)
def test_rows_that_are_too_long_are_not_a_table_of_r(content: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has \d cells in row \d and \d columns"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n \n", "is empty"),
        (b"a,b,c\n", "has column names but no rows"),
        (b"a,b,c", "has column names but no rows"),
        (b"a,b,c\n1,2,3\n4,5\n", "has 2 cells in row 2 and 3 columns: '4,5'"),
        (b"a,b\n1,2\n4,5,6\n", "has 3 cells in row 2 and 2 columns: '4,5,6'"),
        ("na\u00efve,b\n1,2\n".encode("latin-1"), "is not encoded in UTF-8: save it as UTF-8, or give its encoding"),
        (b"a,b\n" + b"1,2\n" * 200_000 + "\u00e9,2\n".encode("latin-1"), "is not encoded in UTF-8"),
        (bytes(range(256)), "is not encoded in UTF-8"),
        (b"\0\1\2\3", "is not a text table"),
    ],
)
def test_a_bad_text_is_one_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path} {sentence}")


@pytest.mark.parametrize("encoding", ["klingon", "rot13", "hex"])
def test_what_is_not_an_encoding_of_text(encoding: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"--encoding {encoding} is not an encoding of text"):
        read(tmp_path, "alcohol,b\n1,2\n", encoding=encoding)


def test_a_cell_longer_than_the_limit_of_csv(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    assert read(tmp_path, f"a,text\n1,{'z' * (limit + 1)}\n2,b\n", kept=("text",)).texts["text"][1] == "b"
    assert csv.field_size_limit() == limit
