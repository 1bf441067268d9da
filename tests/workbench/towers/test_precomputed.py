"""Files of embeddings in place of a model."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save_file

from interventions import ParallelEOS
from tests.analyses.factory import make_corpus
from workbench.errors import InputError, TowerError
from workbench.sweeps import sweep
from workbench.towers import load_tower
from workbench.trajectory import capture


@pytest.fixture
def corpus():
    return make_corpus()


def arrays(corpus, extra=2):
    """Embeddings in another order than the corpus, of more images than it has."""
    generator = np.random.default_rng(0)
    ids = [*reversed(corpus.image_ids), *(f"more-{k}" for k in range(extra))]
    names = ("images", *corpus.languages)
    return ids, {name: generator.standard_normal((len(ids), 6)).astype(np.float32) for name in names}


def write(path, ids, values):
    if path.suffix == ".npz":
        np.savez(path, allow_pickle=False, ids=np.array(ids), **values)
    elif path.suffix == ".safetensors":
        save_file(values, path, metadata={"ids": json.dumps(ids)})
    else:
        rows = [
            {"id": image_id, "language": None if name == "images" else name, "embedding": row}
            for name, block in values.items()
            for image_id, row in zip(ids, block, strict=True)
        ]
        pd.DataFrame(rows).sample(frac=1, random_state=0).to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".parquet"])
def test_embeddings_come_back_in_the_order_of_the_corpus(tmp_path, corpus, suffix):
    ids, values = arrays(corpus)
    tower = load_tower(write(tmp_path / f"mine{suffix}", ids, values))
    order = [ids.index(image_id) for image_id in corpus.image_ids]
    assert tower.name == f"mine{suffix}"
    assert tower.has_images
    assert torch.equal(tower.embed_images(corpus), torch.from_numpy(values["images"][order]))
    for language in corpus.languages:
        assert torch.equal(tower.embed_captions(corpus, language), torch.from_numpy(values[language][order]))


def test_the_three_formats_have_one_fingerprint_and_other_numbers_another(tmp_path, corpus):
    ids, values = arrays(corpus)
    paths = [tmp_path / f"mine{suffix}" for suffix in (".npz", ".safetensors")]
    prints = {load_tower(write(path, ids, values)).fingerprint for path in paths}
    values["en"] = values["en"] + 1
    assert len(prints) == 1
    assert load_tower(write(paths[0], ids, values)).fingerprint not in prints


def test_what_looks_inside_says_that_there_is_no_inside(tmp_path, corpus):
    tower = load_tower(write(tmp_path / "mine.npz", *arrays(corpus)))
    with pytest.raises(InputError, match="no blocks, so there is no depth to sweep"):
        sweep(tower, corpus, [ParallelEOS("en")])
    for ask in (lambda: capture(tower, corpus), lambda: tower.trace(["a"]), lambda: tower.encode_text(["a"])):
        with pytest.raises(InputError, match="is a file of embeddings and has no"):
            ask()


def test_without_images_it_is_a_text_only_encoder(tmp_path, corpus):
    ids, values = arrays(corpus)
    del values["images"]
    tower = load_tower(write(tmp_path / "mine.npz", ids, values))
    assert not tower.has_images
    with pytest.raises(InputError, match="no embeddings of 'images'"):
        tower.embed_images(corpus)


def test_an_image_or_language_that_is_not_there_is_named(tmp_path, corpus):
    ids, values = arrays(corpus)
    del values["sw"]
    tower = load_tower(write(tmp_path / "mine.npz", ids[2:], {name: block[2:] for name, block in values.items()}))
    with pytest.raises(InputError, match=r"no embeddings of 'sw'\. It has: ar, en"):
        tower.embed_captions(corpus, "sw")
    with pytest.raises(InputError, match=f"lacks 2 of the {len(corpus)} images"):
        tower.embed_captions(corpus, "en")
    with pytest.raises(InputError, match="one caption an image"):
        tower.embed_captions(corpus, "en", "all")


def _nan(ids, values):
    values["en"][0, 0] = np.nan


def _short(ids, values):
    values["en"] = values["en"][:-1]


def _wide(ids, values):
    values["en"] = np.concatenate([values["en"], values["en"]], axis=1)


def _twice(ids, values):
    ids[1] = ids[0]


def _no_language(ids, values):
    for name in set(values) - {"images"}:
        del values[name]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [(_nan, "NaN or infinity in 'en'"), (_short, "of shape"), (_wide, "of shape"), (_twice, "twice"),
     (_no_language, "no language")],
)  # fmt: skip
def test_a_file_that_is_not_rectangular_or_finite_is_refused(tmp_path, corpus, spoil, message):
    ids, values = arrays(corpus)
    spoil(ids, values)
    with pytest.raises(TowerError, match=message):
        load_tower(write(tmp_path / "mine.npz", ids, values))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".parquet"])
def test_a_truncated_file_is_one_clear_line(tmp_path, corpus, suffix):
    path = write(tmp_path / f"mine{suffix}", *arrays(corpus))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(TowerError, match="truncated or in another layout") as error:
        load_tower(path)
    assert "\n" not in str(error.value)


def test_pickled_arrays_are_not_read(tmp_path, corpus):
    ids, values = arrays(corpus)
    path = tmp_path / "mine.npz"
    np.savez(path, allow_pickle=True, ids=np.array(ids, dtype=object), **values)
    with pytest.raises(TowerError, match="allow_pickle=False"):
        load_tower(path)
