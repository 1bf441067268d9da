"""A tower described in a file: ten lines of TOML instead of an adapter.

A model of the long tail differs from the next in a few facts: its class, where its blocks are, what stands around
a caption, which row is kept. A description names them and nothing in it is run::

    checkpoint = "org/model"              # a hub id, or a folder beside this file
    model_class = "LlavaNextModel"        # a class of transformers without a generator's head, or AutoModel
    blocks = "language_model.layers"
    norm = "language_model.norm"          # what stands between the last block and the model's last hidden state
    template = "[INST] {text} [/INST]"
    pooling = "last"                      # last, mean, first, eos or cls

    [images]
    template = "[INST] {image} [/INST]"
    token = "<image>"

That is enough. :class:`Description` lists the rest. What the file says of the model is measured when it is loaded
(:mod:`workbench.towers.described`); what it says about training, such as the template, can't be, and a description
that ships with the bench says under ``[facts]`` how far it was verified.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from workbench.errors import InputError, suggest
from workbench.parsing import load_toml
from workbench.towers.prompts import Prompt, Side

Pooling = Literal["last", "mean", "first", "eos", "cls"]
Positions = Literal["grid", "sequence"]

FOLDER = Path(__file__).with_name("descriptions")


@dataclass(frozen=True)
class ImageDescription:
    """How images are read; the table ``[images]``.

    Attributes
    ----------
    template : str
        What stands around an image, with ``{image}`` in its place.
    token : str
        The placeholder in the tokeniser's vocabulary that is repeated for each token of an image.
    pooling : str, optional
        As for text, and the text's rule by default.
    span : tuple of str
        Two tokens of the template: the mean of the rows from one to the other is kept, both included.
    positions : {"grid", "sequence"}
        For models with positions in time, height and width: whether images get those, or are counted on in a row.
    size : tuple of int
        Height and width in pixels to which images are resized first, whatever their shape.
    options : mapping
        Passed to the image processor, such as ``crop_to_patches = false``.
    """

    template: str
    token: str
    pooling: Pooling | None = None
    span: tuple[str, ...] = ()
    positions: Positions = "grid"
    size: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """How far a description was verified; the table ``[facts]``.

    Attributes
    ----------
    verified, unverified : tuple of str
    """

    verified: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """What a description file says.

    Attributes
    ----------
    checkpoint : str
        Hub id, or a folder relative to the file.
    model_class : str
        A model class of ``transformers``, or one of its ``AutoModel`` classes.
    blocks : str
        Path of the list of text blocks in the model.
    template : str
        What stands around a caption, with ``{text}`` in its place.
    pooling : {"last", "mean", "first", "eos", "cls"}
        The row that is kept: the last one, the mean of all, the first, the first end token after the caption, or
        the class token before it.
    name : str
        For tables; the file's own name by default.
    revision : str, optional
        Commit, tag or branch of a hub id.
    processor : str, optional
        Hub id or folder of tokeniser and image processor, where the checkpoint has none.
    norm, projection : str, optional
        Paths of the norm after the last block and of a projection after pooling.
    causal : bool
        Whether a token sees only those before it.
    normalise : bool
        Whether the model's own code gives embeddings of length one.
    max_length : int, optional
        Longest caption in tokens, the template included; the model's position table by default.
    padding_side : {"right", "left"}
    special_tokens : bool
        Whether the tokeniser adds its own start and end tokens.
    output : str
        Field of the model's output with the last hidden state.
    inputs : mapping
        Further keyword arguments of the model's pass.
    remote_code : bool
        Whether the model needs Python code from its repository.
    images : ImageDescription, optional
        Without it the tower reads text alone.
    facts : Facts
    """

    checkpoint: str
    model_class: str
    blocks: str
    template: str
    pooling: Pooling
    name: str = ""
    revision: str | None = None
    processor: str | None = None
    norm: str | None = None
    projection: str | None = None
    causal: bool = True
    normalise: bool = False
    max_length: int | None = None
    padding_side: Side = "right"
    special_tokens: bool = True
    output: str = "last_hidden_state"
    inputs: Mapping[str, Any] = field(default_factory=dict)
    remote_code: bool = False
    images: ImageDescription | None = None
    facts: Facts = field(default_factory=Facts)

    @property
    def prompt(self) -> Prompt:
        """What stands around a caption."""
        return _around(self.template, "{text}", self.special_tokens)

    @property
    def image_prompt(self) -> Prompt | None:
        """What stands around an image."""
        return _around(self.images.template, "{image}", self.special_tokens) if self.images else None


def shipped() -> dict[str, Path]:
    """Return the descriptions that come with the bench, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def read_description(path: Path) -> Description:
    """Read a description and check every key of it.

    Raises
    ------
    InputError
        If the file is no TOML, a key is unknown, absent or of another type, or a template lacks its place.
    """
    where = f"The description {path.name!r}"
    content = load_toml(path, where)
    found = _read(Description, content, where)
    checks = [("template", found.template, "{text}")]
    if found.images:
        checks.append(("images.template", found.images.template, "{image}"))
        if len(found.images.span) not in (0, 2):
            raise InputError(
                f"{where} has images.span = {list(found.images.span)}; give its two tokens, first and last."
            )
        if len(found.images.size) not in (0, 2) or min(found.images.size, default=1) < 1:
            raise InputError(f"{where} has images.size = {list(found.images.size)}; give height and width in pixels.")
    for key, template, place in checks:
        if template.count(place) != 1:
            raise InputError(
                f"{where} has {template.count(place)} times {place} in its {key} {template!r}. It must stand there "
                f"once, where the {place[1:-1]} goes."
            )
    if found.max_length is not None and found.max_length < 1:
        raise InputError(f"{where} has max_length = {found.max_length}; it must be at least 1.")
    return found


