"""M-CLIP: a multilingual text encoder taught to give the text features of a CLIP (Carlsson et al., 2022).

The model is an XLM-R (or LaBSE), the masked mean of its rows, and one linear layer. It learnt from translated
captions to give what the text side of one CLIP gives for the English ones, and so belongs to the image side of that
CLIP and of no other (S0-72):

=============================== ==================================================
M-CLIP                          image side
=============================== ==================================================
XLM-Roberta-Large-Vit-L-14      openai/clip-vit-large-patch14
XLM-Roberta-Large-Vit-B-32      openai/clip-vit-base-patch32
XLM-Roberta-Large-Vit-B-16Plus  open_clip's ViT-B-16-plus-240, laion400m_e32
LABSE-Vit-L-14                  openai/clip-vit-large-patch14
=============================== ==================================================

The image side is given by name, ``load_tower("M-CLIP/...", images="openai/...")``, and checked; without one the
tower is a text-only encoder. The package of the authors can't load these weights with current ``transformers``, so
they are read here. XLM-R is post-norm and the layer after the mean is linear: a patched mean at depth N is the
donor's embedding exactly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError  # the name alone: nothing is unpickled here
from typing import TYPE_CHECKING, Any, Self

import torch
from jaxtyping import Float, Int
from PIL.Image import Image, new
from torch import Tensor, nn

from workbench.errors import InputError, TowerError
from workbench.towers.base import Tower
from workbench.towers.provenance import Provenance
from workbench.towers.tokens import Tokens, check_captions, content_mask, read_as_text

if TYPE_CHECKING:
    from workbench.towers.source import Source

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Stored by older versions of transformers, computed by newer ones.
_COMPUTED = (".position_ids", ".token_type_ids")
# What `modelBase` names and the repositories do not hold: the config of XLM-R-large.
_XLM_R_LARGE = {
    "model_type": "xlm-roberta", "vocab_size": 250002, "hidden_size": 1024, "num_hidden_layers": 24,
    "num_attention_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 514, "type_vocab_size": 1,
    "layer_norm_eps": 1e-5, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_BASES = {"xlm-roberta-large": _XLM_R_LARGE, "FacebookAI/xlm-roberta-large": _XLM_R_LARGE}
_BASE_TYPES = ("bert", "xlm-roberta")


@dataclass(frozen=True)
class ImageSide:
    """What tells one image tower from another.

    Attributes
    ----------
    size : int
        Side of the images, in pixels.
    patch : int
        Side of a patch, in pixels.
    width : int
        Width of a row.
    blocks : int
    embedding : int
        Width of an embedding.
    """

    size: int
    patch: int
    width: int
    blocks: int
    embedding: int


@dataclass(frozen=True)
class Pair:
    """The image side that a published M-CLIP belongs to.

    Attributes
    ----------
    names : tuple of str
        Hub repositories with those weights, the first to recommend.
    side : ImageSide
    """

    names: tuple[str, ...]
    side: ImageSide


_L14 = Pair(("openai/clip-vit-large-patch14",), ImageSide(224, 14, 1024, 24, 768))
PAIRS = {
    "labse-vit-l-14": _L14,
    "xlm-roberta-large-vit-l-14": _L14,
    "xlm-roberta-large-vit-b-32": Pair(("openai/clip-vit-base-patch32",), ImageSide(224, 32, 768, 12, 512)),
    # open_clip's own table gives epoch 31 for the tag of epoch 32.
    "xlm-roberta-large-vit-b-16plus": Pair(
        (
            "timm/vit_base_patch16_plus_clip_240.laion400m_e32",
            "timm/vit_base_patch16_plus_clip_240.laion400m_e31",
        ),
        ImageSide(240, 16, 896, 12, 640),
    ),
}
"""Published models, by the last part of their name in lower case."""


class MultilingualClip(nn.Module):
    """Encoder, masked mean, linear layer; the names are those of the published weights.

    Parameters
    ----------
    config : PretrainedConfig
        Of the encoder.
    embedding : int
        Width of an embedding.
    pooler : bool
        Whether the weights have BERT's pooler, which nothing uses.
    """

    def __init__(self, config: Any, embedding: int, *, pooler: bool) -> None:
        from transformers import AutoModel

        super().__init__()
        self.config = config
        self.transformer = AutoModel.from_config(config, dtype=torch.float32, add_pooling_layer=pooler)
        self.LinearTransformation = nn.Linear(config.hidden_size, embedding)

    def get_text_features(
        self, input_ids: Int[Tensor, "batch position"], attention_mask: Int[Tensor, "batch position"]
    ) -> Float[Tensor, "batch embedding"]:
        """Embed captions."""
        hidden = self.transformer(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask[..., None].to(hidden.dtype)
        return self.LinearTransformation((hidden * mask).sum(1) / mask.sum(1))


class MultilingualClipTower(Tower):
    """M-CLIP with the image side that it was made for, or with none."""

    family = "M-CLIP"
    causal = False
    pool = "masked mean of all rows; a patch shifts each of them by the same vector"
    strategy = "widen"
    shared_padding = True
    model_classes = ("MultilingualClip",)
    options = ("images", "images_revision")

    def __init__(
        self, name: str, model: nn.Module, tokenizer: Any, provenance: Provenance, images: Tower | None = None
    ) -> None:
        super().__init__(name, model, tokenizer, images and images.image_processor, provenance)
        self.images = images

    @classmethod
    def from_source(
        cls, source: "Source", *, images: str | Path | None = None, images_revision: str | None = None
    ) -> Self:
        """Read the weights, and those of the image side where one is named.

        Parameters
        ----------
        source : Source
        images : str or Path, optional
            Folder or hub id of a dual model; its image side is used.
        images_revision : str, optional
            Commit, tag or branch of that hub id.

        Raises
        ------
        InputError
            If the image side is not the one that this M-CLIP was made for.
        TowerError
            If weights are missing, or the encoder is none that is known.
        """
        if images is None and images_revision is not None:
            raise InputError("images_revision= came without images=. Name the image tower as well.")
        model = read_model(source)
        side = None if images is None else _image_tower(source, model, str(images), images_revision)
        notes = {} if side is None else {"images": f"{side.provenance.source} at {side.provenance.revision}"}
        found = source.provenance(model, **notes)
        if side is not None:
            files = {f"images/{name}": digest for name, digest in side.provenance.files.items()}
            found = replace(found, files={**found.files, **files})
        return cls(source.short, model, source.tokenizer(), found, side)

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        return list(self.model.transformer.encoder.layer)

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens: position ids of XLM-R start after the padding id, which takes two slots."""
        offset = 2 if self.text_config.model_type == "xlm-roberta" else 0
        return self.text_config.max_position_embeddings - offset

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Tokenise, padded on the right to the longest caption, with the padding mask."""
        captions = check_captions(captions, language)
        text = read_as_text(self.tokenizer, captions, language)
        whole = self.tokenizer(captions, truncation=False, verbose=False, **text)["input_ids"]
        encoded = self.tokenizer(
            captions, padding=True, padding_side="right", truncation=True, max_length=self.max_positions,
            return_tensors="pt", **text,
        )  # fmt: skip
        ids, mask = encoded["input_ids"], encoded["attention_mask"]
        return Tokens(
            input_ids=ids,
            pooled=mask.sum(-1) - 1,
            content=content_mask(self.tokenizer, ids) & mask.bool(),
            truncated=torch.tensor([len(row) > self.max_positions for row in whole]),
            attention_mask=mask,
            # Start and end token are averaged too.
            averaged=mask.bool(),
        )

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """The linear layer alone: the last block's output is normalised already."""
        return self.model.LinearTransformation(rows)

    def image_inputs(self, images: list[Image]) -> dict[str, Tensor]:
        """Return what the image side's own pass takes."""
        return self.image_side.image_inputs(images)

    def image_features(self, inputs: dict[str, Tensor]) -> Float[Tensor, "image embedding"]:
        """Run the image side's own pass."""
        return self.image_side.image_features(inputs)

    @property
    def image_side(self) -> Tower:
        """The dual tower whose image side is used."""
        if self.images is None:
            raise InputError(f"{self.name!r} was loaded without an image tower. Name one: load_tower(..., images=...).")
        return self.images

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        yield from super()._weights()
        if self.images is not None:
            yield from ((f"images.{name}", tensor) for name, tensor in self.images._weights())


