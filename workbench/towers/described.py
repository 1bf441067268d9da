"""The tower that a description file describes (:mod:`workbench.towers.description`).

Nothing in the file is believed that can be measured. When a tower is loaded, the class is looked up among those
of ``transformers``, the paths are walked as modules, and then three things are tried on real tokens: that the norm
turns the last block's output into the model's last hidden state, that the tower is causal where the file says so,
and that depth-N rows give the model's own embedding. What can't be measured is what the model was trained with: a
wrong template or pooling rule gives another model's embeddings, and no error.
"""

import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from jaxtyping import Bool, Float, Int
from PIL.Image import Image, Resampling
from torch import Tensor, nn
from torch.nn import functional

from workbench.errors import InputError, TowerError
from workbench.hooks import Hidden, HookManager, Where, pick
from workbench.towers.description import Description, Pooling, read_description
from workbench.towers.language_model import APPENDABLE, LanguageModelTower, last_of
from workbench.towers.prompts import tokenize_in_prompt
from workbench.towers.provenance import Provenance
from workbench.towers.qwen import grid_tokens
from workbench.towers.tokens import Tokens

if TYPE_CHECKING:
    from workbench.towers.source import Source

_POOL = {
    "last": "last token",
    "mean": "masked mean of all rows; a patch shifts each of them by the same vector",
    "first": "first row",
    "eos": "first end token after the caption",
    "cls": "class token before the caption",
}


