"""Small copies of benchmarks in their distributed formats, with texts written for these tests."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

KEYS = tuple(f"{number:016x}" for number in (0xA1, 0xB2, 0xC3, 0xD4))
"""Ids as Crossmodal-3600 has them: 16 hexadecimal digits."""

XM3600 = {
    "en": [["a red boat", "boat on a lake"], ["two goats"], ["a loaf of bread", "bread", "brown bread"], ["two goats"]],
    "he": [["סירה אדומה"], ["שתי עזים"], ["כיכר לחם"], ["ירח"]],
    "zh": [["船"], ["两只山羊", "山羊"], ["面包"], ["月"]],
    "fil": [["pulang bangka"], ["dalawang kambing"], ["tinapay"], ["buwan", "bilog na buwan"]],
}
"""One, two and three captions an image, one of a single character, one twice, one from right to left."""


def jpeg(colour: tuple[int, int, int] = (200, 30, 30), orientation: int | None = None, mode: str = "RGB") -> bytes:
    """A picture of 16 by 8 pixels whose left half has a colour."""
    picture = Image.new("RGB", (16, 8), "white")
    picture.paste(colour, (0, 0, 8, 8))
    exif = Image.Exif()
    if orientation:
        exif[0x0112] = orientation
    buffer = io.BytesIO()
    picture.convert(mode).save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


def write_image(path: Path, **options) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jpeg(**options))


def xm3600_lines(wrapped: bool = False) -> list[dict]:
    lines = []
    for row, key in enumerate(KEYS):
        captions = {
            language: {
                "caption": lists[row],
                "caption/tokenized": [" ".join(text) for text in lists[row]],
                "caption/tokenized/lowercase": [" ".join(text.lower()) for text in lists[row]],
            }
            for language, lists in XM3600.items()
        }
        head = {"image/key": key, "image/locale": "he"}
        lines.append({**head, "captions": captions} if wrapped else {**head, **captions})
    return lines


def write_jsonl(path: Path, lines: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    return path


def write_xm3600(folder: Path, lines: Sequence[object] | None = None) -> Path:
    """Four images: one turned by EXIF, one grey."""
    write_jsonl(folder / "captions.jsonl", xm3600_lines() if lines is None else lines)
    options = [{}, {"orientation": 6}, {"mode": "L"}, {"colour": (0, 0, 200)}]
    for key, chosen in zip(KEYS, options, strict=True):
        write_image(folder / "images" / f"{key}.jpg", **chosen)
    return folder


NAMES = ("1000.jpg", "2000.jpg", "3000.jpg")
LINES = {
    "eng_Latn": ["a man with a kite", "two women talk", "a dog"],
    "swh_Latn": ["mwanamume na tiara", "wanawake wawili", "mbwa"],
    "tgl_Latn": ["lalaking may saranggola", "dalawang babae", "dalawang babae"],
    "quy_Latn": ["qari", "warmi", "allqu"],
}


def write_lines(path: Path, lines: Sequence[str], end: str = "\n", final: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((end.join(lines) + (end if final else "")).encode())
    return path


def write_translations(folder: Path, names_file: str, languages: Mapping[str, Sequence[str]] = LINES) -> Path:
    """A folder of NLLB-CLIP: a file of names and a file a language; Swahili as from Windows, without a last end."""
    write_lines(folder / names_file, NAMES)
    for code, lines in languages.items():
        windows = code == "swh_Latn"
        write_lines(folder / f"{code}.txt", lines, "\r\n" if windows else "\n", final=not windows)
    for name in NAMES:
        write_image(folder / "images" / name)
    return folder
