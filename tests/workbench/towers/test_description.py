import pytest

from workbench.errors import InputError
from workbench.towers import load_tower
from workbench.towers.description import Description, read_description, shipped

LEAST = """
checkpoint = "org/model"
model_class = "LlamaModel"
blocks = "layers"
template = "{text}"
pooling = "last"
"""
IMAGES = '[images]\ntemplate = "{image}"\ntoken = "<image>"\n'


def read(tmp_path, text, name="mine.toml") -> Description:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return read_description(path)


def test_five_lines_are_a_description(tmp_path):
    found = read(tmp_path, LEAST)
    assert (found.prompt.before, found.prompt.after) == ("", "")
    assert (found.causal, found.padding_side, found.output) == (True, "right", "last_hidden_state")
    assert found.images is None
    assert found.image_prompt is None


def test_everything_that_may_be_said_is_read(tmp_path):
    text = LEAST.replace("{text}", "<s>[INST] {text} [/INST]\\n") + (
        'name = "mine"\nrevision = "abc"\nprocessor = "org/other"\nnorm = "norm"\nprojection = "proj"\n'
        'causal = false\nnormalise = true\nmax_length = 77\npadding_side = "left"\nspecial_tokens = false\n'
        'output = "hidden"\nremote_code = true\ninputs = { task = "retrieval" }\n'
        '[images]\ntemplate = "{image}!"\ntoken = "<image>"\npooling = "mean"\nspan = ["<a>", "<b>"]\n'
        'positions = "sequence"\nsize = [8, 9]\noptions = { crop = false }\n'
        '[facts]\nverified = ["one"]\nunverified = ["two"]\n'
    )
    found = read(tmp_path, text)
    assert (found.prompt.before, found.prompt.after) == ("<s>[INST] ", " [/INST]\n")
    assert not found.prompt.special
    assert found.inputs == {"task": "retrieval"}
    assert found.images is not None
    assert found.images.span == ("<a>", "<b>")
    assert found.images.size == (8, 9)
    assert found.facts.unverified == ("two",)
    assert set(vars(found)) == set(Description.__dataclass_fields__)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("checkpoint = ", r"'mine\.toml' is not TOML: Invalid value"),
        (LEAST + "pooled = 3", r"unknown key 'pooled'\. Did you mean 'pooling'\? Known: checkpoint, model_class"),
        (LEAST.replace('pooling = "last"', ""), r"lacks the key 'pooling'\. It needs checkpoint, model_class, blocks"),
        (
            LEAST.replace('"last"', '"lst"'),
            r"has pooling = 'lst'\. Did you mean 'last'\? Use 'last', 'mean', .* or 'cls'",
        ),
        (LEAST.replace('"last"', "3"), "has pooling = 3"),
        (LEAST.replace('"layers"', "12"), "has blocks = 12; it must be text"),
        (LEAST.replace('"layers"', '" "'), "has blocks = ' ', which is empty"),
        (LEAST.replace("{text}", "a caption"), r"has 0 times \{text\} in its template 'a caption'"),
        (LEAST.replace("{text}", "{text} {text}"), r"has 2 times \{text\} in its template"),
        (LEAST.replace("{text}", "{text.upper}"), r"has 0 times \{text\}"),
        (LEAST + "causal = 1", "has causal = 1; it must be true or false"),
        (LEAST + "max_length = true", "has max_length = True; it must be a whole number"),
        (LEAST + "max_length = 0", "has max_length = 0; it must be at least 1"),
        (LEAST + 'padding_side = "both"', r"has padding_side = 'both'\. Use 'left' or 'right'"),
        (LEAST + 'inputs = "x"', "has inputs = 'x'; it must be a table"),
        (LEAST + "images = 3", r"has images = 3; it must be a table, \[images\]"),
        (
            LEAST + '[images]\ntoken = "<i>"',
            r"lacks the key 'images\.template'\. It needs images\.template, images\.token",
        ),
        (LEAST + IMAGES + 'tokn = "x"', r"unknown key 'images\.tokn'\. Did you mean 'token'"),
        (LEAST + IMAGES.replace("{image}", "{text}"), r"has 0 times \{image\} in its images\.template '\{text\}'"),
        (LEAST + IMAGES + 'span = ["<a>"]', r"has images\.span = \['<a>'\]; give its two tokens"),
        (LEAST + IMAGES + "span = [1, 2]", r"has images\.span = \[1, 2\]; it must be a list of text"),
        (LEAST + IMAGES + "size = [8]", r"has images\.size = \[8\]; give height and width"),
        (LEAST + IMAGES + "size = [8, 0]", r"has images\.size = \[8, 0\]; give height and width"),
        (LEAST + IMAGES + 'positions = "rope"', r"has images\.positions = 'rope'"),
        (LEAST + "[facts]\nverified = 3", r"has facts\.verified = 3; it must be a list of text"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_clear_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value).replace(str(error.value.__cause__), "")
    with pytest.raises(InputError, match=message):
        load_tower(tmp_path / "mine.toml")


def test_bytes_that_are_no_text_are_one_clear_line(tmp_path):
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not TOML"):
        load_tower(tmp_path / "mine.toml")


def test_descriptions_that_ship_are_valid_and_say_how_far_they_were_verified():
    assert {
        "bge-vl-mllm-s1",
        "e5-v",
        "internvl2.5",
        "jina-embeddings-v4",
        "lamra-ret",
        "llave",
        "qwen2.5-vl",
        "vlm2vec",
    } <= set(shipped())
    for name, path in shipped().items():
        found = read_description(path)
        assert found.facts.verified, name
        assert any("were not run" in fact for fact in found.facts.unverified), name


def test_a_name_that_is_nearly_one_that_ships_suggests_it():
    with pytest.raises(InputError, match="Did you mean 'e5-v'"):
        load_tower("e5v")


def test_a_model_that_needs_remote_code_is_refused_and_the_risk_named():
    with pytest.raises(
        InputError, match=r"needs Python code .*'jinaai/jina-embeddings-v4'.* whatever you can.*remote_code=True"
    ):
        load_tower("jina-embeddings-v4")
