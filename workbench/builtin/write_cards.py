"""Measure the built-in corpus and towers with the bench's own code and write their cards.

Every number in a card comes from here. Run after training::

    python -m workbench.builtin.write_cards
"""

import json
from collections.abc import Iterable

import numpy as np
import torch

from workbench.builtin import CORPUS_FOLDER, TOWER_FOLDERS
from workbench.builtin.build_corpus import PACKAGES
from workbench.builtin.recipe import Recipe
from workbench.corpora import load_corpus
from workbench.languages import COMMON_CRAWL_SHARE, ENGLISH_NAMES, HRL_6, LRL_5, XM3600_LANGUAGES
from workbench.retrieval import Bootstrap, Direction, Ranks, rank, unit
from workbench.towers import Tower, load_tower

PROBE_LANGUAGES = (*HRL_6, *LRL_5, "mi", "quz")
"""The 13 languages of the probe: the pool of eleven, and the two rarest of Crossmodal-3600 (AMB-13)."""


def ranks_of(tower: Tower, languages: Iterable[str], gallery: torch.Tensor, captions: dict[str, list[str]]):
    """Rank the captions of each language against the gallery; no interventions."""
    owner = torch.arange(len(gallery))
    return {
        language: rank(unit(tower.encode_text(captions[language], language), language), gallery, owner)
        for language in languages
    }


def language_row(tower: Tower, language: str) -> dict:
    """Measure one language on all emoji that have a name in it."""
    corpus = load_corpus("emoji-36", [language])
    gallery = unit(tower.encode_images(corpus.images()), "images")
    texts, _ = corpus.texts(language)
    ranks: dict[Direction, Ranks] = ranks_of(tower, [language], gallery, {language: texts})[language]
    drawn = np.array((corpus.drawn or {})[language])
    scores = ranks["i2t"].score("R@1")
    bootstrap = Bootstrap(len(corpus))
    low, high = bootstrap.interval(bootstrap.means(scores))
    unseen = drawn == 0
    tokens = tower.tokenize(texts, language)
    return {
        "language": language,
        "n": len(corpus),
        "drawn": int(drawn.sum()),
        "unseen": int(unseen.sum()),
        "i2t": [float(scores.mean()), float(low), float(high)],
        "i2t@5": float(ranks["i2t"].score("R@5").mean()),
        "t2i": float(ranks["t2i"].score("R@1").mean()),
        "unseen_i2t": float(scores[unseen].mean()) if unseen.any() else None,
        "truncated": int(tokens.truncated.sum()),
    }


def tier_gap(tower: Tower) -> dict:
    """HRL-6 mean minus LRL-5 mean on the emoji that all eleven name, with its paired interval."""
    languages = (*HRL_6, *LRL_5)
    corpus = load_corpus("emoji-36", languages)
    gallery = unit(tower.encode_images(corpus.images()), "images")
    captions = {language: corpus.texts(language)[0] for language in languages}
    ranks = ranks_of(tower, languages, gallery, captions)
    scores = {language: ranks[language]["i2t"].score("R@1") for language in languages}
    high = np.mean([scores[language] for language in HRL_6], axis=0)
    low = np.mean([scores[language] for language in LRL_5], axis=0)
    bootstrap = Bootstrap(len(corpus))
    ends = bootstrap.interval(bootstrap.means(high - low))
    return {
        "n": len(corpus),
        "HRL-6": float(high.mean()),
        "LRL-5": float(low.mean()),
        "gap": [float((high - low).mean()), float(ends[0]), float(ends[1])],
        "languages": {language: float(values.mean()) for language, values in scores.items()},
    }


