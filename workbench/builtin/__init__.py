"""The corpus and the two towers that come with the bench, and the scripts that made them.

``emoji-36`` names 1,911 emoji in 36 languages; ``emoji-causal`` and ``emoji-bidirectional`` are
small text towers trained on it. They exist so that a newcomer sees a result within minutes and so
that every test runs without a network. Their cards say what they are and what they are not.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
CORPUS_FOLDER = FOLDER / "emoji-36"
CORPUS_FILE = CORPUS_FOLDER / "emoji-36.parquet"
DRAWS_FILE = CORPUS_FOLDER / "training-draws.parquet"
TOWER_FOLDERS = {name: FOLDER / name for name in ("emoji-causal", "emoji-bidirectional")}
