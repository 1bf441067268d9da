import copy

import numpy as np
import pytest
import torch

from tests.conftest import CAPTIONS
from workbench.corpora import load_corpus
from workbench.corpora.base import Corpus
from workbench.errors import InputError
from workbench.towers.base import relative_error
from workbench.towers.multi_vectors import last_vectors
from workbench.trajectory import batches, capture, check_depths, open_trajectory


def corpus_of(captions=CAPTIONS, name="test") -> Corpus:
    from PIL import Image

    n = len(captions["en"])
    return Corpus(
        name=name,
        image_ids=tuple(f"image-{k}" for k in range(n)),
        captions={language: tuple((text,) for text in texts) for language, texts in captions.items()},
        open_image=lambda image_id: Image.new("RGB", (32, 32), (40 * int(image_id[-1]), 90, 10)),
        licence="none",
        description="for tests",
        image_hash=lambda image_id: image_id,
    )


def test_the_trajectory_is_labelled_and_ends_in_the_models_own_embedding(tower):
    rows = capture(tower, corpus_of(), progress=False)
    assert rows.dims == ("language", "caption", "depth", "feature")
    assert list(rows.coords["language"].values) == list(CAPTIONS)
    assert list(rows.coords["depth"].values) == list(range(tower.n_blocks + 1))
    assert list(rows.coords["block"].values) == list(range(-1, tower.n_blocks))
    last = torch.from_numpy(rows.sel(language="sw", depth=tower.n_blocks).values)
    with torch.no_grad():
        found = tower.encode_text(CAPTIONS["sw"], "sw")
        wanted = last_vectors(found) if tower.multi_vector else found
        assert relative_error(tower.head(last), wanted) < 1e-5


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_the_batch_size_does_not_matter(tiny, batch_size):
    wanted = capture(tiny, corpus_of(), progress=False)
    given = capture(tiny, corpus_of(), batch_size=batch_size, progress=False)
    np.testing.assert_allclose(given.values, wanted.values, rtol=1e-4, atol=1e-5)


def test_depth_zero_is_the_embedding_layer(get_tower):
    tower = get_tower("metaclip_2")
    rows = capture(tower, corpus_of(), ["en"], depths=[0], progress=False)
    tokens = tower.tokenize(CAPTIONS["en"])
    embeddings = tower.model.text_model.embeddings(input_ids=tokens.input_ids)
    wanted = embeddings[torch.arange(len(tokens)), tokens.pooled].detach().numpy()
    np.testing.assert_allclose(rows.values[0, :, 0], wanted, rtol=1e-5, atol=1e-6)


def test_on_disk_a_trajectory_reads_back_and_only_what_is_asked_for(tiny, tmp_path):
    wanted = capture(tiny, corpus_of(), out=tmp_path, progress=False)
    again = open_trajectory(tmp_path)
    np.testing.assert_array_equal(again.values, wanted.values)
    part = open_trajectory(tmp_path, ["sw"], [1, 3], ["image-4", "image-0"])
    np.testing.assert_array_equal(
        part.values, wanted.sel(language=["sw"], depth=[1, 3], caption=["image-4", "image-0"]).values
    )
    assert part.attrs["weights"] == tiny.fingerprint


def test_a_finished_language_is_not_run_again_and_a_half_written_one_cannot_be(tiny, tmp_path, monkeypatch):
    wanted = capture(tiny, corpus_of(), out=tmp_path, progress=False)
    before = (tmp_path / "en.safetensors").read_bytes()
    (tmp_path / "sw.safetensors").unlink()
    ran = []
    real = tiny.tokenize
    monkeypatch.setattr(
        tiny, "tokenize", lambda captions, language=None: ran.append(language) or real(captions, language)
    )
    again = capture(tiny, corpus_of(), out=tmp_path, progress=False)
    assert ran == ["sw"]
    np.testing.assert_array_equal(again.values, wanted.values)
    assert (tmp_path / "en.safetensors").read_bytes() == before


@pytest.mark.parametrize("changed", ["captions", "depths", "tower"])
def test_a_folder_of_another_trajectory_is_refused(get_tower, tmp_path, changed):
    capture(get_tower("clip"), corpus_of(), out=tmp_path, progress=False)
    tower = get_tower("siglip" if changed == "tower" else "clip")
    captions = {**CAPTIONS, "en": ["other", *CAPTIONS["en"][1:]]} if changed == "captions" else CAPTIONS
    depths = [0, 1] if changed == "depths" else None
    with pytest.raises(InputError, match="holds a trajectory that differs in"):
        capture(tower, corpus_of(captions), depths=depths, out=tmp_path, progress=False)


