import pytest

from workbench.errors import InputError
from workbench.language_codes import (
    SCHEMES,
    Codes,
    bench_code,
    benchmark_code,
    codes_of,
    english_name,
    languages,
    model_code,
    own_codes,
    recognise,
    scheme_codes,
)
from workbench.languages import ENGLISH_NAMES, XM3600_LANGUAGES


@pytest.mark.parametrize(
    ("scheme", "count"), [("flores", 204), ("xm3600", 36), ("xtd10", 11), ("babel_imagenet", 298), ("cvqa", 31)]
)
def test_each_benchmark_has_as_many_languages_as_it_publishes(scheme, count):
    codes = scheme_codes(scheme)
    assert len(codes) == count
    assert len(set(codes.values())) == count, "two codes of one benchmark stand for one language"


def test_nllb_has_202_codes_and_lacks_two_of_flores():
    known = {row.nllb for row in languages().values() if row.nllb}
    assert len(known) == 202
    assert [code for code, own in scheme_codes("flores").items() if languages()[own].nllb is None] == [
        "arb_Latn",
        "min_Arab",
    ]


def test_the_tokeniser_of_nllb_knows_every_model_code():
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

    assert {row.nllb for row in languages().values() if row.nllb} == set(FAIRSEQ_LANGUAGE_CODES)


def test_the_bench_calls_the_36_as_crossmodal_3600_does():
    assert set(scheme_codes("xm3600").values()) == set(XM3600_LANGUAGES)
    assert all(own == theirs for theirs, own in scheme_codes("xm3600").items())
    assert {code: english_name(code) for code in XM3600_LANGUAGES} == ENGLISH_NAMES


@pytest.mark.parametrize(
    ("own", "flores", "babel", "xtd"),
    [
        ("sw", "swh_Latn", "SW", None),
        ("fil", "tgl_Latn", "TL", None),
        ("he", "heb_Hebr", "HE", None),
        ("no", "nob_Latn", "NO", None),
        ("nn", "nno_Latn", "NN", None),
        ("zh", "zho_Hans", "ZH", "zh"),
        ("ja", "jpn_Jpan", "JA", "jp"),
        ("fa", "pes_Arab", "FA", None),
        ("ar", "arb_Arab", "AR", None),
        ("mi", "mri_Latn", "MI", None),
        ("sq", "als_Latn", "SQ", None),
        ("gsw", None, "ALS", None),
        ("yue_Hant", "yue_Hant", "ZH_YUE", None),
        ("quz", None, None, None),
    ],
)
def test_a_language_has_its_code_in_each_benchmark(own, flores, babel, xtd):
    for scheme, code in (("flores", flores), ("babel_imagenet", babel), ("xtd10", xtd)):
        assert benchmark_code(own, scheme) == code
        if code:
            assert bench_code(code, scheme) == own


@pytest.mark.parametrize(
    ("own", "model"),
    [
        ("sw", "swh_Latn"),
        ("sat_Olck", "sat_Beng"),
        ("quz", "quy_Latn"),
        ("simple", "eng_Latn"),
        ("swh_Latn", "swh_Latn"),
    ],
)
def test_a_model_is_prompted_with_its_own_code(own, model):
    assert model_code(own) == model


def test_a_nearest_code_is_not_taken_for_the_language_itself():
    assert not languages()["quz"].exact
    assert languages()["sw"].exact
    assert recognise("quy_Latn") == "quy_Latn", "Ayacucho Quechua is not Cusco Quechua"
    assert bench_code("quy_Latn", "flores") == "quy_Latn"


@pytest.mark.parametrize(("alias", "own"), [("iw", "he"), ("nb", "no"), ("jp", "ja"), ("tl", "fil"), ("zh-Hans", "zh")])
def test_an_alias_is_recognised(alias, own):
    assert recognise(alias) == own