class DescribedTower(LanguageModelTower):
    """Any model that a description file describes."""

    family = "described"
    model_classes = ()  # the one that the file names
    options = ("checkpoint",)

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        image_processor: Any,
        provenance: Provenance,
        description: Description,
    ) -> None:
        self.model_classes = (type(model).__name__,)
        super().__init__(description.name, model, tokenizer, image_processor, provenance)
        self.description = description
        self.prompt, self.side = description.prompt, description.padding_side
        if description.images is not None and description.image_prompt is not None:
            self.image_prompt, self.image_token = description.image_prompt, description.images.token
        self.pool, self.causal = _POOL[description.pooling], description.causal
        self.shared_padding = self.side == "right"  # padding before a caption can't be cut behind it
        blocks = self._module("blocks", description.blocks)
        if not isinstance(blocks, nn.ModuleList | nn.Sequential) or not len(blocks):
            lists = [path for path, module in self.model.named_modules() if isinstance(module, nn.ModuleList)]
            raise TowerError(
                f"The description {self.name!r} has blocks = {description.blocks!r}, a {type(blocks).__name__} and no "
                f"list of blocks. The lists of this model: {', '.join(lists) or '(none)'}."
            )
        self._blocks = list(blocks)
        self._norm = self._module("norm", description.norm) if description.norm else nn.Identity()
        self._projection = (
            self._module("projection", description.projection) if description.projection else nn.Identity()
        )
        self._prove()
        self.strategy = "append" if self._appendable() else "widen"

    @classmethod
    def from_source(cls, source: "Source", *, checkpoint: str | None = None) -> Self:
        """Read a description file and load what it describes.

        Parameters
        ----------
        source : Source
            Whose location is the file.
        checkpoint : str, optional
            Another copy of the weights, such as a local folder.

        Raises
        ------
        InputError
            If the file can't be used, or the model needs remote code and the flag was not given.
        TowerError
            If the model is not as described.
        """
        path = Path(source.location)
        description = read_description(path)
        if checkpoint is not None:
            here = Path(checkpoint).expanduser()
            description = dataclasses.replace(
                description, checkpoint=str(here.absolute() if here.is_dir() else checkpoint)
            )
        description = dataclasses.replace(description, name=description.name or path.stem)
        if description.remote_code and not source.remote_code:
            raise InputError(
                f"{description.name!r} needs Python code from the repository {description.checkpoint!r}, which can do "
                "on this machine whatever you can. Read it, name a commit as `revision` in the description, and load "
                "with remote_code=True."
            )
        of = _checkpoint(source, description, path.parent)
        parts = of
        if description.processor is not None:
            other = dataclasses.replace(description, checkpoint=description.processor, revision=None)
            parts = _checkpoint(source, other, path.parent)
        name, options = _model_class(description)
        model = of.model(name, **options)
        images = parts.image_processor() if description.images is not None else None
        # Another template over the same weights is another tower.
        files = source.files()
        notes = {"description": path.name, "description_sha256": files[path.name], "checkpoint": of.name}
        found = of.provenance(model, **notes)
        files |= found.files
        if parts is not of:
            files |= {f"processor/{name}": digest for name, digest in parts.files().items()}
            found = dataclasses.replace(found, notes={**found.notes, "processor": f"{parts.name} at {parts.commit}"})
        provenance = dataclasses.replace(found, source=source.name, files=files)
        return cls(model, parts.tokenizer(), images, provenance, description)

    # -- where things are ----------------------------------------------------------------------------

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        return self._blocks

    @property
    def norm(self) -> nn.Module:
        """The norm after the last block."""
        return self._norm

    @property
    def text_config(self) -> Any:
        """The config of the text side."""
        return self.model.config.get_text_config()

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens, what stands around it included."""
        limits = [self.description.max_length, getattr(self.text_config, "max_position_embeddings", None)]
        known = [limit for limit in limits if limit is not None]
        if not known:
            raise TowerError(f"{self.name!r} has no position table. Say in its description how long: max_length = 512.")
        return min(known)

    def _module(self, key: str, path: str) -> nn.Module:
        found: nn.Module = self.model
        steps = path.split(".")
        for place, step in enumerate(steps):
            child = found._modules.get(step)
            if child is None:
                at = ".".join(steps[:place])
                children = [name for name, _ in found.named_children()]
                raise TowerError(
                    f"The description {self.name!r} has {key} = {path!r}, which is no module of a "
                    f"{type(self.model).__name__}: there is no {step!r}. {'Under ' + repr(at) if at else 'It'} has "
                    f"{', '.join(children) or 'no modules'}."
                )
            found = child
        return found

    def _appendable(self) -> bool:
        """Whether the engine can append patched rows: one row is pooled, and its prefix is all that it sees."""
        config = self.text_config
        window = getattr(config, "sliding_window", None)
        whole = window is None or window >= self.max_positions
        return self.causal and self.description.pooling != "mean" and config.model_type in APPENDABLE and whole

    # -- text ----------------------------------------------------------------------------------------

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Put captions into the template; one that is too long loses its own end, never the template's."""
        found = tokenize_in_prompt(self.tokenizer, captions, language, self.prompt, self.max_positions, self.side)
        pooled = self._pooled(self.description.pooling, found.input_ids, found.attention_mask, found.ending)
        averaged = found.attention_mask.bool() if self.description.pooling == "mean" else None
        return Tokens(found.input_ids, pooled, found.content, found.truncated, found.attention_mask, averaged)

    def _pooled(
        self,
        pooling: Pooling,
        ids: Int[Tensor, "batch position"],
        mask: Int[Tensor, "batch position"],
        ending: Bool[Tensor, "batch position"],
    ) -> Int[Tensor, " batch"]:
        """Return the position of the pooled row; of a mean, the last of its rows."""
        if pooling in ("last", "mean"):
            return last_of(mask)
        if pooling == "first":
            return mask.argmax(-1)
        wanted = self.tokenizer.eos_token_id if pooling == "eos" else self.tokenizer.cls_token_id
        found = (ids == wanted) & mask.bool() & (ending if pooling == "eos" else ~ending)
        if not found.any(-1).all():
            raise TowerError(
                f"The description {self.name!r} has pooling = {pooling!r}, and there is no such token (id {wanted}) "
                f"{'after' if pooling == 'eos' else 'before'} the caption. Write it into the template, or pool another "
                "row."
            )
        return found.int().argmax(-1)

    def model_inputs(self, tokens: Tokens) -> dict[str, Any]:
        """Return the keyword arguments of the model's pass: those of the file too, and no cache."""
        inputs = {name: value for name, value in super().model_inputs(tokens).items() if name != "use_cache"}
        return self._constants() | inputs

    def _constants(self) -> dict[str, Any]:
        # An encoder has no cache to keep. What a repository's own code takes is for the file to say.
        keeps = getattr(self.text_config, "use_cache", False) and not self.description.remote_code
        return {**self.description.inputs, **({"use_cache": False} if keeps else {})}

    def _last_hidden(self, output: Any) -> Hidden:
        hidden = getattr(output, self.description.output, None)
        if not isinstance(hidden, Tensor):
            there = ", ".join(output.keys()) if hasattr(output, "keys") else type(output).__name__
            raise TowerError(
                f"A {type(self.model).__name__} gives no {self.description.output!r}; its output has: {there}. Name "
                "the class without the generator's head as model_class, or the field as output."
            )
        return hidden

    def embedding(self, output: Any, tokens: Tokens) -> Float[Tensor, "batch embedding"]:
        """Pool the model's own last hidden state, and project."""
        return self._projected(pick(self._last_hidden(output), tokens.where("pooled")))

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Final norm and projection, and length one where the file says so."""
        return self._projected(self.norm(rows))

    def finish(self, hidden: Hidden, where: Where) -> Float[Tensor, "batch embedding"]:
        """Norm every row, pool, then project."""
        return self._projected(pick(self.norm(hidden), where))

    def _projected(self, rows: Tensor) -> Tensor:
        rows = self._projection(rows)
        return functional.normalize(rows, dim=-1) if self.description.normalise else rows

    # -- images --------------------------------------------------------------------------------------

    def image_inputs(self, images: list[Image]) -> dict[str, Any]:
        """Return what the image processor makes of images, and the template in which each stands."""
        said = self.description.images
        if said is None:
            raise InputError(f"The description {self.name!r} says nothing of images.")
        pictures = [image.convert("RGB") for image in images]
        if said.size:
            pictures = [image.resize((said.size[1], said.size[0]), Resampling.BICUBIC) for image in pictures]
        found = dict(self.image_processor(pictures, return_tensors="pt", **said.options))
        ids, mask = self.prompts_with_images(self._image_counts(found, len(images)))
        inputs = {"input_ids": ids, "attention_mask": mask, **self._accepted(self.model.forward, found)}
        if said.positions == "sequence":
            return inputs | {"position_ids": torch.arange(ids.shape[1]).expand_as(ids)}
        return inputs | self._accepted(self.model.forward, {"mm_token_type_ids": (ids == self.image_token_id).int()})

    @torch.no_grad()
    def _image_counts(self, found: dict[str, Any], n_images: int) -> list[int]:
        """Return how many tokens each image becomes, by asking the model where its processor does not say."""
        if "image_grid_thw" in found:
            return grid_tokens(found["image_grid_thw"], self.image_processor.merge_size)
        inputs = self._accepted(self.model.get_image_features, found)
        moved = {name: self._moved(value) for name, value in inputs.items()}
        features = self.model.get_image_features(**moved).pooler_output
        if isinstance(features, Tensor):
            tiles = found.get("num_patches", [1] * n_images)
            return [int(count) * features.shape[1] for count in tiles]
        return [len(feature) for feature in features]

    def _accepted(self, call: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        known = inspect.signature(call).parameters
        return {name: value for name, value in inputs.items() if name in known}

    def image_features(self, inputs: dict[str, Any]) -> Float[Tensor, "image embedding"]:
        """Run the model over templates that hold images, pool and project."""
        said, ids, mask = self.description.images, inputs["input_ids"], inputs["attention_mask"]
        hidden = self._last_hidden(self.model(**(self._constants() | inputs)))
        pooling = (said.pooling if said else None) or self.description.pooling
        if said is not None and said.span:
            return self._projected(pick(hidden, self._span(ids, said.span)))
        if pooling == "mean":
            return self._projected(pick(hidden, mask.bool()))
        image = ids == self.image_token_id
        positions = torch.arange(ids.shape[1], device=ids.device)
        ending = positions > (image * positions).amax(-1, keepdim=True)
        return self._projected(pick(hidden, self._pooled(pooling, ids, mask, ending)))

    def _span(self, ids: Tensor, span: tuple[str, ...]) -> Bool[Tensor, "image position"]:
        first, last = ((ids == self.tokenizer.convert_tokens_to_ids(token)).int() for token in span)
        if not (first.any(-1) & last.any(-1)).all():
            raise TowerError(f"The description {self.name!r} has images.span = {list(span)}, not both in its template.")
        positions = torch.arange(ids.shape[1], device=ids.device)
        return (positions >= first.argmax(-1, keepdim=True)) & (positions <= last.argmax(-1, keepdim=True))

    # -- what is measured when the tower is loaded ------------------------------------------------------

    @torch.no_grad()
    def _prove(self) -> None:
        """Hold the file's norm and direction against the model.

        Raises
        ------
        TowerError
            If the norm is another one, or the model is not causal where the file says so, or is where it says not.
        """
        tokens = self.tokenize(["a cat", "two dogs and a small red house"])
        raw, last = self._run(tokens)
        normed = self.norm(raw)
        real = tokens.attention_mask.bool() if tokens.attention_mask is not None else tokens.content
        wide = 1e-4 if self.dtype == torch.float32 else 5e-2
        if not torch.allclose(normed[real].float(), last[real].float(), rtol=wide, atol=wide):
            raise TowerError(
                f"The description {self.name!r} has norm = {self.description.norm!r}, and the model does something "
                f"else between its last block and {self.description.output!r}. Name the norm that follows the last "
                "block, or none where there is none; the blocks may be those of another part of the model."
            )
        ids = tokens.input_ids.clone()
        rows, place = torch.arange(len(ids)), last_of(real.long())
        ids[rows, place] = (ids[rows, place] + 7) % len(self.tokenizer)
        before = real.clone()
        before[rows, place] = False
        other = self._run(dataclasses.replace(tokens, input_ids=ids))[0]
        seen = not torch.allclose(raw[before].float(), other[before].float(), rtol=wide, atol=wide)
        if seen == self.causal:
            raise TowerError(
                f"The description {self.name!r} has causal = {str(self.causal).lower()}, and a change of the last "
                f"token {'reached' if seen else 'did not reach'} the rows before it. Set causal = "
                f"{str(not seen).lower()}."
            )

    def _run(self, tokens: Tokens) -> tuple[Hidden, Hidden]:
        """Return the last block's output and the model's last hidden state."""
        with HookManager(self.blocks) as hooks:
            found = hooks.capture([self.n_blocks])
            output = getattr(self.model, self.text_pass)(**self.model_inputs(tokens))
        return found[self.n_blocks], self._last_hidden(output)


def _checkpoint(source: "Source", description: Description, folder: Path) -> "Source":
    """Return where the weights are: a folder beside the file, or a hub id."""
    name = description.checkpoint
    path = folder / Path(name).expanduser()
    if path.is_dir():
        found = dataclasses.replace(source, name=name, location=str(path), local=True)
        return dataclasses.replace(found, config=found.read_json("config.json") or {})
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise InputError(
            f"The description {description.name!r} names the checkpoint {name!r}: neither a folder beside it nor a hub "
            "id such as 'org/model'."
        )
    return dataclasses.replace(
        source, name=name, location=name, local=False, revision=source.revision or description.revision
    )  # fmt: skip


def _model_class(description: Description) -> tuple[str, dict[str, Any]]:
    """Check that a model class is one of ``transformers``; return its name, and how to load it without a pooler."""
    import transformers

    name = description.model_class
    found = getattr(transformers, name, None) if name.isidentifier() and not name.startswith("_") else None
    is_model = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
    if not is_model and not (found is not None and name.startswith("AutoModel")):
        raise InputError(
            f"The description {description.name!r} has model_class = {name!r}, which is no model class of transformers "
            f"{transformers.__version__}. Use one such as 'LlavaNextModel' or 'AutoModel'."
        )
    # BERT's own pooler is read by no rule here, and checkpoints often lack it.
    poolable = is_model and "add_pooling_layer" in inspect.signature(found.__init__).parameters
    return name, {"add_pooling_layer": False} if poolable else {}
