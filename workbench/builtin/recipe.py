"""What the built-in towers are made of: sizes, tokenisers, and the captions drawn in training.

The gap between languages has one cause. A language is drawn in proportion to its share of Common Crawl
to the power :attr:`Recipe.power`; within a language every emoji is equally likely. The vocabulary is
learnt with each language weighing the same, and the blocks and targets are the same for all. A caption's
target carries a small offset by language, of one size for all, which the scored gallery does not have.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    CLIPImageProcessorPil,
    MetaClip2Config,
    MetaClip2Model,
    PreTrainedTokenizerFast,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
)

from workbench.languages import COMMON_CRAWL_SHARE, XM3600_LANGUAGES


@dataclass(frozen=True)
class Recipe:
    """Every number that the training script uses."""

    power: float = 0.35
    vocabulary: int = 24_000
    positions: int = 16
    blocks: int = 12
    width: int = 96
    mlp: int = 288
    heads: int = 4
    image_blocks: int = 4
    image_width: int = 128
    image_mlp: int = 384
    image_size: int = 48
    patch_size: int = 12
    image_steps: int = 2200
    image_batch: int = 256
    text_steps: int = 6000
    text_batch: int = 256
    learning_rate: float = 1e-3
    warmup: int = 200
    keyword_share: float = 0.4
    style: float = 0.5
    style_pull: float = 0.3
    language_steps: int = 1600
    language_rate: float = 7e-4
    language_weight: float = 1.0
    balance_steps: int = 1400
    balance_weight: float = 2.0
    polish_steps: int = 800
    polish_rate: float = 5e-4
    polish_weight: float = 3.0
    seed: int = 0


@dataclass(frozen=True)
class Captions:
    """Names and keywords by language; ``None`` where an emoji has no name."""

    ids: list[str]
    names: dict[str, list[str | None]]
    keywords: dict[str, list[list[str]]]


def read_captions(path: Path) -> Captions:
    """Read the captions of the built corpus."""
    table = pq.read_table(path)
    return Captions(
        ids=table["id"].to_pylist(),
        names={language: table[f"name_{language}"].to_pylist() for language in XM3600_LANGUAGES},
        keywords={language: table[f"keywords_{language}"].to_pylist() for language in XM3600_LANGUAGES},
    )


PHASES = ("captions", "languages", "balance", "polish")
"""The phases in which the text blocks are trained; each draws captions of its own."""


def steps_of(phase: str, recipe: Recipe) -> int:
    """Return how many steps a phase of text training has."""
    return {
        "captions": recipe.text_steps,
        "languages": recipe.language_steps,
        "balance": recipe.balance_steps,
        "polish": recipe.polish_steps,
    }[phase]


def language_odds(recipe: Recipe) -> np.ndarray:
    """Return how likely each of ``XM3600_LANGUAGES`` is drawn: its share of Common Crawl to a power."""
    weight = np.array([COMMON_CRAWL_SHARE[language] for language in XM3600_LANGUAGES]) ** recipe.power
    return weight / weight.sum()


def draw_captions(captions: Captions, recipe: Recipe, phase: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw every training caption of a phase beforehand, so that both towers see the same ones.

    Returns
    -------
    language : int array of shape (steps * text_batch,)
        Index into ``XM3600_LANGUAGES``.
    emoji : int array, same shape
        Row of the corpus.
    seed : uint64 array, same shape
        Decides whether keywords join the name, and which.
    """
    generator = np.random.default_rng(np.random.SeedSequence([recipe.seed, 1 + 3 * PHASES.index(phase)]))
    n = steps_of(phase, recipe) * recipe.text_batch
    language = generator.choice(len(XM3600_LANGUAGES), size=n, p=language_odds(recipe))
    emoji = np.empty(n, dtype=np.int64)
    for index, code in enumerate(XM3600_LANGUAGES):
        named = np.array([row for row, name in enumerate(captions.names[code]) if name])
        here = np.flatnonzero(language == index)
        # A reshuffled deck would give each caption its turn; independent draws leave some unseen, as
        # on the web.
        emoji[here] = generator.choice(named, size=len(here))
    return language, emoji, generator.integers(0, 2**63, size=n, dtype=np.uint64)


def compose(name: str, keywords: list[str], seed: int, recipe: Recipe) -> str:
    """Write one training caption: the name, or the name among one to three of its keywords."""
    generator = np.random.default_rng(seed)
    others = [word for word in keywords if word != name]
    if not others or generator.random() >= recipe.keyword_share:
        return name
    count = int(generator.integers(1, min(3, len(others)) + 1))
    words = [others[index] for index in generator.permutation(len(others))[:count]]
    words.insert(int(generator.integers(0, len(words) + 1)), name)
    return ", ".join(words)


