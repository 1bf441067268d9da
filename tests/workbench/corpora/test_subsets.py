import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.corpora.subsets import RECIPES, Recipe, Subset, resolve_subset
from workbench.errors import InputError

IDS = [f"image-{number}" for number in range(20)]
SMALL = Recipe("small", "bench", 5, 20, "a test")


def test_a_recipe_takes_the_ids_whose_hash_comes_first_in_the_order_of_the_list():
    chosen = SMALL.pick(IDS)
    ranked = sorted(IDS, key=lambda i: hashlib.sha256(i.encode()).hexdigest())
    assert set(chosen.ids) == set(ranked[:5])
    assert list(chosen.ids) == [i for i in IDS if i in ranked[:5]]


@settings(deadline=None)
@given(st.permutations(IDS))
def test_a_recipe_and_its_hash_do_not_depend_on_the_order_of_the_list(ids):
    assert set(SMALL.pick(ids).ids) == set(SMALL.pick(IDS).ids)
    assert SMALL.pick(ids).sha256 == SMALL.pick(IDS).sha256


def test_the_hash_tells_subsets_of_one_name_apart():
    one, other = (Subset("mine", ids, "by hand") for ids in (("a", "b"), ("a", "c")))
    assert one.sha256 != other.sha256
    assert one.label == f"mine@{one.sha256[:8]}"
    assert one.sha256 == hashlib.sha256(b"a\nb").hexdigest()


def test_the_recipe_of_the_paper_is_there_and_says_that_it_is_no_draw_of_the_paper():
    recipe = RECIPES["xm3600-1k"]
    assert (recipe.benchmark, recipe.size, recipe.full_size) == ("xm3600", 1000, 3600)
    chosen = recipe.pick([f"{number:016x}" for number in range(3600)])
    assert len(chosen.ids) == 1000
    assert "publishes no ids" in chosen.describe()["rule"]


def test_a_recipe_refuses_a_list_that_is_not_whole():
    with pytest.raises(InputError, match="picks 5 of the 20 images of bench, and 19 are listed"):
        SMALL.pick(IDS[1:])


def test_present_means_what_is_on_disk():
    chosen = resolve_subset("present", "bench", IDS, IDS[3:5])
    assert (chosen.name, chosen.ids) == ("present", ("image-3", "image-4"))
    assert resolve_subset("present", "bench", IDS).ids == tuple(IDS)
    with pytest.raises(InputError, match="Not one image of bench is here"):
        resolve_subset("present", "bench", IDS, [])


def test_a_file_of_ids_replaces_a_recipe(tmp_path):
    path = tmp_path / "paper.txt"
    path.write_bytes(b"image-7\r\n\r\nimage-2")
    chosen = resolve_subset(path, "bench", IDS)
    assert (chosen.name, chosen.ids) == ("paper", ("image-2", "image-7"))
    assert resolve_subset(str(path), "bench", IDS).sha256 == chosen.sha256
    assert resolve_subset(["image-2", "image-7"], "bench", IDS).sha256 == chosen.sha256
    assert resolve_subset(chosen, "bench", IDS) == chosen


@pytest.mark.parametrize(
    ("listed", "says"),
    [
        (["image-1", "image-99"], r"names 1 ids that bench lacks; the first is 'image-99'.*Did you mean 'image-9'"),
        (["image-1", "image-1"], "names the id 'image-1' twice"),
        ([], "names no id"),
    ],
)
def test_ids_that_can_not_be_a_subset_are_refused(listed, says):
    with pytest.raises(InputError, match=says):
        resolve_subset(listed, "bench", IDS)


def test_an_unknown_subset_says_which_there_are():
    with pytest.raises(InputError, match=r"no subset 'xm3600-2k' of xm3600.*Did you mean 'xm3600-1k'.*present"):
        resolve_subset("xm3600-2k", "xm3600", IDS)
    with pytest.raises(InputError, match="no subset 'xm3600-1k' of other"):
        resolve_subset("xm3600-1k", "other", IDS)
