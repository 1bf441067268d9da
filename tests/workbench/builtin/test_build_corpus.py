import hashlib
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from workbench.builtin import CORPUS_FILE
from workbench.builtin.build_corpus import (
    PACKAGES,
    build_table,
    character,
    check_versions,
    main,
    read_names,
    table_bytes,
)
from workbench.languages import XM3600_LANGUAGES

LANGUAGES = ("en", "sw", "hi", "te", "quz")
SELECTOR = "\ufe0f"
HEART, FROG, FLAG, LIKE = "❤", "🐸", "🏳️‍🌈", "👍"

# What CLDR says, by its own codes: plain annotations, and those derived for sequences.
PLAIN = {
    "en": {
        "🐘": {"default": ["animal", "elephant"], "tts": ["elephant"]},
        HEART: {"default": ["emotion", "heart", "love", "red"], "tts": ["red heart"]},
        FROG: {"default": ["face", "frog"], "tts": ["frog"]},
        "🦄": {"default": ["face", "unicorn"], "tts": ["unicorn"]},
        LIKE: {"default": ["+1", "good", "hand"], "tts": ["thumbs up"]},
        "€": {"default": ["currency"], "tts": ["euro"]},
    },
    "sw": {
        "🐘": {"default": ["ndovu", "tembo"], "tts": ["ndovu"]},
        HEART + SELECTOR: {"default": ["hisia", "moyo"], "tts": ["moyo mwekundu"]},
        FROG: {"default": ["↑↑↑"], "tts": ["↑↑↑"]},
        LIKE: {"default": ["↑↑↑", "dole"], "tts": [" dole gumba juu "]},
    },
    "hi": {"🐘": {"default": ["पशु", "हाथी"], "tts": ["हाथी"]}, FROG: {"default": ["मेंढक"]}},
    "te": {"🐘": {"default": ["అనిమల్", "ఎలిఫాన్ట్", "ఏనుగు", "జంతువు"], "tts": ["ఏనుగు"]}},
    "qu": {"🐘": {"default": ["elefante"], "tts": ["elefante"]}},
}
DERIVED = {
    "en": {
        "🏳‍🌈": {"default": ["flag", "pride"], "tts": ["rainbow flag"]},
        "👍🏽": {"default": ["good", "medium skin tone"], "tts": ["thumbs up: medium skin tone"]},
        "🐘": {"default": ["derived"], "tts": ["not this one"]},
    },
    "sw": {"🏳‍🌈": {"default": ["bendera"], "tts": ["bendera ya upinde wa mvua"]}},
    "hi": {},
    "te": {},
    "qu": {},
}


def drawn(unified: str, order: int, *, google: bool = True, twitter: bool = True, **more) -> dict:
    return {
        "name": "SOME NAME", "unified": unified, "image": f"{unified.lower()}.png", "sort_order": order,
        "category": "Animals & Nature", "subcategory": "animal-mammal", "has_img_apple": True,
        "has_img_google": google, "has_img_twitter": twitter, **more,
    }  # fmt: skip


# Out of order, as the real listing is, which is sorted by code point.
LISTING = [
    drawn("1F418", 30),
    drawn("1F438", 20),
    drawn("1F984", 50, twitter=False),
    drawn("1F985", 55, google=False),
    drawn("2764-FE0F", 10, category="Smileys & Emotion", subcategory="heart"),
    drawn("1F3F3-FE0F-200D-1F308", 60),
    drawn("1F44D", 40, skin_variations={"1F3FD": drawn("1F44D-1F3FD", 41)}),
]
IN_ORDER = ["2764-fe0f", "1f438", "1f418", "1f44d", "1f3f3-fe0f-200d-1f308"]