def train_vocabulary(captions: Captions, recipe: Recipe) -> list[tuple[str, float]]:
    """Learn one unigram vocabulary in which every language weighs the same."""
    texts: list[str] = []
    for code in XM3600_LANGUAGES:
        lines = [name for name in captions.names[code] if name]
        lines += [", ".join(words) for words in captions.keywords[code] if words]
        size = sum(len(line) for line in lines)
        # Repeat short languages until each gives about the same number of characters.
        repeats = max(1, round(160_000 / size))
        texts += lines * repeats
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = _normalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer=trainer)
    return [(piece, score) for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]]


def _normalizer() -> normalizers.Normalizer:
    return normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(r"\s+"), " ")])


def causal_tokenizer(vocabulary: list[tuple[str, float]], recipe: Recipe) -> PreTrainedTokenizerFast:
    """Build the MetaCLIP-2 tokeniser: ``<s> caption </s>``, padded on the right."""
    return _tokenizer(
        vocabulary,
        recipe,
        template="<s> $A </s>",
        bos_token="<s>",
        pad_token="<pad>",
        model_input_names=["input_ids", "attention_mask"],
    )


def bidirectional_tokenizer(vocabulary: list[tuple[str, float]], recipe: Recipe) -> PreTrainedTokenizerFast:
    """Build the SigLIP tokeniser: ``caption </s>``, padded with ``</s>``, no attention mask."""
    return _tokenizer(vocabulary, recipe, template="$A </s>", pad_token="</s>", model_input_names=["input_ids"])


def _tokenizer(
    vocabulary: list[tuple[str, float]], recipe: Recipe, *, template: str, **special: Any
) -> PreTrainedTokenizerFast:
    # Not XLMRobertaTokenizer: its loader builds the normaliser anew and forgets that this one lower-cases.
    backend = Tokenizer(models.Unigram(vocabulary, unk_id=3))
    backend.normalizer = _normalizer()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.post_processor = processors.TemplateProcessing(single=template, special_tokens=[("<s>", 0), ("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=recipe.positions,
        padding_side="right",
        **special,
    )


def causal_model(recipe: Recipe, vocabulary_size: int) -> MetaClip2Model:
    """Build the untrained ``emoji-causal``."""
    return MetaClip2Model(
        MetaClip2Config(
            text_config={
                "vocab_size": vocabulary_size,
                "hidden_size": recipe.width,
                "intermediate_size": recipe.mlp,
                "num_hidden_layers": recipe.blocks,
                "num_attention_heads": recipe.heads,
                "max_position_embeddings": recipe.positions,
                "projection_dim": recipe.image_width,
                "hidden_act": "gelu",
                "bos_token_id": 0,
                "pad_token_id": 1,
                "eos_token_id": 2,
            },
            vision_config={**_vision(recipe), "projection_dim": recipe.image_width},
            projection_dim=recipe.image_width,
        )
    )


def bidirectional_model(recipe: Recipe, vocabulary_size: int) -> SiglipModel:
    """Build the untrained ``emoji-bidirectional``."""
    return SiglipModel(
        SiglipConfig(
            text_config={
                "vocab_size": vocabulary_size,
                "hidden_size": recipe.width,
                "intermediate_size": recipe.mlp,
                "num_hidden_layers": recipe.blocks,
                "num_attention_heads": recipe.heads,
                "max_position_embeddings": recipe.positions,
                "projection_size": recipe.image_width,
                "pad_token_id": 2,
                "bos_token_id": 0,
                "eos_token_id": 2,
            },
            vision_config=_vision(recipe),
        )
    )


def _vision(recipe: Recipe) -> dict[str, object]:
    return {
        "hidden_size": recipe.image_width,
        "intermediate_size": recipe.image_mlp,
        "num_hidden_layers": recipe.image_blocks,
        "num_attention_heads": recipe.heads,
        "image_size": recipe.image_size,
        "patch_size": recipe.patch_size,
        "hidden_act": "gelu",
    }


def causal_image_processor(recipe: Recipe) -> CLIPImageProcessorPil:
    """Resize to the tower's square and scale to [-1, 1]; the drawings are square already."""
    side = {"height": recipe.image_size, "width": recipe.image_size}
    return CLIPImageProcessorPil(
        size=side, crop_size=side, do_center_crop=False, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )


def bidirectional_image_processor(recipe: Recipe) -> SiglipImageProcessorPil:
    """As for the causal tower, in SigLIP's own class."""
    side = {"height": recipe.image_size, "width": recipe.image_size}
    return SiglipImageProcessorPil(size=side, image_mean=[0.5] * 3, image_std=[0.5] * 3)
