import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from workbench.corpora.images import check_exif, image_policy, open_image
from workbench.errors import InputError

RED, WHITE = (255, 0, 0), (255, 255, 255)


def encode(image: Image.Image, form: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def noise(side: int = 12) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_bytes_a_path_and_its_text_open_alike(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(encode(noise()))
    for source in (path.read_bytes(), path, str(path)):
        image = open_image(source)
        assert image.mode == "RGB"
        assert np.array_equal(np.asarray(image), np.asarray(noise()))


def test_what_is_transparent_becomes_white_whatever_colour_it_hides():
    drawing = Image.new("RGBA", (3, 1), (0, 0, 0, 0))
    drawing.putpixel((1, 0), (255, 0, 0, 255))
    drawing.putpixel((2, 0), (255, 0, 0, 51))
    image = open_image(encode(drawing))
    assert image.mode == "RGB"
    assert [image.getpixel((x, 0)) for x in range(3)] == [WHITE, RED, (255, 204, 204)]


def test_a_transparent_palette_colour_becomes_white():
    drawing = Image.new("P", (2, 1), 0)
    drawing.putpalette([0, 0, 255, 255, 0, 0])
    drawing.putpixel((1, 0), 1)
    for form in ("PNG", "GIF"):
        image = open_image(encode(drawing, form, transparency=0))
        assert [image.getpixel((x, 0)) for x in range(2)] == [WHITE, RED]


def test_partly_transparent_palette_colours_are_blended():
    drawing = Image.new("P", (2, 1), 0)
    drawing.putpalette([255, 0, 0, 255, 0, 0])
    drawing.putpixel((1, 0), 1)
    image = open_image(encode(drawing, transparency=bytes([51, 255])))
    assert [image.getpixel((x, 0)) for x in range(2)] == [(255, 204, 204), RED]


@pytest.mark.parametrize(("mode", "clear", "ink"), [("RGB", (0, 0, 255), RED), ("L", 7, 0)])
def test_a_colour_that_the_file_declares_transparent_becomes_white(mode, clear, ink):
    drawing = Image.new(mode, (2, 1), clear)
    drawing.putpixel((1, 0), ink)
    image = open_image(encode(drawing, transparency=clear))
    assert [image.getpixel((x, 0)) for x in range(2)] == [WHITE, ink if mode == "RGB" else (0, 0, 0)]


def test_grey_with_transparency_becomes_white_and_grey():
    drawing = Image.new("LA", (2, 1), (0, 0))
    drawing.putpixel((1, 0), (100, 255))
    image = open_image(encode(drawing))
    assert [image.getpixel((x, 0)) for x in range(2)] == [WHITE, (100, 100, 100)]


@pytest.mark.parametrize(
    ("mode", "white", "form"),
    [("L", 255, "PNG"), ("1", 1, "PNG"), ("CMYK", (0, 0, 0, 0), "JPEG"), ("L", 255, "JPEG")],
)
def test_other_colour_modes_become_rgb(mode, white, form):
    image = open_image(encode(Image.new(mode, (8, 8), white), form))
    assert image.mode == "RGB"
    assert image.getpixel((4, 4)) == WHITE


def test_sixteen_bit_grey_is_scaled_not_clipped():
    pixels = (np.arange(256, dtype=np.uint16) * 256 + 77).reshape(16, 16)
    image = open_image(encode(Image.fromarray(pixels)))
    assert np.array_equal(np.asarray(image), np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2))


def test_a_photo_stored_sideways_is_turned_upright():
    photo = Image.new("RGB", (16, 8), "white")
    photo.paste(RED, (0, 0, 8, 8))
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turn a quarter clockwise to view
    image = open_image(encode(photo, "PNG", exif=exif))
    assert image.size == (8, 16)
    assert (image.getpixel((4, 2)), image.getpixel((4, 14))) == (RED, WHITE)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_a_truncated_image_is_refused_wherever_it_is_cut(form):
    whole = encode(noise(), form)
    for length in range(0, len(whole) * 9 // 10, 7):
        with pytest.raises(InputError, match="The drawing of x can't be opened as an image"):
            open_image(whole[:length], "drawing of x")


@given(st.data())
@settings(max_examples=150, deadline=None)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning", "ignore:.*:UserWarning")
def test_a_damaged_image_opens_or_is_refused_and_nothing_else(data):
    form = data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]))
    content = bytearray(encode(noise(6), form))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)):
        content[place] = data.draw(st.integers(0, 255))
    with pytest.MonkeyPatch.context() as patch:
        # Damage may claim any size; keep the memory of this test small.
        patch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000_000)
        try:
            mode = open_image(bytes(content)).mode
        except InputError:
            mode = "refused"
    assert mode in ("RGB", "refused")