def _around(template: str, place: str, special: bool) -> Prompt:
    before, _, after = template.partition(place)
    return Prompt(before, after, special)


def _read(kind: type, content: Mapping[str, Any], where: str, table: str = "") -> Any:
    hints = get_type_hints(kind)
    known = {entry.name: entry for entry in fields(kind)}
    for key in content:
        if key not in known:
            raise InputError(
                f"{where} has an unknown key {table + key!r}.{suggest(key, known)} "
                f"Known: {', '.join(table + name for name in known)}."
            )
    values = {}
    for key, entry in known.items():
        if key in content:
            values[key] = _value(hints[key], content[key], f"{where} has {table}{key}", where, table + key)
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise InputError(f"{where} lacks the key {table + key!r}. It needs {', '.join(_required(kind, table))}.")
    return kind(**values)


def _required(kind: type, table: str) -> list[str]:
    return [table + e.name for e in fields(kind) if e.default is MISSING and e.default_factory is MISSING]


def _value(hint: Any, value: Any, what: str, where: str, path: str) -> Any:
    options = [option for option in get_args(hint) if option is not type(None)] if _is_optional(hint) else [hint]
    option = options[0]
    if get_origin(option) is Literal:
        if value not in get_args(option):
            raise InputError(f"{what} = {value!r}.{suggest(value, get_args(option))} Use {_either(get_args(option))}.")
        return value
    if option in (ImageDescription, Facts):
        if not isinstance(value, dict):
            raise InputError(f"{what} = {value!r}; it must be a table, [{path}].")
        return _read(option, value, where, f"{path}.")
    if get_origin(option) is tuple:
        of = get_args(option)[0]
        if not isinstance(value, list) or not all(type(entry) is of for entry in value):
            raise InputError(f"{what} = {value!r}; it must be a list of {_TYPES[of]}.")
        return tuple(value)
    of = dict if get_origin(option) is not None else option
    # `type`, not `isinstance`: true is an int to Python.
    if type(value) is not of:
        raise InputError(f"{what} = {value!r}; it must be {_TYPES[of]}.")
    if of is str and not value.strip():
        raise InputError(f"{what} = {value!r}, which is empty. Leave the key out, or say what it is.")
    return value


_TYPES = {str: "text", int: "a whole number", bool: "true or false", dict: "a table"}


def _is_optional(hint: Any) -> bool:
    return type(None) in get_args(hint)


def _either(options: tuple[str, ...]) -> str:
    return f"{', '.join(map(repr, options[:-1]))} or {options[-1]!r}"
