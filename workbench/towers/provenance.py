"""What is recorded of a tower: where it came from, and how exactly its parts agree."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Provenance:
    """Where a tower came from: enough to fetch the same weights again.

    Attributes
    ----------
    source : str
        Built-in name, folder or hub id, as the user gave it.
    revision : str, optional
        Commit of the hub repository.
    model_class : str
    dtype : str
    remote_code : bool
        Whether code from the checkpoint's repository was run.
    notes : mapping of str to str
        What else decides the weights or the embedding: a pooling rule, a prefix, a description file.
    files : mapping of str to str
        SHA-256 of each file but the weights that a local tower was loaded from, by name.
    """

    source: str
    revision: str | None
    model_class: str
    dtype: str
    remote_code: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SelfCheck:
    """What :meth:`Tower.check` measured; relative errors.

    Attributes
    ----------
    pooled_row : float
        Between the pooled row through the head and the model's own text feature.
    padding : float
        Between a caption alone and in a padded batch: the noise floor of a comparison across batches. In half
        precision it reaches a percent or two.
    """

    pooled_row: float
    padding: float
