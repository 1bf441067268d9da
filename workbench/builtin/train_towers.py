"""Train ``emoji-causal`` and ``emoji-bidirectional`` on two CPU cores.

First the image tower learns to tell the emoji apart, over both drawings, from random shifts, scales and
colours, and from English keywords. Its frozen embeddings give each emoji a prototype. Then the text blocks
learn to reach the prototypes from captions in 36 languages, drawn by prevalence
(:mod:`workbench.builtin.recipe`), under three losses:

- a softmax over all emoji, which teaches what the caption names;
- a contrast inside the batch against prototypes that carry a small fixed offset for each language. Web
  images have a style of their own by language; without one, a tower has no reason to encode language;
- a light pull towards that offset.

In three shorter phases after that, the pull is a softmax over the offsets of all languages, in the last two with
more weight for rare ones. The contrast alone leaves the language readable to two thirds; large towers, which
see whole sentences, let a linear probe read it at over 99 %.

The towers are scored on the neutral Twemoji gallery, without any offset. Run::

    python -m workbench.builtin.train_towers emoji-causal
"""

import argparse
import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from tqdm.auto import tqdm

from workbench.builtin import CORPUS_FILE, DRAWS_FILE, TOWER_FOLDERS
from workbench.builtin import recipe as recipes
from workbench.builtin.recipe import Captions, Recipe
from workbench.corpora.images import open_image
from workbench.languages import XM3600_LANGUAGES

log = logging.getLogger(__name__)


def load_pixels(recipe: Recipe) -> tuple[Tensor, list[list[str]]]:
    """Read both drawings as the tower's processor shows them, and the English keywords.

    Returns
    -------
    pixels : float tensor of shape (2, emoji, 3, size, size)
        Twemoji first, then Noto.
    keywords : list of list of str
    """
    table = pq.read_table(CORPUS_FILE, columns=["twemoji", "noto", "keywords_en"])
    processor = recipes.causal_image_processor(recipe)
    drawings = []
    for column in ("twemoji", "noto"):
        images: list[Image.Image] = [open_image(cell["bytes"]) for cell in table[column].to_pylist()]
        drawings.append(processor(images, return_tensors="pt")["pixel_values"])
    return torch.stack(drawings), table["keywords_en"].to_pylist()