def test_a_truncated_file_says_so(tiny, tmp_path):
    capture(tiny, corpus_of(), ["en"], out=tmp_path, progress=False)
    path = tmp_path / "en.safetensors"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="truncated"):
        open_trajectory(tmp_path)


def test_what_a_folder_does_not_hold_is_named(tiny, tmp_path):
    with pytest.raises(InputError, match=r"holds no trajectory"):
        open_trajectory(tmp_path)
    capture(tiny, corpus_of(), ["en"], depths=[1], out=tmp_path, progress=False)
    with pytest.raises(InputError, match="has no language 'sw'"):
        open_trajectory(tmp_path, ["sw"])
    with pytest.raises(InputError, match="has no depth 2"):
        open_trajectory(tmp_path, depths=[2])
    with pytest.raises(InputError, match="has no caption 'image-9'"):
        open_trajectory(tmp_path, captions=["image-9"])


def test_half_precision_storage_rounds_the_rows_only(tiny):
    full = capture(tiny, corpus_of(), progress=False)
    half = capture(tiny, corpus_of(), dtype=torch.float16, progress=False)
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half.values, full.values.astype(np.float16))
    with pytest.raises(InputError, match="float32 or float16"):
        capture(tiny, corpus_of(), dtype=torch.bfloat16, progress=False)


def test_depths_count_from_either_end():
    assert check_depths(None, 4) == [0, 1, 2, 3, 4]
    assert check_depths([-1, 0, 2, 2], 4) == [0, 2, 4]
    for bad in (5, -6, 99):
        with pytest.raises(InputError, match=f"There is no depth {bad}"):
            check_depths([bad], 4)
    with pytest.raises(InputError, match="No depth"):
        check_depths([], 4)


def test_batches_cover_each_caption_once_and_cut_padding_only_where_that_is_exact(tiny):
    tokens = tiny.tokenize(CAPTIONS["en"])
    parts = list(batches(tiny, tokens, 2))
    assert sorted(torch.cat([part for part, _ in parts]).tolist()) == list(range(6))
    widths = {batch.input_ids.shape[1] for _, batch in parts}
    assert (len(widths) > 1) == tiny.shared_padding
    with pytest.raises(InputError, match="at least 1"):
        list(batches(tiny, tokens, 0))


def test_what_float16_can_not_hold_is_refused(get_tower):
    tower = copy.copy(get_tower("emoji-causal"))
    tower.model = copy.deepcopy(tower.model)
    with torch.no_grad():
        tower.model.text_model.encoder.layers[3].mlp.fc2.bias[5] = 70_000.0
    corpus = load_corpus("emoji-36", ["en"], limit=4)
    assert np.isfinite(capture(tower, corpus, progress=False)).all()
    with pytest.raises(InputError, match=r"coordinate of 7\d{4} at depth 4, and float16 ends at 65,504"):
        capture(tower, corpus, dtype=torch.float16, progress=False)


def test_a_folder_that_lost_or_damaged_a_file_is_whole_again_after_the_same_capture(get_tower, tmp_path, caplog):
    tower, corpus = get_tower("emoji-causal"), load_corpus("emoji-36", ["en", "sw"], limit=5)
    wanted = capture(tower, corpus, depths=[0, 12], out=tmp_path, progress=False).load()
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name in ("captions.parquet", "sw.safetensors"):
        for damage in (b"", files[name][:-9], files[name][:-1] + b"\x01"):
            (tmp_path / name).write_bytes(damage)
            again = capture(tower, corpus, depths=[0, 12], out=tmp_path, progress=False)
            assert again.identical(wanted)
            assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
        (tmp_path / name).unlink()
        capture(tower, corpus, depths=[0, 12], out=tmp_path, progress=False)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert "the language is captured again" in caplog.text


def test_a_trajectory_on_disk_is_read_where_it_is_used_and_nowhere_else(get_tower, tmp_path):
    tower, corpus = get_tower("emoji-causal"), load_corpus("emoji-36", ["en", "sw"], limit=6)
    whole = capture(tower, corpus, progress=False)
    lazy = capture(tower, corpus, out=tmp_path, progress=False)
    assert "..." in repr(lazy) or "values with dtype" in repr(lazy), "nothing is loaded yet"
    for key in (
        {"language": 1}, {"depth": 3}, {"depth": [0, 7], "caption": slice(1, 4)}, {"caption": [4, 0], "feature": 5},
        {"language": [1, 0], "caption": 2, "depth": -1, "feature": [3, 9]}, {},
    ):  # fmt: skip
        assert lazy.isel(key).identical(whole.isel(key)), key
    (tmp_path / "en.safetensors").write_bytes(b"gone")
    assert open_trajectory(tmp_path, ["sw"]).identical(whole.sel(language=["sw"]))
