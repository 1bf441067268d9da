"""Build ``emoji-36``: one picture, one name in each of 36 languages.

Unicode's CLDR names every emoji, and native speakers check the names. Two open fonts draw every
emoji. Putting the two side by side gives a small parallel corpus of captioned images with a clear
licence for each part, which is what a bench needs that cannot download XM3600.

Four npm packages hold everything, at the versions in :data:`PACKAGES`. Run::

    python -m workbench.builtin.build_corpus            # npm fetches the packages
    python -m workbench.builtin.build_corpus --packages node_modules

The result is one Parquet file in the layout of the ``datasets`` library, one row an emoji. The
same packages give the same bytes.
"""

import argparse
import hashlib
import io
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from workbench.builtin import CORPUS_FILE
from workbench.languages import XM3600_LANGUAGES

PACKAGES = {
    "cldr-annotations-full": "48.2.0",
    "cldr-annotations-derived-full": "48.2.0",
    "emoji-datasource-google": "16.0.0",
    "emoji-datasource-twitter": "16.0.0",
}

# XM3600 writes Cusco Quechua as `quz`; CLDR files it under its macrolanguage.
CLDR_CODE = {"quz": "qu"}

# CLDR writes this where a locale only repeats its parent: an absent name, not a caption.
INHERITED = "↑↑↑"

# Emoji are listed with and without the selector that asks for a coloured glyph.
VARIATION_SELECTOR = "\ufe0f"


def character(code_points: str) -> str:
    """Turn ``"1F418"`` or ``"0023-FE0F-20E3"`` into the text that it encodes."""
    return "".join(chr(int(point, 16)) for point in code_points.split("-"))


def read_names(packages: Path, language: str) -> dict[str, tuple[str, list[str]]]:
    """Read a language's names and keywords: ``{emoji without selectors: (name, keywords)}``."""
    code = CLDR_CODE.get(language, language)
    found: dict[str, tuple[str, list[str]]] = {}
    for package, folder, key in (
        ("cldr-annotations-full", "annotations", "annotations"),
        ("cldr-annotations-derived-full", "annotationsDerived", "annotationsDerived"),
    ):
        path = packages / package / folder / code / "annotations.json"
        entries = json.loads(path.read_text(encoding="utf-8"))[key]["annotations"]
        for emoji, entry in entries.items():
            name = (entry.get("tts") or [""])[0].strip()
            if not name or INHERITED in name:
                continue
            keywords = [word for word in entry.get("default", []) if INHERITED not in word]
            found.setdefault(emoji.replace(VARIATION_SELECTOR, ""), (name, keywords))
    return found


def read_drawings(packages: Path) -> list[dict]:
    """List the emoji that both fonts draw, without skin tones, in Unicode's own order."""
    listing = json.loads((packages / "emoji-datasource-google" / "emoji.json").read_text("utf-8"))
    drawings = []
    for entry in sorted(listing, key=lambda item: item["sort_order"]):
        if not (entry["has_img_google"] and entry["has_img_twitter"]):
            continue
        drawings.append(
            {
                "id": entry["unified"].lower(),
                "emoji": character(entry["unified"]),
                "category": entry["category"],
                "subcategory": entry["subcategory"],
                **{
                    column: {
                        "bytes": (
                            packages / f"emoji-datasource-{font}" / "img" / font / "64" / entry["image"]
                        ).read_bytes(),
                        "path": entry["image"],
                    }
                    for column, font in (("twemoji", "twitter"), ("noto", "google"))
                },
            }
        )
    return drawings


def build_table(packages: Path, languages: Iterable[str] = XM3600_LANGUAGES) -> pa.Table:
    """Join drawings and names: one row an emoji, ``name_xx`` and ``keywords_xx`` a language."""
    rows = read_drawings(packages)
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    fields = [pa.field(name, pa.string()) for name in ("id", "emoji", "category", "subcategory")]
    fields += [pa.field("twemoji", image), pa.field("noto", image)]
    columns: dict[str, list] = {field.name: [row[field.name] for row in rows] for field in fields}
    for language in languages:
        names = read_names(packages, language)
        hits = [names.get(row["emoji"].replace(VARIATION_SELECTOR, "")) for row in rows]
        columns[f"name_{language}"] = [hit[0] if hit else None for hit in hits]
        columns[f"keywords_{language}"] = [hit[1] if hit else [] for hit in hits]
        fields.append(pa.field(f"name_{language}", pa.string()))
        fields.append(pa.field(f"keywords_{language}", pa.list_(pa.string())))
    schema = pa.schema(fields, metadata={"huggingface": json.dumps(_datasets_features(fields))})
    return pa.table(columns, schema=schema)


def _datasets_features(fields: list[pa.Field]) -> dict:
    """Describe the columns the way the ``datasets`` library stores them in a Parquet schema."""
    features: dict[str, dict] = {}
    for field in fields:
        if pa.types.is_struct(field.type):
            features[field.name] = {"_type": "Image"}
        elif pa.types.is_list(field.type):
            features[field.name] = {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"}
        else:
            features[field.name] = {"dtype": "string", "_type": "Value"}
    return {"info": {"features": features}}


def table_bytes(table: pa.Table) -> bytes:
    """Serialise the table; small row groups, so that a reader can fetch a few rows."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", row_group_size=512, store_schema=True)
    return buffer.getvalue()


def fetch_packages(folder: Path) -> Path:
    """Install the four packages with npm and return their ``node_modules``."""
    if shutil.which("npm") is None:
        raise SystemExit(
            "npm is not on the PATH. Install Node.js, or pass --packages with a node_modules folder "
            "that holds " + ", ".join(f"{name}@{version}" for name, version in PACKAGES.items())
        )
    specs = [f"{name}@{version}" for name, version in PACKAGES.items()]
    subprocess.run(["npm", "install", "--no-save", "--ignore-scripts", *specs], cwd=folder, check=True)
    return folder / "node_modules"


def check_versions(packages: Path) -> None:
    """Refuse packages of another version: the corpus would carry a wrong name."""
    for name, version in PACKAGES.items():
        manifest = packages / name / "package.json"
        if not manifest.is_file():
            raise SystemExit(f"{packages} holds no {name}. Needed: {name}@{version}.")
        found = json.loads(manifest.read_text("utf-8"))["version"]
        if found != version:
            raise SystemExit(f"{packages / name} is version {found}; emoji-36 is built from {version}.")


def main() -> None:
    """Build the corpus and write it where the bench looks for it."""
    parser = argparse.ArgumentParser(description="Build the emoji-36 corpus from four npm packages.")
    parser.add_argument("--packages", type=Path, help="a node_modules folder that holds them already")
    parser.add_argument("--out", type=Path, default=CORPUS_FILE, help="the Parquet file to write")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        packages = arguments.packages or fetch_packages(Path(scratch))
        check_versions(packages)
        content = table_bytes(build_table(packages))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    print(f"{arguments.out}: {len(content):,} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