def augment(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Shift, scale and recolour a batch of images on their white ground."""
    n = len(pixels)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=generator)

    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0] = theta[:, 1, 1] = uniform(0.95, 1.15, n)
    theta[:, :, 2] = uniform(-0.08, 0.08, n, 2)
    grid = functional.affine_grid(theta, list(pixels.shape), align_corners=False)
    # White is 1 after the processor; shifting it to 0 makes the padding of the warp white too.
    moved = functional.grid_sample(pixels - 1, grid, align_corners=False) + 1
    gain, bias = uniform(0.85, 1.15, n, 3, 1, 1), uniform(-0.1, 0.1, n, 3, 1, 1)
    return moved * gain + bias + 0.05 * torch.randn(moved.shape, generator=generator)


def train_images(model: Any, recipe: Recipe) -> None:
    """Train the image tower on instances and English keywords."""
    pixels, keywords = load_pixels(recipe)
    emoji = pixels.shape[1]
    words = sorted({word for line in keywords for word in line})
    counts = {word: sum(word in line for line in keywords) for word in words}
    column = {word: k for k, word in enumerate(w for w in words if counts[w] >= 2)}
    labels = torch.zeros(emoji, len(column))
    for row, line in enumerate(keywords):
        labels[row, [column[word] for word in line if word in column]] = 1
    generator = torch.Generator().manual_seed(recipe.seed + 2)
    classes = nn.Parameter(torch.randn(emoji, recipe.image_width, generator=generator))
    keyword_head = nn.Linear(recipe.image_width, len(column))
    scale = nn.Parameter(torch.tensor(2.5))
    trained = [p for name, p in model.named_parameters() if name.startswith(("vision_model", "visual_projection"))]
    trained += [classes, scale, *keyword_head.parameters()]
    optimiser, schedule = _optimiser(trained, recipe.image_steps, recipe)
    model.train()
    for step in tqdm(range(recipe.image_steps), desc="image tower"):
        rows = torch.randint(emoji, (recipe.image_batch,), generator=generator)
        drawing = torch.randint(2, (recipe.image_batch,), generator=generator)
        batch = augment(pixels[drawing, rows], generator)
        embedding = functional.normalize(model.get_image_features(pixel_values=batch).pooler_output, dim=-1)
        logits = scale.exp() * embedding @ functional.normalize(classes, dim=-1).T
        loss = functional.cross_entropy(logits, rows)
        loss = loss + 0.3 * functional.binary_cross_entropy_with_logits(
            keyword_head(8 * embedding), labels[rows], pos_weight=torch.tensor(20.0)
        )
        _step(loss, trained, optimiser, schedule)
        if step % 250 == 0:
            log.info("image step %d: loss %.3f", step, float(loss.detach()))
    model.eval()


@torch.no_grad()
def image_prototypes(model: Any, recipe: Recipe) -> Tensor:
    """Embed both drawings of each emoji; return the unit mean of the two, shape (emoji, width)."""
    pixels, _ = load_pixels(recipe)
    views = [
        functional.normalize(
            torch.cat([model.get_image_features(pixel_values=part).pooler_output for part in side.split(256)]),
            dim=-1,
        )
        for side in pixels
    ]
    prototypes = functional.normalize(views[0] + views[1], dim=-1)
    match = (prototypes @ views[0].T).argmax(-1).eq(torch.arange(len(prototypes))).double().mean()
    log.info("a prototype finds its Twemoji: %.3f", float(match))
    return prototypes


def language_styles(recipe: Recipe) -> Tensor:
    """Draw one fixed unit direction a language, orthogonal to one another."""
    generator = torch.Generator().manual_seed(recipe.seed + 3)
    gaussian = torch.randn(recipe.image_width, len(XM3600_LANGUAGES), generator=generator)
    return torch.linalg.qr(gaussian).Q.T.contiguous()


def train_text(model: Any, tokenizer: Any, prototypes: Tensor, captions: Captions, recipe: Recipe, phase: str) -> None:
    """Train the text blocks, embeddings and head against the frozen prototypes, for one phase."""
    language, emoji, seeds = recipes.draw_captions(captions, recipe, phase)
    styles = language_styles(recipe)
    trained = [p for name, p in model.named_parameters() if name.startswith(("text_model", "text_projection"))]
    first = 2.5 if phase == "captions" else float(model.logit_scale)
    scales = nn.Parameter(torch.tensor([first, first, 2.5]))
    trained.append(scales)
    steps = recipes.steps_of(phase, recipe)
    peak = {"captions": recipe.learning_rate, "polish": recipe.polish_rate}.get(phase, recipe.language_rate)
    optimiser, schedule = _optimiser(trained, steps, recipe, peak)
    masked = "attention_mask" in tokenizer.model_input_names
    weight, by_language = recipe.language_weight, None
    if phase in ("balance", "polish"):
        # Rare languages weigh more, in this loss alone: it says which language is spoken, not what of.
        weight = recipe.balance_weight if phase == "balance" else recipe.polish_weight
        by_language = torch.from_numpy(recipes.language_odds(recipe) ** -0.5).float()
    model.train()
    for step in tqdm(range(steps), desc=f"text blocks, {phase}"):
        part = slice(step * recipe.text_batch, (step + 1) * recipe.text_batch)
        texts = []
        for index, row, seed in zip(language[part], emoji[part], seeds[part], strict=True):
            code = XM3600_LANGUAGES[index]
            texts.append(recipes.compose(captions.names[code][row], captions.keywords[code][row], seed, recipe))
        tokens = tokenizer(
            texts,
            padding=True if masked else "max_length",
            max_length=recipe.positions,
            truncation=True,
            return_tensors="pt",
        )
        embedding = functional.normalize(model.get_text_features(input_ids=tokens["input_ids"]).pooler_output, dim=-1)
        target, spoken = torch.from_numpy(emoji[part]), torch.from_numpy(language[part])
        named = functional.cross_entropy(scales[0].exp() * embedding @ prototypes.T, target)
        styled = functional.normalize(prototypes[target] + recipe.style * styles[spoken], dim=-1)
        logits = scales[1].exp() * embedding @ styled.T
        # The same emoji in the same language is the same picture, not a negative.
        same = (target[:, None] == target) & (spoken[:, None] == spoken)
        logits = logits.masked_fill(same & ~torch.eye(len(same), dtype=torch.bool), -torch.inf)
        contrast = functional.cross_entropy(logits, torch.arange(len(logits)))
        if phase == "captions":
            pull = recipe.style_pull * (1 - (embedding * styled).sum(-1)).mean()
        else:
            spoken_logits = scales[2].exp() * embedding @ styles.T
            pull = weight * functional.cross_entropy(spoken_logits, spoken, weight=by_language)
        _step(named + contrast + pull, trained, optimiser, schedule)
        if step % 250 == 0:
            losses = [float(loss.detach()) for loss in (named, contrast, pull)]
            log.info("%s step %d: emoji %.3f, contrast %.3f, pull %.3f", phase, step, *losses)
    model.eval()
    with torch.no_grad():
        model.logit_scale.copy_(scales[0])


def _optimiser(parameters: list, steps: int, recipe: Recipe, peak: float | None = None):
    optimiser = torch.optim.AdamW(parameters, lr=peak or recipe.learning_rate, weight_decay=0.01, fused=True)
    warm = min(recipe.warmup, max(1, steps // 5))

    def rate(step: int) -> float:
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + np.cos(np.pi * (step - warm) / max(1, steps - warm)))

    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, rate)


def _step(loss: Tensor, parameters: list, optimiser, schedule) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimiser.step()
    schedule.step()


def write_draws(captions: Captions, recipe: Recipe, path: Path) -> None:
    """Record how often each caption was drawn, so that unseen captions can be scored apart."""
    counts = np.zeros((len(XM3600_LANGUAGES), len(captions.ids)), dtype=np.int32)
    for phase in recipes.PHASES:
        language, emoji, _ = recipes.draw_captions(captions, recipe, phase)
        np.add.at(counts, (language, emoji), 1)
    columns = {"emoji_id": pa.array(captions.ids)}
    columns |= {code: pa.array(row) for code, row in zip(XM3600_LANGUAGES, counts, strict=True)}
    pq.write_table(pa.table(columns), path, compression="zstd")


def train(
    name: str,
    out: Path,
    vocabulary: list[tuple[str, float]],
    recipe: Recipe,
    start: Path | None = None,
    done: tuple[str, ...] = (),
) -> None:
    """Train one tower and save it as a model folder that ``from_pretrained`` loads.

    Each phase starts from the float16 tower that the one before saved, so that a killed training can go on:
    ``start`` names such a tower and ``done`` the phases behind it.
    """
    torch.manual_seed(recipe.seed)
    captions = recipes.read_captions(CORPUS_FILE)
    causal = name == "emoji-causal"
    model: Any = (recipes.causal_model if causal else recipes.bidirectional_model)(recipe, len(vocabulary))
    tokenizer = (recipes.causal_tokenizer if causal else recipes.bidirectional_tokenizer)(vocabulary, recipe)
    images = (recipes.causal_image_processor if causal else recipes.bidirectional_image_processor)(recipe)

    def save() -> None:
        out.mkdir(parents=True, exist_ok=True)
        half = {key: value.half() if value.is_floating_point() else value for key, value in model.state_dict().items()}
        model.save_pretrained(out, state_dict=half)
        tokenizer.save_pretrained(out)
        images.save_pretrained(out)
        (out / "recipe.json").write_text(json.dumps(dataclasses.asdict(recipe), indent=2) + "\n", "utf-8")
        (out / "model.safetensors").chmod(0o644)

    if start is None:
        train_images(model, recipe)
    for phase in recipes.PHASES:
        if phase in done:
            continue
        if start is not None:
            model = type(model).from_pretrained(start, dtype=torch.float32)
        train_text(model, tokenizer, image_prototypes(model, recipe), captions, recipe, phase)
        save()
        start = out


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(description="Train a built-in tower.")
    parser.add_argument("name", choices=sorted(TOWER_FOLDERS))
    parser.add_argument("--out", type=Path, help="folder to write; default: where the bench looks")
    parser.add_argument("--pieces", type=Path, help="JSON [[piece, score], ...] to use again")
    parser.add_argument("--start", type=Path, help="a tower to go on from, with --done")
    parser.add_argument("--done", nargs="*", default=[], choices=recipes.PHASES, help="phases that it has behind it")
    parser.add_argument("--threads", type=int, default=2)
    for field in dataclasses.fields(Recipe):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    arguments = vars(parser.parse_args())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(arguments.pop("threads"))
    name, out, pieces_file = arguments.pop("name"), arguments.pop("out"), arguments.pop("pieces")
    start, done = arguments.pop("start"), tuple(arguments.pop("done"))
    recipe = Recipe(**arguments)
    captions = recipes.read_captions(CORPUS_FILE)
    # Learning the vocabulary is the one step that is not reproducible to the bit (the library hashes
    # with a fresh seed), so the shipped towers share one vocabulary, kept in their tokenizer.json.
    pieces = (
        [tuple(pair) for pair in json.loads(pieces_file.read_text("utf-8"))]
        if pieces_file
        else recipes.train_vocabulary(captions, recipe)
    )
    train(name, out or TOWER_FOLDERS[name], pieces, recipe, start, done)
    write_draws(captions, recipe, DRAWS_FILE)


if __name__ == "__main__":
    main()
