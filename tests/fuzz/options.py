"""Every option that is a small language of its own, with what parses it and examples of what is sound."""

from collections.abc import Callable
from pathlib import Path

from analyses.commands.analysing import _prior, _rank
from analyses.commands.common import parse_depths, split_words
from analyses.export import _formats, parse_width
from interventions.by_name import default_names, interventions_by_name
from interventions.erasers import INLP
from workbench.corpora import load_corpus
from workbench.corpora.loading import find_corpus
from workbench.corpora.subsets import resolve_subset
from workbench.languages import HRL_6, LRL_5, tier_map, tiers
from workbench.metrics import parse_metric
from workbench.scoring import _check_pool
from workbench.splits import check_seed
from workbench.towers.planted import parse_planted
from workbench.towers.tokens import check_site

_CORPUS = load_corpus("emoji-36", ["en", "sw", "he", "zh"], limit=3)
_LANGUAGES = (*HRL_6, *LRL_5)


def _sizes(text: str) -> object:
    from analyses.commands.calibrating import parse_sizes

    return parse_sizes(text)


def _seed(text: str) -> object:
    try:
        number = int(text)
    except ValueError:
        return None  # typer says so
    return check_seed(number)


OPTIONS: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "option depths": (lambda text: parse_depths(text, 12), ["all", "0,4-8,N-3,N", "3", "N-12..N"]),
    "option metrics": (
        lambda text: [parse_metric(word) for word in split_words(text, "--metrics")],
        ["R@1,MRR", "NDCG@10"],
    ),
    "option pools": (lambda text: [_check_pool(word) for word in split_words(text, "--pools")], ["language,mixed"]),
    "option interventions": (
        lambda text: interventions_by_name(split_words(text, "--interventions"), tiers("s3"), _LANGUAGES),
        [
            "parallel:en,mean:HRL,random:en,noise,mid:en",
            "token:en:3,token:fr",
            "erase:inlp-4,erase:leace,erase:random-2",
        ],
    ),
    "option source": (lambda text: default_names(text, tiers("s3"), _LANGUAGES), ["en", "iw"]),
    "option languages": (lambda text: _CORPUS.select(split_words(text, "--languages")), ["en,sw", "iw,zho_Hans", "EN"]),
    "option ranks": (lambda text: [INLP(_rank(word)) for word in split_words(text, "--ranks")], ["12,64", "1"]),
    "option average": (
        lambda text: [_CORPUS.check_languages(w.split("+")) for w in split_words(text, "--average")],
        ["en+sw,he+zh"],
    ),
    "option seed": (_seed, ["0", "42"]),
    "option format": (lambda text: _formats([text]), ["pdf,csv", ".tex"]),
    "option width": (parse_width, ["column", "text", "3.25", "5in"]),
    "option images": (_sizes, ["100,500"]),
    "option prior": (_prior, ["half", "pool", "0.3"]),
    "option site": (check_site, ["pooled", "middle", "token 3", "token -1"]),
    "option tier-map": (tier_map, ["s3", "s0"]),
    "option corpus": (find_corpus, ["folder:tests", "cvqa:tests"]),
    "option subset": (lambda text: resolve_subset(text, "xm3600", ["a", "b"]), ["present"]),
    "option tower": (lambda text: parse_planted("planted-" + text), ["block-5", "none", "output"]),
    "option out": (lambda text: _out(text), ["runs/x"]),
}


def _out(text: str) -> object:
    from workbench.runs import default_folder

    return Path(default_folder("sweep", text, text, {}))