def read_model(source: "Source") -> MultilingualClip:
    """Read an M-CLIP checkpoint: every weight, and no other."""
    state = _state(source)
    layer = state.get("LinearTransformation.weight")
    if layer is None or layer.ndim != 2:
        raise TowerError(f"{source.name!r} is no M-CLIP: its weights have no LinearTransformation.weight.")
    embedding, width = layer.shape
    config = _base_config(source)
    said = (source.config.get("numDims", embedding), source.config.get("transformerDimensions", width))
    if said != (embedding, width) or config.hidden_size != width:
        raise TowerError(
            f"The config.json of {source.name!r} speaks of {said[1]} dimensions to {said[0]} and of an encoder "
            f"{config.hidden_size} wide, its weights map {width} to {embedding}. They do not belong together."
        )
    model = MultilingualClip(config, embedding, pooler=any(name.startswith("transformer.pooler.") for name in state))
    known = set(model.state_dict())
    state = {name: value for name, value in state.items() if name in known or not name.endswith(_COMPUTED)}
    try:
        model.load_state_dict(state, strict=True)
    except RuntimeError as error:
        reason = " ".join(line.strip() for line in str(error).splitlines()[1:3])[:300]
        raise TowerError(f"The weights of {source.name!r} are not those of an M-CLIP of its config: {reason}") from None
    return model.to(source.device, source.dtype)