def picture(font: str, unified: str) -> bytes:
    colour = hashlib.sha256(f"{font} {unified}".encode()).digest()[:3]
    buffer = io.BytesIO()
    Image.new("RGBA", (64, 64), (*colour, 255)).save(buffer, "PNG")
    return buffer.getvalue()


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The four packages as npm lays them out, with a handful of emoji; most languages name none."""
    root = tmp_path / "node_modules"
    for name, version in PACKAGES.items():
        write_json(root / name / "package.json", {"name": name, "version": version})
    for code in {"qu" if language == "quz" else language for language in XM3600_LANGUAGES}:
        for package, folder, entries in (
            ("cldr-annotations-full", "annotations", PLAIN),
            ("cldr-annotations-derived-full", "annotationsDerived", DERIVED),
        ):
            content = {folder: {"identity": {"language": code}, "annotations": entries.get(code, {})}}
            write_json(root / package / folder / code / "annotations.json", content)
    for font in ("google", "twitter"):
        write_json(root / f"emoji-datasource-{font}" / "emoji.json", LISTING)
        for entry in [*LISTING, *LISTING[-1]["skin_variations"].values()]:
            if entry[f"has_img_{font}"]:
                path = root / f"emoji-datasource-{font}" / "img" / font / "64" / entry["image"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(picture(font, entry["unified"]))
    return root


def row_of(table: pa.Table, image_id: str) -> dict:
    return table.slice(table["id"].to_pylist().index(image_id), 1).to_pylist()[0]


def test_code_points_become_the_text_they_encode():
    assert character("1F418") == "🐘"
    assert character("0023-FE0F-20E3") == "#️⃣"
    assert character("1F3F3-FE0F-200D-1F308") == FLAG


def test_rows_are_the_emoji_that_both_fonts_draw_in_unicode_order_without_skin_tones(packages):
    table = build_table(packages, LANGUAGES)
    assert table["id"].to_pylist() == IN_ORDER
    assert table["emoji"].to_pylist() == ["❤️", "🐸", "🐘", "👍", "🏳️‍🌈"]
    assert table["category"].to_pylist()[0] == "Smileys & Emotion"
    assert table["subcategory"].to_pylist()[:2] == ["heart", "animal-mammal"]


def test_names_are_those_of_cldr(packages):
    row = row_of(build_table(packages, LANGUAGES), "1f418")
    assert {language: row[f"name_{language}"] for language in LANGUAGES} == {
        "en": "elephant", "sw": "ndovu", "hi": "हाथी", "te": "ఏనుగు", "quz": "elefante",
    }  # fmt: skip
    assert row["keywords_en"] == ["animal", "elephant"]
    assert row["keywords_te"] == ["అనిమల్", "ఎలిఫాన్ట్", "ఏనుగు", "జంతువు"]


def test_an_emoji_is_found_with_and_without_the_selector(packages):
    table = build_table(packages, LANGUAGES)
    heart = row_of(table, "2764-fe0f")
    assert (heart["name_en"], heart["name_sw"], heart["name_te"]) == ("red heart", "moyo mwekundu", None)
    flag = row_of(table, "1f3f3-fe0f-200d-1f308")
    assert (flag["name_en"], flag["name_sw"]) == ("rainbow flag", "bendera ya upinde wa mvua")
    assert flag["keywords_en"] == ["flag", "pride"]


def test_an_inherited_name_is_no_name_and_an_absent_one_neither(packages):
    table = build_table(packages, LANGUAGES)
    frog = row_of(table, "1f438")
    assert frog["name_en"] == "frog"
    assert (frog["name_sw"], frog["keywords_sw"]) == (None, [])
    # Keywords without a name: Hindi has no caption for it.
    assert (frog["name_hi"], frog["keywords_hi"]) == (None, [])
    assert "↑↑↑" not in json.dumps(table.drop_columns(["twemoji", "noto"]).to_pylist(), ensure_ascii=False)


def test_an_inherited_keyword_is_left_out_and_names_are_trimmed(packages):
    like = row_of(build_table(packages, LANGUAGES), "1f44d")
    assert (like["name_sw"], like["keywords_sw"]) == ("dole gumba juu", ["dole"])


def test_a_derived_name_does_not_replace_a_plain_one(packages):
    assert read_names(packages, "en")["🐘"] == ("elephant", ["animal", "elephant"])


def test_each_drawing_is_the_file_of_its_font(packages):
    row = row_of(build_table(packages, LANGUAGES), "1f418")
    assert row["twemoji"] == {"bytes": picture("twitter", "1F418"), "path": "1f418.png"}
    assert row["noto"] == {"bytes": picture("google", "1F418"), "path": "1f418.png"}


def test_the_same_packages_give_the_same_bytes(packages):
    first, second = (table_bytes(build_table(packages)) for _ in range(2))
    assert first == second
    table = pq.read_table(io.BytesIO(first))
    assert table.equals(build_table(packages))
    names = [column for column in table.column_names if column.startswith("name_")]
    assert names == [f"name_{language}" for language in XM3600_LANGUAGES]


def test_a_changed_name_gives_other_bytes(packages):
    before = table_bytes(build_table(packages, LANGUAGES))
    path = packages / "cldr-annotations-full" / "annotations" / "sw" / "annotations.json"
    path.write_text(path.read_text("utf-8").replace('"ndovu"]}', '"tembo"]}'), "utf-8")
    assert table_bytes(build_table(packages, LANGUAGES)) != before


def test_the_script_writes_the_file_and_its_hash(packages, tmp_path, monkeypatch, capsys):
    out = tmp_path / "new" / "emoji.parquet"
    monkeypatch.setattr(sys, "argv", ["build_corpus", "--packages", str(packages), "--out", str(out)])
    main()
    assert out.read_bytes() == table_bytes(build_table(packages))
    assert hashlib.sha256(out.read_bytes()).hexdigest() in capsys.readouterr().out


@pytest.mark.parametrize("name", PACKAGES)
def test_another_version_is_refused(packages, tmp_path, monkeypatch, name):
    write_json(packages / name / "package.json", {"name": name, "version": "15.1.2"})
    out = tmp_path / "emoji.parquet"
    monkeypatch.setattr(sys, "argv", ["build_corpus", "--packages", str(packages), "--out", str(out)])
    with pytest.raises(SystemExit, match=rf"{name} is version 15\.1\.2; .*{PACKAGES[name]}"):
        main()
    assert not out.exists()


@pytest.mark.parametrize("name", PACKAGES)
def test_an_absent_package_is_refused(packages, name):
    (packages / name / "package.json").unlink()
    with pytest.raises(SystemExit, match=f"holds no {name}. Needed: {name}@{PACKAGES[name]}"):
        check_versions(packages)


def test_the_right_versions_pass(packages):
    check_versions(packages)


# -- the file that is shipped ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped() -> pa.Table:
    return pq.read_table(CORPUS_FILE)


def test_the_shipped_rows_say_what_the_packages_say(packages, shipped):
    built = build_table(packages, LANGUAGES)
    for image_id, languages in (
        ("1f418", LANGUAGES),
        ("2764-fe0f", ("en", "sw")),
        ("1f3f3-fe0f-200d-1f308", ()),
        ("1f438", ()),
    ):
        expected, found = row_of(built, image_id), row_of(shipped, image_id)
        assert found["emoji"] == expected["emoji"]
        for language in languages:
            assert found[f"name_{language}"] == expected[f"name_{language}"]
    elephant = row_of(shipped, "1f418")
    for language in LANGUAGES:
        assert elephant[f"keywords_{language}"] == row_of(built, "1f418")[f"keywords_{language}"]
    assert row_of(shipped, "1f3f3-fe0f-200d-1f308")["name_en"] == "rainbow flag"


def test_the_shipped_file_has_the_columns_that_the_script_writes(packages, shipped):
    written = pq.read_schema(io.BytesIO(table_bytes(build_table(packages))))
    assert shipped.schema.equals(written, check_metadata=True)
    assert len(shipped) == 1911
    assert len(set(shipped["id"].to_pylist())) == 1911


def test_the_shipped_rows_have_no_skin_tones_and_stand_in_unicode_order(shipped):
    ids = shipped["id"].to_pylist()
    tones = {f"1f3f{letter}" for letter in "bcdef"}
    assert not [image_id for image_id in ids if len(image_id.split("-")) > 1 and tones & set(image_id.split("-"))]
    assert ids[0] == "1f600"
    assert ids.index("1f600") < ids.index("1f44d") < ids.index("1f418") < ids.index("1f3f3-fe0f")
    assert [character(image_id) for image_id in ids] == shipped["emoji"].to_pylist()


def test_the_shipped_file_tells_the_datasets_library_which_columns_are_images():
    schema = pq.read_schema(CORPUS_FILE)
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert list(features) == schema.names
    assert {name for name, feature in features.items() if feature["_type"] == "Image"} == {"twemoji", "noto"}
    assert features["name_sw"] == {"dtype": "string", "_type": "Value"}
    assert features["keywords_sw"] == {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"}
    for name in ("twemoji", "noto"):
        assert schema.field(name).type == pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def test_the_shipped_file_can_be_read_a_few_rows_at_a_time():
    metadata = pq.ParquetFile(CORPUS_FILE).metadata
    assert metadata.num_row_groups >= 4
