"""Text-only encoders: E5, BGE-M3, LaBSE, XLM-R and whatever else ``AutoModel`` loads.

They have no image tower, so their captions are ranked against the captions of a pivot language
(:mod:`workbench.gallery`). How a caption becomes one vector is not part of an ``AutoModel``: it is said by the
``sentence-transformers`` files beside it (``modules.json``), or by the options here.

- ``pooling``: ``"cls"`` (first row), ``"mean"`` (over all unmasked rows) or ``"last"`` (last unmasked row).
- ``prefix``: what the model was trained to see before a text, such as ``"query: "`` for E5. Its tokens are
  masked in or out of the pooling as the model's own rule says (they are in), and are no content.

Whether a token sees the ones after it is measured, not believed: a decoder may have been made bidirectional.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.errors import InputError, TowerError
from workbench.hooks import Hidden, Where, pick
from workbench.parsing import load_file
from workbench.towers.base import Tower
from workbench.towers.provenance import Provenance
from workbench.towers.tokens import Tokens, check_captions, content_mask, read_as_text

if TYPE_CHECKING:
    from workbench.towers.source import Source

Pooling = Literal["cls", "mean", "last"]

_POOL: dict[Pooling, str] = {
    "cls": "first row",
    "mean": "masked mean of all rows; a patch shifts each of them by the same vector",
    "last": "last unmasked row",
}
_BLOCKS = ("encoder.layer", "encoder.layers", "layers", "transformer.layer", "h")
_NORMS = ("norm", "layer_norm", "final_layer_norm", "ln_f", "encoder.layer_norm", "encoder.final_layer_norm")
# Position ids of these start after the padding id, which takes two slots of the table.
_OFFSET = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "xmod"}
# Their blocks take a mask and rotary tables by name, which the appended rows need; held to the oracle by tests.
_APPENDABLE = {"llama", "mistral", "qwen2", "qwen3"}
_ACTIVATIONS = {"tanh": nn.Tanh, "identity": nn.Identity}
# Trained with a prefix that their repositories name in prose only.
_PREFIXES = {"intfloat/multilingual-e5": "query: ", "intfloat/e5": "query: "}


class TextEncoderTower(Tower):
    """Any encoder of text alone, with a rule that pools one vector a caption."""

    family = "text encoder"
    causal = False  # measured for each model
    pool = "cls, mean or last row"
    strategy = "widen"
    shared_padding = True
    model_classes = ()
    text_pass = "forward"
    options = ("pooling", "prefix")

    def __init__(
        self,
        name: str,
        model: nn.Module,
        tokenizer: Any,
        provenance: Provenance,
        *,
        pooling: Pooling,
        prefix: str = "",
        dense: nn.Module | None = None,
    ) -> None:
        self.model_classes = (type(model).__name__,)  # any: the pooling rule is ours, not the class's
        super().__init__(name, model, tokenizer, None, provenance)
        self.pooling, self.prefix = pooling, prefix
        self.dense = nn.Identity() if dense is None else dense.to(self.device, self.dtype).eval()
        self.pool = _POOL[pooling]
        if tokenizer.pad_token is None:
            # A decoder's tokeniser; padding is masked, so that any token will do.
            tokenizer.pad_token = tokenizer.eos_token
        self._blocks = _first_list(name, model)
        self.norm = self._find_norm()
        self.causal = self._sees_only_before()
        if self.causal and pooling == "last" and self.text_config.model_type in _APPENDABLE:
            self.strategy = "append"

    @classmethod
    def from_source(cls, source: "Source", *, pooling: str | None = None, prefix: str | None = None) -> Self:
        """Load with ``AutoModel``; pooling and prefix from the repository's files, or as given.

        Raises
        ------
        InputError
            If neither the files nor the options say how to pool.
        """
        found, dense = _sentence_transformers(source)
        said = pooling or found
        rule: Pooling | None = next((known for known in _POOL if known == said), None)
        if rule is None:
            came = f"pooling={said!r} came" if said else f"{source.name!r} does not say how it pools its rows"
            raise InputError(f"{came}. Give pooling='cls', 'mean' or 'last', whichever the model was trained with.")
        if prefix is None:
            prefix = next((p for start, p in _PREFIXES.items() if source.name.startswith(start)), "")
        model = source.model("AutoModel", **_no_pooler(source))
        notes = {"pooling": rule, "prefix": prefix}
        return cls(
            source.short, model, source.tokenizer(), source.provenance(model, **notes),
            pooling=rule, prefix=prefix, dense=dense,
        )  # fmt: skip

    @property
    def blocks(self) -> list[nn.Module]:
        """The real text blocks, in order."""
        return list(self._blocks)

    @property
    def max_positions(self) -> int:
        """Longest caption in tokens, the prefix and special tokens included."""
        config = self.text_config
        table = config.max_position_embeddings - (2 if config.model_type in _OFFSET else 0)
        return min(table, self.tokenizer.model_max_length)

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Tokenise with the prefix, padded on the right to the longest caption, with the padding mask."""
        captions = check_captions(captions, language)
        options = read_as_text(self.tokenizer, captions, language, inside=bool(self.prefix))
        texts = [self.prefix + caption for caption in captions]
        whole = self.tokenizer(texts, truncation=False, verbose=False, **options)["input_ids"]
        encoded = self.tokenizer(
            texts, padding=True, padding_side="right", truncation=True, max_length=self.max_positions,
            return_tensors="pt", **options,
        )  # fmt: skip
        ids, mask = encoded["input_ids"], encoded["attention_mask"]
        content = content_mask(self.tokenizer, ids) & mask.bool()
        if self.prefix:
            # Offsets count characters of the text: what ends inside the prefix belongs to it.
            for row in range(len(ids)):
                ends = torch.tensor([end for _, end in encoded.encodings[row].offsets])
                content[row] &= ends > len(self.prefix)
        averaged = mask.bool() if self.pooling == "mean" else None
        pooled = torch.zeros(len(ids), dtype=torch.long) if self.pooling == "cls" else mask.sum(-1) - 1
        truncated = torch.tensor([len(row) > self.max_positions for row in whole])
        return Tokens(ids, pooled, content, truncated, mask, averaged)

    def model_inputs(self, tokens: Tokens) -> dict[str, Any]:
        """Return the keyword arguments of the model's pass; no cache, which would keep keys of the clean pass."""
        inputs: dict[str, Any] = super().model_inputs(tokens)
        return inputs | ({"use_cache": False} if getattr(self.text_config, "use_cache", False) else {})

    def embedding(self, output: Any, tokens: Tokens) -> Float[Tensor, "batch embedding"]:
        """Pool the model's own last hidden state, then the dense layer where the model has one."""
        return self.dense(pick(output.last_hidden_state, tokens.where("pooled").to(output.last_hidden_state.device)))

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Final norm and dense layer, each where the model has one."""
        return self.dense(self.norm(rows))

    def finish(self, hidden: Hidden, where: Where) -> Float[Tensor, "batch embedding"]:
        """Norm every row, pool, then the dense layer: a mean of normed rows is not the norm of their mean."""
        return self.dense(pick(self.norm(hidden), where))

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        yield from super()._weights()
        yield from ((f"dense.{name}", tensor) for name, tensor in self.dense.state_dict().items())

    # -- what is measured when the model is loaded ------------------------------------------------

    @torch.no_grad()
    def _run(self, tokens: Tokens) -> tuple[Hidden, Hidden]:
        """Return the last block's output and the model's last hidden state."""
        from workbench.hooks import HookManager

        with HookManager(self.blocks) as hooks:
            found = hooks.capture([self.n_blocks])
            output = self.model(**self.model_inputs(tokens))
        return found[self.n_blocks], output.last_hidden_state

    def _find_norm(self) -> nn.Module:
        tokens = self.tokenize(["a", "a longer text"])
        raw, last = self._run(tokens)
        if torch.equal(raw, last):
            return nn.Identity()
        for path in _NORMS:
            module = _at(self.model, path)
            if isinstance(module, nn.Module) and torch.allclose(module(raw), last, rtol=1e-4, atol=1e-5):
                return module
        raise TowerError(
            f"{self.name!r} does something after its last block that is none of the norms known here ("
            f"{', '.join(_NORMS)}). Describe it in a description file instead."
        )

    def _sees_only_before(self) -> bool:
        tokens = self.tokenize(["one two three four"])
        ids = tokens.input_ids.clone()
        # Another last token: in a causal model no row before it can notice.
        ids[0, -1] = (ids[0, -1] + 7) % self.text_config.vocab_size
        other = Tokens(ids, tokens.pooled, tokens.content, tokens.truncated, tokens.attention_mask, tokens.averaged)
        before, after = self._run(tokens)[0][:, :-1], self._run(other)[0][:, :-1]
        return bool(torch.allclose(before, after, rtol=1e-5, atol=1e-6))


def _first_list(name: str, model: nn.Module) -> nn.ModuleList:
    for path in _BLOCKS:
        found = _at(model, path)
        if isinstance(found, nn.ModuleList) and len(found):
            return found
    lists = [path for path, module in model.named_modules() if isinstance(module, nn.ModuleList)]
    raise TowerError(
        f"The blocks of {name!r} ({type(model).__name__}) are at none of {', '.join(_BLOCKS)}. It has the module "
        f"lists {', '.join(lists) or '(none)'}: say which in a description file."
    )


def _at(model: nn.Module, path: str) -> Any:
    found: Any = model
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _no_pooler(source: "Source") -> dict[str, Any]:
    """BERT's own pooler is no part of any rule here, and checkpoints often lack it."""
    with_pooler = {"bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "electra"}
    return {"add_pooling_layer": False} if source.config.get("model_type") in with_pooler - {"electra"} else {}


def _sentence_transformers(source: "Source") -> tuple[str | None, nn.Module | None]:
    """Read the pooling rule and the dense layer that ``sentence-transformers`` files describe."""
    path = source.find("modules.json")
    if path is None:
        return None, None
    try:
        modules = load_file(path)
        kinds = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    except (ValueError, TypeError, KeyError) as error:
        raise TowerError(f"The modules.json of {source.name!r} can't be read: {error}.") from None
    unknown = sorted(set(kinds) - {"Transformer", "Pooling", "Dense", "Normalize"})
    if unknown:
        raise TowerError(
            f"{source.name!r} has a module {unknown[0]!r} after its encoder, which is not known here. Known: "
            "Transformer, Pooling, Dense, Normalize."
        )
    rule = None
    if "Pooling" in kinds:
        said = source.read_json(f"{kinds['Pooling']}/config.json") or {}
        rules = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_lasttoken": "last"}
        chosen = [key for key, value in said.items() if key.startswith("pooling_mode_") and value is True]
        if len(chosen) != 1 or chosen[0] not in rules:
            raise TowerError(f"{source.name!r} pools by {chosen}; one of {', '.join(rules)} is known here.")
        rule = rules[chosen[0]]
    return rule, _dense(source, kinds["Dense"]) if "Dense" in kinds else None


def _dense(source: "Source", folder: str) -> nn.Module:
    from safetensors.torch import load_file

    said = source.read_json(f"{folder}/config.json") or {}
    activation = str(said.get("activation_function", "")).rpartition(".")[2].lower()
    path = source.find(f"{folder}/model.safetensors")
    pickled = None if path else source.find(f"{folder}/pytorch_model.bin")
    if activation not in _ACTIVATIONS or not (path or pickled):
        raise TowerError(
            f"The dense layer of {source.name!r} can't be used: activation {activation!r} (known: "
            f"{', '.join(_ACTIVATIONS)}), weights {'found' if path or pickled else 'absent'}."
        )
    layer = nn.Linear(int(said["in_features"]), int(said["out_features"]), bool(said.get("bias", True)))
    weights = load_file(path) if path else torch.load(Path(str(pickled)), weights_only=True, map_location="cpu")
    layer.load_state_dict({name.removeprefix("linear."): tensor for name, tensor in weights.items()})
    return nn.Sequential(layer, _ACTIVATIONS[activation]())