def _state(source: "Source") -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = next((found for name in _WEIGHTS if (found := source.find(name)) is not None), None)
    if path is None:
        raise TowerError(f"{source.name!r} holds no weights: it has neither {' nor '.join(_WEIGHTS)}.")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError, UnpicklingError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TowerError(
            f"The weights of {source.name!r} ({path.name}) can't be read: {reason[:200]} They must be safetensors, or "
            "a pickle of plain tensors."
        ) from None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise TowerError(f"The weights of {source.name!r} ({path.name}) are no mapping of names to tensors.")
    return state


def _base_config(source: "Source") -> Any:
    """Return the encoder's config: the checkpoint's own, a known one, or that of the model it names."""
    from transformers import AutoConfig

    own = dict(source.config)
    name = str(own.get("modelBase", "xlm-roberta-large"))
    if "num_hidden_layers" in own:
        # Some copies carry the encoder's fields in their own config.
        fields = {key: value for key, value in own.items() if key not in ("model_type", "architectures")}
        return AutoConfig.for_model("xlm-roberta", **fields)
    beside = source.read_json(f"{Path(name).name}/config.json")
    if known := beside or _BASES.get(name):
        return AutoConfig.for_model(**known)
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise TowerError(
            f"{source.name!r} is built on {name!r}, whose config can't be read: {reason} Put that model's config.json "
            f"in the folder {Path(name).name!r} inside the checkpoint."
        ) from None
    if config.model_type not in _BASE_TYPES:
        raise TowerError(f"{source.name!r} is built on a {config.model_type!r}; known are {' and '.join(_BASE_TYPES)}.")
    return config


def _image_tower(source: "Source", model: MultilingualClip, images: str, revision: str | None) -> Tower:
    from workbench.towers.loading import load_tower

    tower = load_tower(images, revision=revision, dtype=source.dtype, device=source.device)
    if not tower.has_images:
        raise InputError(f"images={images!r} is a {tower.family} tower without an image side. Name a dual model.")
    check_pair(
        source.name, model.LinearTransformation.out_features, images, side_of(tower), hub=not Path(images).is_dir()
    )
    return tower


def side_of(tower: Tower) -> ImageSide:
    """Return what tells the image side of a tower from others; 0 for what it does not say."""
    embedding = tower.encode_images([new("RGB", (32, 32))]).shape[1]
    config = getattr(getattr(tower.model, "config", None), "vision_config", None)
    if config is not None:
        fields = ("image_size", "patch_size", "hidden_size", "num_hidden_layers")
        size, patch, width, blocks = (int(getattr(config, field, 0)) for field in fields)
        return ImageSide(size, patch, width, blocks, embedding)
    visual = getattr(tower.model, "visual", None)
    size, patch = (getattr(visual, name, 0) for name in ("image_size", "patch_size"))
    size, patch = (value[0] if isinstance(value, tuple) else value for value in (size, patch))
    stack = getattr(visual, "transformer", None)
    return ImageSide(
        int(size or 0), int(patch or 0), getattr(stack, "width", 0), getattr(stack, "layers", 0), embedding
    )


def check_pair(text: str, embedding: int, images: str, side: ImageSide, *, hub: bool) -> None:
    """Refuse an image side that an M-CLIP was not made for.

    Parameters
    ----------
    text : str
        Name of the M-CLIP; a published one is known by the last part of it.
    embedding : int
        Width of the text embeddings.
    images : str
        Name of the image tower.
    side : ImageSide
        What it is.
    hub : bool
        Whether ``images`` is a hub id: then the name must fit as well.

    Raises
    ------
    InputError
        If the two do not belong together.
    """
    pair = PAIRS.get(Path(text).name.lower())
    advice = f" It belongs to {pair.names[0]!r}." if pair else ""
    if side.embedding != embedding:
        raise InputError(
            f"{text!r} gives embeddings of {embedding} dimensions and the image tower {images!r} of {side.embedding}: "
            f"they do not share a space.{advice}"
        )
    if pair and side != pair.side:
        raise InputError(
            f"{text!r} was not made for {images!r} (images of {side.size} pixels, patches of {side.patch}, "
            f"{side.blocks} blocks of width {side.width}).{advice}"
        )
    if pair and hub and images not in pair.names:
        raise InputError(
            f"{text!r} was not made for {images!r}, which has the right shape but other weights.{advice} A copy of it "
            "can be given as a folder."
        )
