from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.corpora import reading
from workbench.corpora.reading import Faults, as_id, checked_text, decode, parse_once, read_csv, read_lines, split_lines
from workbench.errors import InputError

CAPTION = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1)


@settings(deadline=None)
@given(st.lists(CAPTION, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_lines_come_back_whatever_ends_them(lines, end, final):
    text = end.join(lines) + (end if final and lines else "")
    assert split_lines(text) == lines


def test_one_file_may_mix_both_ends_and_a_carriage_return_inside_stays():
    assert split_lines("a\r\nb\nc\rd\r\n") == ["a", "b", "c\rd"]
    assert split_lines("") == []
    assert split_lines("a\n\nb") == ["a", "", "b"]
    assert split_lines("a\u2028b\x85c\n") == ["a\u2028b\x85c"]


PAGES = [
    b"<!DOCTYPE html>\n<html><body>Not Found</body></html>\n",
    b"\xef\xbb\xbf \n<html>\n",
    b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
    b"404: Not Found",
]


@pytest.mark.parametrize("page", PAGES)
def test_the_error_page_of_a_server_is_no_file_of_captions(tmp_path, page):
    path = tmp_path / "swh_Latn.txt"
    path.write_bytes(page)
    with pytest.raises(InputError, match=r"swh_Latn\.txt' is no data file: it holds the error page of a server"):
        read_lines(path)


def test_a_caption_that_mentions_a_page_is_a_caption(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("404: not found, says the sign\n" + "a dog\n" * 200)
    assert len(read_lines(path)) == 201
    path.write_text("a sign that reads <html>\n")
    assert read_lines(path) == ["a sign that reads <html>"]


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 17\n")
    with pytest.raises(InputError, match="git lfs pull"):
        read_lines(path)


def test_other_encodings_and_absent_files_are_named(tmp_path):
    with pytest.raises(InputError, match="not UTF-8"):
        decode("größe".encode("latin-1"), Path("x"))
    with pytest.raises(InputError, match="does not exist"):
        read_lines(tmp_path / "absent.txt")
    with pytest.raises(InputError, match="can't be read"):
        read_lines(tmp_path)


def test_faults_are_raised_or_kept():
    with pytest.raises(InputError, match="first"):
        Faults().extend(["first", "second"])
    kept = Faults(strict=False)
    kept.extend(["first", "second"])
    assert kept.found == ["first", "second"]


def test_an_id_may_be_a_number_or_a_text_and_nothing_else():
    faults = Faults(strict=False)
    assert (as_id(12, "x", faults), as_id("0012", "x", faults)) == ("12", "0012")
    assert [as_id(value, "Row 1", faults) for value in (1.0, True, None, "", ["a"])] == [None] * 5
    assert len(faults.found) == 5


def test_half_an_emoji_and_no_text_are_reported():
    faults = Faults(strict=False)
    assert checked_text("ok", "Line 1", "a caption", faults) == "ok"
    assert checked_text("", "Line 1", "a caption", faults) == "", "the corpus names it with its image"
    assert checked_text(3, "Line 2", "a caption", faults) is None
    assert checked_text("x\ud83d", "Line 3", "a caption", faults) is None
    assert faults.found[0] == "Line 2 has a caption that is no text."
    assert faults.found[1].startswith("Line 3 has a caption with half a character")


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=6)


@settings(deadline=None)
@given(st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=5))
def test_a_table_comes_back_as_it_was_written(rows):
    import csv
    import io

    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    columns, found, _ = read_csv(buffer.getvalue(), Path("t.csv"))
    assert columns == ["a", "b"]
    assert [cells for _, cells in found] == rows


@settings(deadline=None)
@given(
    st.lists(
        st.lists(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n\t")), min_size=2, max_size=2
        ),
        min_size=1,
        max_size=5,
    )
)
def test_a_cell_of_a_tsv_file_is_what_stands_between_two_tabs(rows):
    text = "".join("\t".join(row) + "\n" for row in [["a", "b"], *rows])
    columns, found, _ = read_csv(text, Path("t.tsv"))
    assert (columns, [cells for _, cells in found]) == (["a", "b"], rows)


def test_a_stray_quote_swallows_no_row_of_a_tsv_file_and_is_said_of_both_kinds():
    rows = ["image\ten\tde", "1.jpg\ta hat\tein Hut", '2.jpg\t"a cup\teine Tasse', '3.jpg\ta cat\teine "Katze"']
    _, found, notes = read_csv("\n".join(rows), Path("t.tsv"))
    assert [cells for _, cells in found] == [row.split("\t") for row in rows[1:]]
    assert notes == (
        "1 lines of t.tsv have a cell that begins with a quote, the first line 3: it is part of the text, since "
        "nothing is quoted in TSV",
    )
    text = 'image,en\n1,a\n2,"b\n3,c\n4,d"\n5,e\n'
    _, found, notes = read_csv(text, Path("t.csv"))
    assert found == [(2, ["1", "a"]), (3, ["2", "b\n3,c\n4,d"]), (6, ["5", "e"])]
    assert notes == (
        "1 row spans several lines of t.csv, the first lines 3 to 5; a stray double quote would do the same",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n1,2,3\n", "Line 3 of 't.csv' has 3 cells for 2 columns.*double quotes"),
        ("a,b\n1\n", "Line 2 of 't.csv' has 1 cells for 2 columns"),
        ("a,a\n1,2\n", "has the column 'a' twice"),
        ("a,\n1,2\n", "Column 2 of 't.csv' has no name"),
        ('a,b\n1,"2\n', "Line 3 of 't.csv' can't be read|Line 2 of 't.csv' can't be read"),
    ],
)
def test_a_broken_table_is_named_with_its_line(text, says):
    with pytest.raises(InputError, match=says):
        read_csv(text, Path("t.csv"))


def test_a_file_is_parsed_once_and_again_when_its_content_changes(tmp_path):
    parsed = []

    def parse(content: bytes, path: Path) -> bytes:
        parsed.append(content)
        return content

    path = tmp_path / "a"
    path.write_bytes(b"one")
    assert [parse_once(path, parse) for _ in range(3)] == [b"one"] * 3
    path.write_bytes(b"two")
    assert parse_once(path, parse) == b"two"
    assert parsed == [b"one", b"two"]


def test_two_ways_of_parsing_one_file_do_not_mix(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"1")

    def number(content: bytes, path: Path) -> int:
        return int(content)

    def text(content: bytes, path: Path) -> str:
        return content.decode()

    assert (parse_once(path, number), parse_once(path, text)) == (1, "1")


def test_what_was_parsed_long_ago_is_forgotten(tmp_path):
    for number in range(12):
        path = tmp_path / str(number)
        path.write_bytes(b"x")
        parse_once(path, lambda content, path: object())
    assert len(reading._CACHE) <= reading._KEPT