def test_an_image_of_absurd_size_is_refused():
    # A bitmap's header may claim any size; Pillow refuses to make room for this one.
    content = bytearray(encode(Image.new("RGB", (2, 2)), "BMP"))
    content[18:26] = (100_000).to_bytes(4, "little") * 2
    with pytest.raises(InputError, match="can't be opened as an image"):
        open_image(bytes(content))


def test_an_absent_file_a_folder_and_a_text_are_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.png' does not exist"):
        open_image(tmp_path / "absent.png")
    with pytest.raises(InputError, match="can't be opened as an image"):
        open_image(tmp_path)
    text = tmp_path / "text.png"
    text.write_text("no picture")
    with pytest.raises(InputError, match=r"The image '.*text\.png' can't be opened as an image"):
        open_image(text)


def test_a_photo_stored_sideways_is_left_so_where_its_benchmark_is_scored_so():
    photo = Image.new("RGB", (16, 8), "white")
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encode(photo, "PNG", exif=exif)
    assert open_image(content, exif="ignore").size == (16, 8)
    assert open_image(content, exif="apply").size == (8, 16)


def test_the_policy_is_one_of_two_and_can_be_said():
    assert image_policy("apply")["exif_rotation"] == "applied"
    assert image_policy("ignore")["exif_rotation"] == "ignored"
    with pytest.raises(InputError, match="no EXIF policy 'never'"):
        check_exif("never")


def tiff(values: np.ndarray, **tags) -> bytes:
    return encode(Image.fromarray(values), "TIFF", **tags)


RAMP = np.linspace(0, 1, 256).reshape(16, 16)


@pytest.mark.parametrize("most", [255, 65535, 1_000_000, 2**31 - 1])
def test_32_bit_grey_is_scaled_by_its_range(most):
    image = np.asarray(open_image(tiff(np.round(RAMP * most).astype(np.int32))))
    assert np.array_equal(image[..., 0], np.round(RAMP * 255))
    assert (image[..., 0] == image[..., 1]).all()


@pytest.mark.parametrize("most", [1.0, 0.01, 3e8])
def test_fractions_are_scaled_by_their_range(most):
    image = np.asarray(open_image(tiff((RAMP * most).astype(np.float32))))
    assert np.abs(image[..., 0] - RAMP * 255).max() <= 1


def test_the_upper_half_of_unsigned_numbers_is_not_black():
    buffer = io.BytesIO(tiff(np.round(RAMP * (2**32 - 1)).astype(np.uint32).view(np.int32)))
    content = bytearray(buffer.getvalue())
    # Pillow writes them signed: tag 339 (SampleFormat), one short, 2 for signed and 1 for unsigned.
    place = content.find(b"\x53\x01\x03\x00\x01\x00\x00\x00\x02")
    assert place > 0
    content[place + 8] = 1
    image = np.asarray(open_image(bytes(content)))
    assert np.abs(image[..., 0] - RAMP * 255).max() <= 1


def test_negative_numbers_begin_at_black_and_nan_is_refused():
    image = np.asarray(open_image(tiff((RAMP * 2 - 1).astype(np.float32))))
    assert np.abs(image[..., 0] - RAMP * 255).max() <= 1
    for wrong in (np.nan, np.inf):
        with pytest.raises(InputError, match="NaN or infinite"):
            open_image(tiff(np.full((2, 2), wrong, np.float32)))


def test_no_program_is_started_for_an_image():
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    with pytest.raises(InputError, match="can't be opened as an image"):
        open_image(eps)
