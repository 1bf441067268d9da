"""Scores of the built-in tower on corpora of every kind, held to plain matrices of its own embeddings."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from workbench.corpora import Corpus, load_corpus
from workbench.corpora.choices import ChoiceCorpus, Question
from workbench.corpora.classification import ClassificationCorpus
from workbench.errors import InputError
from workbench.estimates import COLUMNS
from workbench.late_interaction import maxsim
from workbench.metrics import Placements, Targets
from workbench.retrieval import rank, unit
from workbench.scoring import embed, estimate, score
from workbench.towers import Tower
from workbench.zero_shot import ensemble

LANGUAGES = ("en", "de", "sw")
QUIET: dict[str, Any] = {"resamples": 100, "progress": False}


@pytest.fixture(scope="module")
def tower(get_tower: Callable[[str], Tower]) -> Tower:
    return get_tower("emoji-causal")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus("emoji-36", LANGUAGES, limit=40)


@pytest.fixture(scope="module")
def uneven(corpus: Corpus) -> Corpus:
    """One to three captions an image; German lacks what English has; two images share a caption."""
    captions: dict[str, tuple[tuple[str, ...], ...]] = {}
    for k, language in enumerate(LANGUAGES):
        names = [texts[0] for texts in corpus.captions[language]]
        lists = [tuple(dict.fromkeys((names[i], *names[: (i + k) % 3]))) for i in range(len(names))]
        lists[7] = lists[4]
        captions[language] = tuple(lists)
    return dataclasses.replace(corpus, name="uneven", captions=captions)


def values(frame: Any, **wanted: str) -> dict[tuple[str, str], float]:
    """Values of some rows by language and metric."""
    return {
        (row["language"], row["metric"]): row["value"]
        for row in frame.to_dict("records")
        if all(row[name] == value for name, value in wanted.items())
    }


def matrix(tower: Tower, corpus: Corpus, language: str, protocol: Any) -> tuple[np.ndarray, np.ndarray]:
    """Images by captions, one embedding for equal captions, and whose each caption is."""
    texts, owner = corpus.texts(language, protocol)
    distinct = list(dict.fromkeys(texts))
    rows = unit(tower.encode_text(distinct, language), "texts")[[distinct.index(text) for text in texts]]
    return (unit(tower.embed_images(corpus), "images") @ rows.T).numpy(), owner


@pytest.mark.parametrize("protocol", ["first", "all"])
def test_scores_of_a_language_are_those_of_its_own_matrix(tower, uneven, protocol):
    metrics = ["R@1", "Acc@5", "recall@5", "MRR", "MRR@10", "NDCG@10", "NDCG-list@10"]
    frame = score(tower, uneven, metrics, protocol=protocol, **QUIET)
    assert frame.columns.tolist() == list(COLUMNS)
    for language in LANGUAGES:
        scores, owner = matrix(tower, uneven, language, protocol)
        i2t = Placements.of_scores(scores, Targets.of_images(owner, len(uneven)))
        t2i = Placements.of_scores(scores.T, Targets.of_captions(owner))
        for direction, placed in (("i2t", i2t), ("t2i", t2i)):
            found = values(frame, direction=direction, pool="language")
            for metric in metrics:
                # Text to image is a mean over captions, however many an image has.
                assert found[language, metric] == pytest.approx(placed.score(metric).mean(), abs=1e-9)


def test_without_the_metrics_that_need_them_no_placements_are_made_and_nothing_changes(tower, uneven):
    quick = score(tower, uneven, ["R@1", "MRR", "Acc@3"], protocol="all", pools=["language", "mixed"], **QUIET)
    whole = score(
        tower, uneven, ["R@1", "MRR", "Acc@3", "NDCG@5"], protocol="all", pools=["language", "mixed"], **QUIET
    )
    whole = whole[whole["metric"] != "NDCG@5"].reset_index(drop=True)
    key = ["pool", "direction", "language", "tier", "metric"]
    quick, whole = (frame.sort_values(key).reset_index(drop=True) for frame in (quick, whole))
    assert quick[key].equals(whole[key])
    for name in ("value", "low", "high"):
        assert quick[name].to_numpy() == pytest.approx(whole[name].to_numpy(), abs=1e-9)


def test_the_default_metrics_are_those_of_a_sweep(tower, corpus):
    """R@1, R@5, R@10 and MRR of the frozen tower, as `rank` gives them."""
    frame = score(tower, corpus, **QUIET)
    owner = torch.arange(len(corpus))
    gallery = unit(tower.embed_images(corpus), "images")
    for language in LANGUAGES:
        ranks = rank(unit(tower.embed_captions(corpus, language), "texts"), gallery, owner)
        for direction in ("i2t", "t2i"):
            found = values(frame, direction=direction)
            for metric in ("R@1", "R@5", "R@10", "MRR"):
                assert found[language, metric] == pytest.approx(ranks[direction].score(metric).mean())
    assert set(frame["n"]) == {40}
    assert set(frame["protocol"]) == {"first"}


def test_a_mixed_pool_makes_captions_of_all_languages_compete(tower, uneven):
    frame = score(tower, uneven, ["R@1", "Acc@5", "recall@10"], protocol="all", pools=["mixed"], **QUIET)
    assert set(frame["direction"]) == {"i2t"}
    parts = {language: matrix(tower, uneven, language, "all") for language in LANGUAGES}
    scores = np.concatenate([part for part, _ in parts.values()], axis=1)
    owner = np.concatenate([own for _, own in parts.values()])
    language = np.repeat(LANGUAGES, [len(own) for _, own in parts.values()])
    targets = Targets.of_images(owner, len(uneven))
    placed = Placements.of_scores(scores, targets)
    found = values(frame)
    for metric in ("R@1", "Acc@5", "recall@10"):
        assert found["any", metric] == pytest.approx(placed.score(metric).mean(), abs=1e-9)
        for own in LANGUAGES:
            only = placed.subset(language[targets.candidate] == own)
            assert found[own, metric] == pytest.approx(only.score(metric).mean(), abs=1e-9)
    assert found["any", "Acc@5"] >= max(found[own, "Acc@5"] for own in LANGUAGES)


def test_tiers_have_means_and_a_gap(tower, corpus):
    found = values(score(tower, corpus, ["R@1"], directions=["i2t"], **QUIET))
    frame = score(tower, corpus, ["R@1"], directions=["i2t"], **QUIET)
    rows = {(row["language"], row["tier"]): row["value"] for row in frame.to_dict("records")}
    high = (found["en", "R@1"] + found["de", "R@1"]) / 2
    assert rows["mean", "HRL"] == pytest.approx(high)
    assert rows["mean", "LRL"] == pytest.approx(found["sw", "R@1"])
    assert rows["gap", "HRL − LRL"] == pytest.approx(high - found["sw", "R@1"])


def test_captions_that_two_images_share_tie_although_batches_differ(tower, corpus, monkeypatch):
    """An embedding that depends on its place in the last bits, as one from another batch does."""
    names = tuple((texts[0],) for texts in corpus.captions["en"])
    twice = names[:20] * 2
    two = dataclasses.replace(corpus, captions={"en": twice, "de": twice, "sw": corpus.captions["sw"]})
    plain = type(tower).embed_captions

    def noisy(self, *arguments, **options):
        rows = plain(self, *arguments, **options)
        noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(sum(arguments[1].encode())))
        return rows * (1 + 3e-7 * noise)

    monkeypatch.setattr(type(tower), "embed_captions", noisy)
    embedded = embed(tower, two, ["en", "de", "sw"], progress=False)
    english, german = embedded.captions["en"], embedded.captions["de"]
    assert torch.equal(english[:20], english[20:])
    # This tower does not read the language: the same text is the same in both.
    assert torch.equal(english, german)
    found = score(tower, two, ["R@1"], languages=["en"], directions=["i2t"], ties=["optimistic", "expected"], **QUIET)
    optimistic, expected = found["value"].to_numpy()[:2]
    assert expected == pytest.approx(optimistic / 2)


def test_languages_that_read_differently_are_not_made_equal(tower, corpus, monkeypatch):
    same = dataclasses.replace(corpus, captions=dict.fromkeys(LANGUAGES, corpus.captions["en"]))
    plain = type(tower).embed_captions

    def conditioned(self, corpus, language, protocol="first"):
        return plain(self, corpus, language, protocol) + (0.01 if language == "de" else 0)

    monkeypatch.setattr(type(tower), "embed_captions", conditioned)
    rows = embed(tower, same, LANGUAGES, progress=False).captions
    assert torch.equal(rows["en"], rows["sw"])
    assert not torch.equal(rows["en"], rows["de"])


def test_a_pivot_language_stands_for_the_images_and_is_not_scored_itself(tower, corpus):
    frame = score(tower, corpus, ["R@1"], directions=["t2i"], pivot="en", **QUIET)
    assert set(frame["gallery"]) == {"captions:en"}
    found = values(frame)
    assert ("en", "R@1") not in found
    rows = {own: unit(tower.embed_captions(corpus, own), own) for own in ("en", "de")}
    expected = rank(rows["de"], rows["en"], torch.arange(len(corpus)))["t2i"].score("R@1").mean()
    assert found["de", "R@1"] == pytest.approx(expected)
    with pytest.raises(InputError, match="'en' would be scored against itself"):
        score(tower, corpus, ["R@1"], languages=["en", "de"], pivot="en", **QUIET)


def test_a_tower_of_many_vectors_is_scored_by_maxsim(get_tower, corpus):
    """The sum runs over the tokens of the caption in both directions."""
    tower = get_tower("colqwen2")
    few = corpus.select(["en", "sw"], limit=5)
    captions = dict(few.captions)
    captions["sw"] = (*captions["sw"][:4], captions["sw"][1])  # two images share one
    few = dataclasses.replace(few, captions=captions)
    metrics = ["R@1", "MRR", "recall@2"]
    frame = score(tower, few, metrics, pools=["language", "mixed"], **QUIET)
    gallery = tower.embed_images(few)
    scores = {own: maxsim(tower.embed_captions(few, own), gallery) for own in ("en", "sw")}
    scores["sw"][4] = scores["sw"][1]
    own = Targets.of_captions(np.arange(5))
    for language, table in scores.items():
        for direction, matrix in (("i2t", table.T), ("t2i", table)):
            expected = Placements.of_scores(matrix, own)
            found = values(frame, direction=direction, pool="language")
            for metric in metrics:
                assert found[language, metric] == pytest.approx(expected.score(metric).mean())
    mixed = Placements.of_scores(np.concatenate(list(scores.values())).T, Targets.of_images(np.arange(10) % 5, 5))
    for metric in metrics:
        assert values(frame, pool="mixed")["any", metric] == pytest.approx(mixed.score(metric).mean())


def test_two_protocols_are_compared_image_by_image(tower, uneven):
    both = {p: estimate(tower, uneven, ["R@1"], protocol=p, directions=["i2t"], **QUIET) for p in ("first", "all")}
    difference = both["all"].minus(both["first"])
    assert set(difference["protocol"]) == {"all − first"}
    first, every = (values(both[p].frame)["en", "R@1"] for p in ("first", "all"))
    assert values(difference)["en", "R@1"] == pytest.approx(every - first)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"metrics": ["R@1", "precision@5"]}, "no metric 'precision@5'"),
        ({"metrics": []}, "Nothing was asked for"),
        ({"protocol": "some"}, "no protocol 'some'"),
        ({"pools": ["mix"]}, "no pool 'mix'.*'mixed'"),
        ({"directions": ["t2t"]}, "no direction 't2t'"),
        ({"pools": ["mixed"], "directions": ["t2i"]}, "searched from an image"),
        ({"ties": ["random"]}, "no rule 'random'"),
        ({"languages": ["xx"]}, "no language 'xx'"),
        ({"tier_map": "s9"}, "'s9'"),
        ({"resamples": 0}, "resamples=0"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_embedded(tower, corpus, options, says, monkeypatch):
    monkeypatch.setattr(type(tower), "embed_images", None)
    monkeypatch.setattr(type(tower), "embed_captions", None)
    with pytest.raises(InputError, match=says):
        score(tower, corpus, **{**QUIET, **options})


@pytest.fixture(scope="module")
def classes(corpus: Corpus) -> ClassificationCorpus:
    """Two pictures of each of 12 emoji; Swahili names eight of them, two alike."""
    names = {own: [texts[0] for texts in corpus.captions[own][:12]] for own in ("en", "sw")}
    swahili = [*names["sw"][:7], names["sw"][2]]
    return ClassificationCorpus(
        name="emoji classes",
        image_ids=tuple(f"{corpus.image_ids[k]}/{copy}" for copy in range(2) for k in range(12)),
        image_classes=tuple(range(12)) * 2,
        classes={"en": tuple(range(12)), "sw": tuple(range(8))},
        labels={"en": tuple(names["en"]), "sw": tuple(swahili)},
        templates={"en": ("{}", "a picture of {}"), "sw": ("{}",)},
        open_image=lambda image_id: corpus.open_image(image_id.split("/")[0]),
        image_hash=corpus.image_hash,
        licence="",
        description="",
    )


def test_classes_are_scored_on_the_images_and_names_of_each_language(tower, classes):
    frame = score(tower, classes, ["top-1", "top-5", "mean per class"], ties=["expected", "first"], **QUIET)
    gallery = unit(tower.encode_images(classes.images()), "images")
    rows = {(r["language"], r["tier"], r["metric"], r["ties"]): r for r in frame.to_dict("records")}
    for language, tier, n, count in (("en", "HRL", 12, 24), ("sw", "LRL", 8, 16)):
        templates = classes.templates[language]
        labels = [template.replace("{}", label) for label in classes.labels[language] for template in templates]
        vectors = ensemble(tower.encode_text(labels, language).view(n, len(templates), -1))
        target = np.tile(np.arange(n), 2)
        scores = (gallery[[k for k in range(24) if k % 12 < n]] @ vectors.T).numpy()
        first = rows[language, tier, "top-1", "first"]
        hits = (scores.argmax(1) == target).mean()
        if language == "en":
            assert first["value"] == pytest.approx(100 * hits)
        assert (first["n"], first["classes"], first["templates"]) == (count, n, len(templates))
        assert first["chance"] == pytest.approx(100 / n)
        assert rows[language, tier, "top-5", "first"]["chance"] == pytest.approx(500 / n)
        # Two images a class: the mean per class is the mean.
        assert rows[language, tier, "mean per class", "first"]["value"] == pytest.approx(first["value"])
    assert rows["sw", "LRL", "top-1", "first"]["ceiling"] == pytest.approx(100 * classes.ceiling("sw"))
    assert rows["sw", "LRL", "top-1", "expected"]["ceiling"] == pytest.approx(100 * 7 / 8)
    assert rows["en", "HRL", "top-1", "expected"]["ceiling"] == 100
    mean = rows["mean", "all", "top-1", "expected"]["value"]
    both = [rows[own, tier, "top-1", "expected"]["value"] for own, tier in (("en", "HRL"), ("sw", "LRL"))]
    assert mean == pytest.approx(np.mean(both))
    gap = rows["gap", "HRL − LRL", "top-1", "expected"]
    assert gap["low"] <= gap["value"] <= gap["high"]


def test_two_classes_with_one_name_tie_although_they_are_listed_apart(tower, classes):
    """Emoji 2 and 7 have the same Swahili name: no image of either is told from the other's."""
    frame = score(tower, classes, ["top-1"], languages=["sw"], ties=["optimistic", "expected", "pessimistic"], **QUIET)
    found = {row["ties"]: row["value"] for row in frame.to_dict("records") if row["language"] == "sw"}
    assert found["optimistic"] > found["expected"] > found["pessimistic"]
    lost = found["optimistic"] - found["expected"]
    assert lost == pytest.approx(found["expected"] - found["pessimistic"])


