import json
from pathlib import Path

import pytest
from PIL import Image

from workbench.corpora.folder import load_folder
from workbench.errors import InputError

LINES = [
    {"image": "pictures/a.png", "captions": {"en": "a red bus", "sw": ["basi jekundu", "basi"]}},
    {"image": "pictures/b.png", "captions": {"en": ["a cat"], "sw": "paka"}},
    {"image": "pictures/c.png", "id": "the moon", "captions": {"en": "the moon", "sw": "mwezi"}},
]
COLOURS = ["red", "green", "blue"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three one-colour images with captions in two languages."""
    (tmp_path / "bus" / "pictures").mkdir(parents=True)
    for letter, colour in zip("abc", COLOURS, strict=True):
        Image.new("RGB", (3, 3), colour).save(tmp_path / "bus" / "pictures" / f"{letter}.png")
    return write(tmp_path / "bus", LINES)


def write(folder: Path, lines: list) -> Path:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "captions.jsonl").write_text(text, "utf-8")
    return folder


def edited(row: int, **changes) -> list[dict]:
    return [{**line, **changes} if place == row else line for place, line in enumerate(LINES)]


def test_a_folder_is_a_corpus(folder):
    corpus = load_folder(folder)
    assert corpus.name == "bus"
    assert corpus.image_ids == ("pictures/a.png", "pictures/b.png", "the moon")
    assert corpus.captions == {
        "en": (("a red bus",), ("a cat",), ("the moon",)),
        "sw": (("basi jekundu", "basi"), ("paka",), ("mwezi",)),
    }
    assert [image.getpixel((1, 1)) for image in corpus.images()] == [(255, 0, 0), (0, 128, 0), (0, 0, 255)]
    assert corpus.drawn is None
    assert corpus.left_out == {}


def test_the_file_itself_a_text_path_and_a_relative_path_work_too(folder, monkeypatch):
    expected = load_folder(folder)
    monkeypatch.chdir(folder)
    for path in (folder / "captions.jsonl", str(folder), ".", "captions.jsonl"):
        corpus = load_folder(path)
        assert (corpus.name, corpus.hash) == (expected.name, expected.hash)


def test_languages_are_taken_in_the_order_asked_for(folder):
    assert load_folder(folder, ["sw", "en", "sw"]).languages == ("sw", "en")
    assert load_folder(folder, ["sw"]).languages == ("sw",)


def test_an_unknown_language_names_the_nearest(folder):
    with pytest.raises(InputError, match="Did you mean 'sw'"):
        load_folder(folder, ["en", "swahili"])


def test_blank_lines_a_byte_order_mark_and_windows_line_ends_are_read(folder):
    expected = load_folder(folder).hash
    lines = [json.dumps(line) for line in LINES]
    (folder / "captions.jsonl").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode())
    assert load_folder(folder).hash == expected


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_a_unicode_line_separator_inside_a_caption_ends_no_line(folder, separator):
    write(folder, edited(1, captions={"en": f"a{separator}cat", "sw": "paka"}))
    assert load_folder(folder).captions["en"][1] == (f"a{separator}cat",)


def test_an_absent_folder_or_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent", tmp_path / "captions.jsonl"):
        with pytest.raises(InputError, match=r"it has no captions\.jsonl.*A line is"):
            load_folder(path)


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_is_refused(folder, content):
    (folder / "captions.jsonl").write_text(content)
    with pytest.raises(InputError, match="is empty"):
        load_folder(folder)


def test_a_truncated_line_is_named(folder):
    path = folder / "captions.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(InputError, match=r"Line 3 of .*is not JSON.*truncated"):
        load_folder(folder)


def test_text_in_another_encoding_is_refused(folder):
    text = json.dumps({"image": "pictures/a.png", "captions": {"de": "ein großer Bus"}}, ensure_ascii=False)
    (folder / "captions.jsonl").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=rf"not UTF-8 .* at byte {text.index('ß')}"):
        load_folder(folder)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ([], "names no image"),
        ({"captions": {"en": "x"}}, "names no image"),
        ({"image": 3, "captions": {"en": "x"}}, "names no image"),
        ({"image": "pictures/a.png"}, "has no captions"),
        ({"image": "pictures/a.png", "captions": {}}, "has no captions"),
        ({"image": "pictures/a.png", "captions": ["x"]}, "has no captions"),
        ({"image": "pictures/a.png", "captions": {"en": 3}}, "caption in 'en' that is no text"),
        ({"image": "pictures/a.png", "captions": {"en": ["x", None]}}, "caption in 'en' that is no text"),
    ],
)
def test_a_line_of_another_shape_is_named_and_the_shape_shown(folder, line, says):
    write(folder, [LINES[0], line])
    with pytest.raises(InputError, match=rf"Line 2 of .*{says}.*A line is"):
        load_folder(folder)


def test_half_an_emoji_is_refused_where_it_stands(folder):
    line = '{"image": "pictures/a.png", "captions": {"en": "nice \\ud83d"}}\n'
    (folder / "captions.jsonl").write_text(line)
    with pytest.raises(InputError, match=r"Line 1 of .*has the text 'nice .*with half a character"):
        load_folder(folder)


def test_a_missing_caption_is_refused_and_named(folder):
    write(folder, edited(1, captions={"en": "a cat"}))
    with pytest.raises(InputError, match=r"no caption in 'sw' for the image 'pictures/b\.png'"):
        load_folder(folder)
    assert load_folder(folder, ["en"]).languages == ("en",)


@pytest.mark.parametrize("empty", ["", "  ", ["paka", ""]])
def test_an_empty_caption_is_refused_and_named(folder, empty):
    write(folder, edited(1, captions={"en": "a cat", "sw": empty}))
    for drop in (False, True):
        with pytest.raises(InputError, match=r"empty caption in 'sw' for the image 'pictures/b\.png'"):
            load_folder(folder, drop_incomplete=drop)


def test_incomplete_images_are_left_out_when_asked_and_counted(folder):
    lines = edited(1, captions={"en": "a cat", "sw": []})
    lines[2] = {**lines[2], "captions": {"en": "the moon"}}
    corpus = load_folder(write(folder, lines), drop_incomplete=True)
    assert corpus.image_ids == ("pictures/a.png",)
    assert corpus.captions["sw"] == (("basi jekundu", "basi"),)
    assert corpus.left_out == {"no caption in every language: sw lacks 2": 2}
    assert [image.getpixel((0, 0)) for image in corpus.images()] == [(255, 0, 0)]


def test_nothing_left_is_refused_with_the_count(folder):
    write(
        folder,
        [{**line, "captions": {code: "x"}} for line, code in zip(LINES, ("en", "sw", "en"), strict=True)],
    )
    with pytest.raises(InputError, match=r"no image left\. Left out: 3 .*en lacks 1, sw lacks 2"):
        load_folder(folder, drop_incomplete=True)


def test_one_image_on_two_lines_is_refused_unless_they_have_ids(folder):
    write(folder, [*LINES, LINES[0]])
    with pytest.raises(InputError, match=r"'pictures/a\.png' twice"):
        load_folder(folder)
    write(folder, [*LINES, {**LINES[0], "id": "again"}])
    assert load_folder(folder).image_ids[-1] == "again"
    write(folder, [*LINES, {**LINES[0], "id": "the moon"}])
    with pytest.raises(InputError, match="'the moon' twice"):
        load_folder(folder)


def test_an_image_outside_the_folder_is_refused(folder):
    outside = folder.parent / "x.png"
    Image.new("RGB", (2, 2)).save(outside)
    (folder / "link.png").symlink_to(outside)
    for name in ("../x.png", "pictures/../../x.png", str(outside), "link.png"):
        write(folder, edited(0, image=name))
        with pytest.raises(InputError, match="outside the corpus folder"):
            load_folder(folder)


def test_a_path_that_turns_back_inside_the_folder_is_fine(folder):
    write(folder, edited(0, image="pictures/../pictures/a.png"))
    assert load_folder(folder).images()[0].getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize("name", ["pictures/z.png", "pictures", ""])
def test_an_absent_image_is_refused_before_any_work(folder, name):
    write(folder, edited(0, image=name))
    with pytest.raises(InputError, match=f"names the image '{name}', which does not exist"):
        load_folder(folder)


def test_a_name_that_can_be_no_path_is_refused(folder):
    write(folder, edited(0, image="a\0.png"))
    with pytest.raises(InputError, match="is no path"):
        load_folder(folder)


def test_a_truncated_image_is_named_when_it_is_opened(folder):
    path = folder / "pictures" / "b.png"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match=r"b\.png' can't be opened as an image"):
        load_folder(folder).images()


def test_the_hash_follows_every_image_byte_and_caption(folder):
    before = load_folder(folder).hash
    assert load_folder(folder).hash == before
    path = folder / "pictures" / "c.png"
    original = path.read_bytes()
    path.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    assert load_folder(folder).hash != before
    path.write_bytes(original)
    assert load_folder(folder).hash == before
    write(folder, edited(2, captions={"en": "the moon", "sw": "mwezi!"}))
    assert load_folder(folder).hash != before


def test_the_hash_does_not_depend_on_where_the_folder_lies(folder, tmp_path):
    before = load_folder(folder).hash
    folder.rename(tmp_path / "moved")
    assert load_folder(tmp_path / "moved").hash == before
