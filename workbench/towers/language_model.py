"""What all embedders made of a multimodal language model share.

The model was made to write; here it reads. A caption goes through it inside a prompt, and what is kept is a row
of the last hidden state: the last one, which has seen all others, or a mean. An image goes through the same
blocks, as tokens in the place of a placeholder in a prompt of its own.

Three traps are closed here for all of them:

- *The cache.* By default the model keeps the keys and values of a pass. A block that is run again under a patch
  would then read those of the clean pass, without an error. No pass here keeps any (``use_cache=False``).
- *The pooled row is found by counting*, never by its token's id: the end token is often the padding token too,
  and a caption may hold it.
- *The head of the generator* is left out: nobody reads the words, and they are the largest tensor of all.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from PIL.Image import Image
from torch import Tensor, nn

from workbench.errors import InputError
from workbench.hooks import Hidden, Where, pick
from workbench.towers.base import Tower
from workbench.towers.prompts import Prompt, Side, tokenize_in_prompt, tokenize_whole
from workbench.towers.tokens import Tokens

# Their blocks take a mask and rotary tables by name, which appended rows need; held to the oracle by tests.
APPENDABLE = frozenset({"llama", "mistral", "qwen2", "qwen3", "qwen2_vl_text", "qwen2_5_vl_text"})

IMAGE_BATCH = 8
"""Images a pass: each is hundreds of tokens."""


class LanguageModelTower(Tower):
    """A causal language model that reads a caption in a prompt and gives the row of its last token."""

    causal = True
    pool = "last token"
    strategy = "append"
    shared_padding = True
    text_pass = "forward"
    image_token: str
    prompt: Prompt
    image_prompt: Prompt
    side: Side = "right"

    # -- what each family says -------------------------------------------------------------------

    @property
    @abstractmethod
    def norm(self) -> nn.Module:
        """The norm after the last block."""

    # -- text --------------------------------------------------------------------------------------

    def tokenize(self, captions: Sequence[str], language: str | None = None) -> Tokens:
        """Put captions into the prompt; one that is too long loses its own end, never the prompt's."""
        found = tokenize_in_prompt(self.tokenizer, captions, language, self.prompt, self.max_positions, self.side)
        return Tokens(
            input_ids=found.input_ids,
            pooled=last_of(found.attention_mask),
            content=found.content,
            truncated=found.truncated,
            attention_mask=found.attention_mask,
        )

    def model_inputs(self, tokens: Tokens) -> dict[str, Any]:
        """Return the keyword arguments of the model's text pass, which keeps no cache."""
        return super().model_inputs(tokens) | {"use_cache": False}

    def embedding(self, output: Any, tokens: Tokens) -> Float[Tensor, "batch embedding"]:
        """Take the pooled row of the model's own last hidden state, which is normed already."""
        return pick(output.last_hidden_state, tokens.where("pooled"))

    def head(self, rows: Float[Tensor, "... width"]) -> Float[Tensor, "... embedding"]:
        """Final norm."""
        return self.norm(rows)

    def finish(self, hidden: Hidden, where: Where) -> Float[Tensor, "batch embedding"]:
        """Norm, then pool, as the model does: the norm of a mean is not the mean of the norms."""
        return pick(self.norm(hidden), where) if where.dtype == torch.bool else self.head(pick(hidden, where))

    # -- images ------------------------------------------------------------------------------------

    def encode_images(self, images: Sequence[Image], batch_size: int = IMAGE_BATCH) -> Any:
        """Embed images through the same blocks; float32, unnormalised, on the CPU."""
        return super().encode_images(images, batch_size)

    def image_features(self, inputs: dict[str, Any]) -> Any:
        """Run the model over prompts that hold images, and pool."""
        inputs = {**inputs, "use_cache": False}
        return pick(self.model(**inputs).last_hidden_state, last_of(inputs["attention_mask"]))

    def prompts_with_images(self, counts: Sequence[int]) -> tuple[Int[Tensor, "image position"], Tensor]:
        """Return ids and padding mask of the image prompt, with as many placeholders as each image has tokens."""
        token = self.image_token
        text = self.image_prompt.before + token + self.image_prompt.after
        texts = [text.replace(token, token * count) for count in counts]
        ids, mask = tokenize_whole(self.tokenizer, texts, self.image_prompt, self.side)
        found = (ids == self.image_token_id).sum(-1).tolist()
        if found != list(counts):
            raise InputError(
                f"The image prompt of {self.name!r} has {found[0]} image tokens for the {counts[0]} that its first "
                f"image needs: {token!r} is not one token of its tokeniser."
            )
        return ids, mask

    @property
    def image_token_id(self) -> int:
        """Id of the token whose place the image takes."""
        return self.tokenizer.convert_tokens_to_ids(self.image_token)


def last_of(mask: Int[Tensor, "batch position"]) -> Int[Tensor, " batch"]:
    """Return the position of the last row that is no padding, whichever side the padding is on."""
    positions = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return (mask * positions).amax(-1) - 1