@pytest.fixture(scope="module")
def questions(corpus: Corpus) -> ChoiceCorpus:
    """Which of four emoji is it? Asked in German and Swahili, of 20 emoji each."""
    names = {own: [texts[0] for texts in corpus.captions[own]] for own in LANGUAGES}

    def ask(k: int, language: str, country: str) -> Question:
        options = [k, (k + 1) % 40, (k + 7) % 40, (k + 13) % 40]
        options = options[k % 4 :] + options[: k % 4]
        return Question(
            id=f"{language}_{k}", language=language, country=country, question="?",
            options=tuple(names[language][o] for o in options), translated_question="?",
            translated_options=tuple(names["en"][o] for o in options), answer=options.index(k),
        )  # fmt: skip

    listed = [ask(k, "de", "Germany") for k in range(20)]
    listed += [ask(k, "sw", "Kenya" if k % 3 else "Tanzania") for k in range(20)]
    return ChoiceCorpus(
        name="emoji questions",
        questions=tuple(listed),
        open_image=lambda image_id: corpus.open_image(corpus.image_ids[int(image_id.split("_")[1])]),
        image_hash=lambda image_id: image_id,
        licence="",
        description="",
        template="{option}",
    )


def test_questions_are_scored_by_language_and_country(tower, corpus, questions):
    frame = score(tower, questions, **QUIET)
    rows = {(row["language"], row["country"]): row for row in frame.to_dict("records") if row["tier"] != "all"}
    gallery = unit(tower.embed_images(corpus), "images")
    for language, country, n in (("de", "Germany", 20), ("sw", "Kenya", 13), ("sw", "Tanzania", 7)):
        hits = []
        for question in questions.questions:
            if (question.language, question.country) == (language, country):
                texts = unit(tower.encode_text(list(question.options), language), "texts")
                hits.append(int((gallery[int(question.id.split("_")[1])] @ texts.T).argmax()) == question.answer)
        row = rows[language, country]
        assert row["value"] == pytest.approx(100 * np.mean(hits))
        assert (row["n"], row["chance"]) == (n, 25)
        assert (row["template"], row["variant"]) == ("{option}", "native")
    mean = next(row for row in frame.to_dict("records") if row["tier"] == "all")
    groups = [row["value"] for (_, country), row in rows.items() if isinstance(country, str)]
    assert len(groups) == 3
    assert mean["value"] == pytest.approx(np.mean(groups))


def test_two_variants_are_compared_question_by_question(tower, questions):
    native, translated = (estimate(tower, questions.asked(variant=v), **QUIET) for v in ("native", "translated"))
    difference = translated.minus(native)
    assert set(difference["variant"]) == {"translated − native"}
    assert values(difference)["mean", "accuracy"] == pytest.approx(
        values(translated.frame)["mean", "accuracy"] - values(native.frame)["mean", "accuracy"]
    )


def test_another_kind_of_corpus_is_refused(tower):
    with pytest.raises(InputError, match="A dict can't be scored so"):
        score(tower, {})