def language_probe(tower: Tower) -> dict:
    """Read the language off unit output embeddings, on held-out images."""
    from sklearn.linear_model import LogisticRegression

    corpus = load_corpus("emoji-36", PROBE_LANGUAGES)
    embeddings = [unit(tower.encode_text(corpus.texts(code)[0], code), code).numpy() for code in PROBE_LANGUAGES]
    order = np.random.default_rng(0).permutation(len(corpus))
    train, test = order[: len(order) // 2], order[len(order) // 2 :]

    def stack(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.concatenate([part[rows] for part in embeddings]).astype(np.float64)
        return x, np.repeat(np.arange(len(embeddings)), len(rows))

    model = LogisticRegression(max_iter=1000).fit(*stack(train))
    return {
        "accuracy": 100 * float(model.score(*stack(test))),
        "chance": 100 / len(PROBE_LANGUAGES),
        "images": [len(train), len(test)],
    }


def measure(name: str) -> dict:
    """Measure one tower: every language, the gap between the tiers, and the language probe."""
    tower = load_tower(name)
    return {
        "name": name,
        "weights_sha256": tower.fingerprint,
        "parameters": sum(parameter.numel() for parameter in tower.model.parameters()),
        "family": tower.family,
        "pool": tower.pool,
        "positions": tower.max_positions,
        "rows": [language_row(tower, language) for language in XM3600_LANGUAGES],
        "tiers": tier_gap(tower),
        "probe": language_probe(tower),
    }


def tower_card(found: dict, recipe: Recipe) -> str:
    """Write a tower's card."""
    tiers, probe = found["tiers"], found["probe"]
    rows = sorted(found["rows"], key=lambda row: -COMMON_CRAWL_SHARE[row["language"]])
    lines = [
        f"| {row['language']} | {ENGLISH_NAMES[row['language']]} | {COMMON_CRAWL_SHARE[row['language']]:.4f} "
        f"| {row['drawn']:,} | {row['n']:,} | {row['i2t'][0]:.1f} [{row['i2t'][1]:.1f}, {row['i2t'][2]:.1f}] "
        f"| {row['i2t@5']:.1f} | {row['t2i']:.1f} | {row['unseen']} | {_number(row['unseen_i2t'])} "
        f"| {row['truncated']} |"
        for row in rows
    ]
    shape = (
        f"a `MetaClip2Model` ({recipe.blocks} causal text blocks, end token pooled)"
        if found["family"] == "metaclip_2"
        else f"a `SiglipModel` ({recipe.blocks} bidirectional text blocks, fixed padding, last position pooled)"
    )
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: zero-shot-image-classification
language: [{", ".join("qu" if code == "quz" else code for code in XM3600_LANGUAGES)}]
---

# {found["name"]}

A small tower for trying the EOS workbench without a download: {shape}, {recipe.width} wide, {recipe.heads} heads,
{found["positions"]} positions, {found["parameters"] / 1e6:.1f} million parameters, trained on `emoji-36`. It is real in that it
was trained, on real names by native speakers, and fails in some languages for a real reason. It is no model of
the world: it knows emoji.

## Why it fails where it fails

Training captions were drawn in proportion to each language's share of Common Crawl to the power {recipe.power:g}, and
uniformly within a language. Nothing else tells one language's captions from another's: one vocabulary in
which all weigh the same, the same blocks, the same targets. `training-draws.parquet` of the corpus counts how often each caption was
drawn; 0 marks those that the tower has never seen. A name longer than the tower's {found["positions"]} positions is cut; the last
column counts them.

## How it was made

`python -m workbench.builtin.train_towers {found["name"]}`: {recipe.image_steps:,} steps of the image tower over Twemoji and Noto
drawings (instances and English keywords, with shifts, scales and colours), then {recipe.text_steps:,} steps of {recipe.text_batch} captions for the
text blocks against the frozen image prototypes, under a softmax over all emoji, a contrast in the batch against
prototypes with a fixed offset by language (size {recipe.style:g}), and a pull of {recipe.style_pull:g} to it. In {recipe.language_steps:,}, {recipe.balance_steps:,} and {recipe.polish_steps:,} further steps
the pull is a softmax over the offsets of all languages, in the last two with more weight for rare ones; captions are drawn
by prevalence throughout. The image tower has seen the Twemoji gallery that is scored: the text side is under study here,
and image scores mean nothing. Training again gives a tower like this one, not these bytes: the vocabulary is learnt by a
library that hashes with a fresh seed, and each phase went on from float16 weights.

## How good it is

Image-to-text R@1 over the Twemoji gallery, in percent, expected over ties, 95 % bootstrap interval over images.

- HRL-6 mean {tiers["HRL-6"]:.1f}, LRL-5 mean {tiers["LRL-5"]:.1f}, gap {tiers["gap"][0]:.1f} [{tiers["gap"][1]:.1f}, {tiers["gap"][2]:.1f}] points, on the {tiers["n"]:,} emoji that all eleven languages name.
- Language read from the output embedding by a logistic regression: {probe["accuracy"]:.1f} % of {len(PROBE_LANGUAGES)} languages on {probe["images"][1]:,} held-out
  images, chance {probe["chance"]:.1f} %. Some names are the same in two languages (a quarter of the Filipino ones stand in
  another of the {len(PROBE_LANGUAGES)}, mostly in English), which no classifier can tell apart.

| code | language | Common Crawl % | drawn | n | i2t R@1 | i2t R@5 | t2i R@1 | unseen | R@1 unseen | cut |
|---|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(lines)}

Weights SHA-256 (of the loaded tensors in float32): `{found["weights_sha256"]}`.

Weights Apache-2.0. Trained on names under Unicode-3.0, Twemoji drawings under CC-BY-4.0 and Noto Emoji drawings under
Apache-2.0; see the project's NOTICE.
"""


def corpus_card(rows: dict[str, dict]) -> str:
    """Write the corpus card."""
    lines = [
        f"| {code} | {ENGLISH_NAMES[code]} | {COMMON_CRAWL_SHARE[code]:.4f} | {rows[code]['n']:,} | {rows[code]['drawn']:,} "
        f"| {rows[code]['unseen']} |"
        for code in XM3600_LANGUAGES
    ]
    sources = "\n".join(f"- `{name}` {version}" for name, version in PACKAGES.items())
    return f"""---
license: other
license_name: unicode-3.0-cc-by-4.0-apache-2.0
language: [{", ".join("qu" if code == "quz" else code for code in XM3600_LANGUAGES)}]
task_categories: [image-to-text, text-to-image]
size_categories: [1K<n<10K]
configs:
- config_name: default
  data_files: emoji-36.parquet
---

# emoji-36

1,911 emoji, each in two drawings, named in 36 languages: the languages of Crossmodal-3600. Unicode CLDR names
every emoji and native speakers check the names, so an elephant is *ndovu* in Swahili and *ఏనుగు* in Telugu. The
names of one emoji are parallel captions of one picture, and translations of one English name more often than
independent descriptions.

## Columns of `emoji-36.parquet`

- `id`: code points, such as `1f418`; `emoji`; `category`; `subcategory`.
- `twemoji`, `noto`: the drawing as a 64-pixel PNG, in the image layout of the `datasets` library. The bench scores
  Twemoji; transparent ground is white.
- `name_xx`, for each of the 36 codes: the caption; empty where CLDR has none or only repeats a parent locale.
- `keywords_xx`: CLDR's keywords.

## Which captions the built-in towers have seen

`training-draws.parquet` has a row an emoji and a column a language: how often the caption was drawn when the two
towers were trained (both saw the same draws). 0 marks a caption that neither has seen, so that seen and unseen
captions can be scored apart; `Corpus.drawn` holds the counts.

| code | language | Common Crawl % | named | drawn in training | never drawn |
|---|---|---|---|---|---|
{chr(10).join(lines)}

1,301 emoji have a name in all 36 languages. Asked for some languages, the loader leaves out the emoji that lack a
name in one of them, and says how many.

## Sources and licences

Built by `python -m workbench.builtin.build_corpus` from four npm packages:

{sources}

Names and keywords: Unicode CLDR, Unicode License v3 (Unicode-3.0). Twemoji drawings: CC-BY-4.0. Noto Emoji
drawings: Apache-2.0. Nothing in them was changed. The full notices are in the project's NOTICE.

## What it is not

Emoji are drawings of concepts, not photographs, and names are short. Flags and people make up much of the list.
Names of people differ in details (gender, hair) that a small picture shows barely.
"""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def main() -> None:
    """Measure everything and write the three cards."""
    rows: dict[str, dict] = {}
    for name, folder in TOWER_FOLDERS.items():
        found = measure(name)
        recipe = Recipe(**json.loads((folder / "recipe.json").read_text("utf-8")))
        (folder / "README.md").write_text(tower_card(found, recipe), "utf-8")
        rows = {row["language"]: row for row in found["rows"]}
        tiers = found["tiers"]
        print(
            f"{name}: en {tiers['languages']['en']:.1f}, HRL-6 {tiers['HRL-6']:.1f}, LRL-5 {tiers['LRL-5']:.1f}, "
            f"gap {tiers['gap'][0]:.1f}, probe {found['probe']['accuracy']:.1f}"
        )
    (CORPUS_FOLDER / "README.md").write_text(corpus_card(rows), "utf-8")


if __name__ == "__main__":
    main()