SPELLINGS = {
    "en": ["EN", " en", "en_US", "en-GB", "eng", "eng_Latn", "en-Latn"],
    "zh": ["zh-hans", "ZH_CN", "zho", "cmn_Hans", "zho_hans", "zh-Hans-CN", "zh-SG"],
    "zho_Hant": ["zh-hant", "zh_TW", "zh-HK", "zh-Hant-HK", "cmn_Hant"],
    "sw": ["swa", "swh", "swh_Latn", "SWH_LATN", "swa_Latn", "sw-KE"],
    "he": ["iw", "IW", "heb", "he_IL"],
    "id": ["in", "ind_Latn"],
    "ro": ["mo", "rum"],
    "sat_Olck": ["sat_Beng"],
    "no": ["nb", "nob_Latn", "nb_NO"],
    "arz_Arab": ["arz"],
    "arb_Latn": ["ar-Latn"],
}


@pytest.mark.parametrize(("own", "spelt"), [(own, spelt) for own, many in SPELLINGS.items() for spelt in many])
def test_a_language_is_recognised_however_it_is_spelt(own, spelt):
    assert recognise(spelt) == own


@pytest.mark.parametrize(
    "code",
    # Another language in spite of its beginning, one of two, a script that is none of the table, no code at all.
    ["zh-yue", "als", "ALS", "ace", "sr-Latn", "pa-Arab", "fa-AF", "ar-EG", "kas", "ok1", "sww", "en-x-mine", "", " "],
)
def test_what_may_be_another_language_is_not_recognised(code):
    assert recognise(code) is None


def test_no_code_of_a_benchmark_is_taken_for_another_language():
    wrong = [
        (code, own, recognise(spelt))
        for scheme in SCHEMES
        for code, own in scheme_codes(scheme).items()
        for spelt in (code, code.lower(), code.upper(), f" {code} ", code.replace("_", "-"))
        if recognise(spelt) not in (None, own)
    ]
    assert not wrong


def test_two_spellings_of_one_language_are_refused_by_name():
    assert own_codes(["EN", "ok1", "quz", "quy_Latn"], "x") == {
        "EN": "en", "ok1": "ok1", "quz": "quz", "quy_Latn": "quy_Latn"
    }  # fmt: skip
    for pair in (["en", "EN"], ["sw", "sw "], ["zho_Hans", "zh-CN"], ["no", "nb"]):
        with pytest.raises(InputError, match=f"x spells one language in two ways, {pair[0]!r} and {pair[1]!r}"):
            own_codes(pair, "x")


@pytest.mark.parametrize(
    "code", ["", " ", "..", "../evil", "/etc/x", "a\\b", "a\nb", "a\0", "\u200b", "x" * 250, 3, None]
)
def test_what_can_name_no_file_can_name_no_language(code):
    with pytest.raises(InputError, match=r"A language of x can't be called"):
        own_codes([code], "x")


def test_no_alias_hides_a_code_of_the_bench():
    table = languages()
    assert not [alias for row in table.values() for alias in row.aliases if alias in table]
    spellings = [spelling for row in table.values() for spelling in (*row.aliases, row.benchmarks.get("flores"))]
    given = [spelling for spelling in spellings if spelling]
    assert len(set(given)) == len(given)
    assert all(recognise(code) == code for code in table)


def test_every_row_can_name_a_cell_of_a_run():
    assert all(letter.isalnum() or letter in "-_.+" for code in languages() for letter in code)
    assert all(row.english for row in languages().values())


def test_an_unknown_code_stays_as_it_is_and_has_no_model():
    assert bench_code("xx", "flores") == "xx"
    assert benchmark_code("xx", "flores") is None
    assert codes_of("xx") == Codes("xx", None)
    assert recognise("xx") is None
    assert english_name("xx") == "xx"


def test_both_codes_come_together():
    assert codes_of("fil", "babel_imagenet") == Codes("TL", "tgl_Latn")
    assert codes_of("fil") == Codes("fil", "tgl_Latn")


def test_what_nllb_can_not_read_is_refused_and_named():
    with pytest.raises(InputError, match=r"NLLB-200 has no code for Breton \('br'\)"):
        model_code("br")
    with pytest.raises(InputError, match=r"has no 'swh_Lat'.*Did you mean 'swh_Latn'"):
        model_code("swh_Lat")


def test_an_unknown_scheme_is_refused():
    with pytest.raises(InputError, match="Did you mean 'flores'") as caught:
        scheme_codes("floress")
    assert all(scheme in str(caught.value) for scheme in SCHEMES)
