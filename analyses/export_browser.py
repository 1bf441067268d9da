"""The browser that draws figures for print: one Chrome, started once, closed at the end.

Kaleido has Plotly draw a figure in one tab and hands back SVG or PNG. A second tab takes the finished SVG, tells
how much room its texts really take, and prints it to PDF. It is printed from there, as a part of a page, because
Chrome writes the characters behind shaped glyphs into a PDF only then: a picture of the same SVG looks alike, but
its Hindi, Thai or Telugu can't be searched or copied.

Both tabs are closed to the outside. A content security policy lets them load Plotly from the installed package
and nothing else, so a figure that names a picture on the web or a file on the disk gets neither.
"""

import asyncio
import base64
import html
import io
import json
import re
import zlib
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

from workbench.errors import InputError, WorkbenchError

SECONDS = 300
"""For one drawing; a figure takes about one, and much longer where many others use the machine."""

PX_PER_INCH = 96
"""CSS pixels, which are Plotly's."""

_Result = TypeVar("_Result")

_POLICY = """<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src %s; style-src 'unsafe-inline'; \
img-src data: blob:; font-src data:">
"""

_PAGE = """<!DOCTYPE html>
<html lang="en"><head>{policy}<title>{title}</title>
<style>@page {{ size: {width}px {height}px; margin: 0 }} body {{ margin: 0 }} svg {{ display: block }}</style>
</head><body>{svg}</body></html>"""

# Boxes of all texts, and of what else stands beside the axes.
_MEASURE = """(() => {
  const kinds = [["legend", ".legend"], ["title", ".g-gtitle"], ["note", ".annotation"], ["scale", ".colorbar"]];
  const found = [];
  const add = (element, kind, text) => {
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height) return;
    const sizes = [element, ...element.querySelectorAll("tspan")].map((e) => parseFloat(getComputedStyle(e).fontSize));
    found.push([kind, text, box.left, box.top, box.right, box.bottom, Math.min(...sizes)]);
  };
  document.querySelectorAll("svg text").forEach((text) => {
    const kind = kinds.find(([, selector]) => text.closest(selector));
    const tick = /^([xy])\\d*tick\\b/.exec(text.parentNode.getAttribute("class") || "");
    add(text, kind ? kind[0] : tick ? tick[1] + "tick" : "axis", text.textContent);
  });
  document.querySelectorAll("svg .legend > .bg").forEach((box) => add(box, "legend", ""));
  document.querySelectorAll("svg .colorbar .cbbg, svg .colorbar .cbfills").forEach((box) => add(box, "scale", ""));
  return JSON.stringify(found);
})()"""


class Box(NamedTuple):
    """Where something stands in a drawing, in CSS pixels from its left upper corner.

    Attributes
    ----------
    kind : str
        ``"title"``, ``"legend"``, ``"note"`` (an annotation), ``"scale"`` (of colours), ``"xtick"`` or ``"ytick"``
        (a label) or ``"axis"`` (all else).
    text : str
        Empty for the frame of a legend or a scale.
    left, top, right, bottom : float
    size : float
        Of the type, the smallest in the text.
    """

    kind: str
    text: str
    left: float
    top: float
    right: float
    bottom: float
    size: float


@dataclass(frozen=True)
class Drawing:
    """A finished figure.

    Attributes
    ----------
    name : str
    figure : dict
        What Plotly was given.
    width, height : float
        CSS pixels.
    svg : str
        As Plotly made it.
    """

    name: str
    figure: dict[str, Any]
    width: float
    height: float
    svg: str


class Chrome:
    """A running browser, as an asynchronous context.

    Raises
    ------
    InputError
        If Kaleido is not installed, or no Chrome is found or it does not start.
    """

    def __init__(self) -> None:
        if find_spec("kaleido") is None:
            raise InputError(
                "Figures are drawn with Kaleido, which is not installed: pip install 'eos-workbench[figures]'. The "
                "formats csv and tex need nothing."
            )
        import kaleido
        from kaleido.errors import ChromeNotFoundError

        class Page(kaleido.PageGenerator):
            header = f'<!DOCTYPE html>\n<html><head>{_POLICY % "file:"}<style id="head-style"></style><title></title>'

        try:
            # Extensions of the machine's own browser have no business here, and slow its start.
            self._kaleido = kaleido.Kaleido(
                page_generator=Page(mathjax=False), timeout=SECONDS, enable_extensions=False
            )
        except ChromeNotFoundError:
            raise InputError(
                "The formats pdf, svg and png are drawn by Chrome or Chromium, and none was found. Install one "
                "(Debian, Ubuntu: apt-get install chromium; elsewhere: kaleido_get_chrome) or name it in BROWSER_PATH. "
                "The formats csv and tex need none."
            ) from None

    async def __aenter__(self) -> "Chrome":
        try:
            await asyncio.wait_for(self._kaleido.open(), SECONDS)
            self._tab = await self._kaleido.create_tab("about:blank")
            tree = await self._command("Page.getFrameTree")
        except (TimeoutError, *_stops()) as error:
            with suppress(*_stops()):
                await self._kaleido.close()
            path = getattr(getattr(self._kaleido, "_browser_impl", None), "path", "")
            raise InputError(
                f"The browser {str(path)!r} did not start ({type(error).__name__}). Check that it starts by itself, or "
                "name another one in BROWSER_PATH. The formats csv and tex need none."
            ) from None
        self._frame = tree["frameTree"]["frame"]["id"]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        with suppress(*_stops()):
            await self._kaleido.close()
        if isinstance(error, _stops()):
            raise InputError(
                f"The browser stopped while it drew ({type(error).__name__}). Nothing was written; try again, with "
                "fewer figures where memory is short."
            ) from None

    async def draw(self, name: str, figure: dict[str, Any], width: float, height: float) -> Drawing:
        """Have Plotly draw a figure of so many CSS pixels."""
        blank = Drawing(name, figure, width, height, "")
        return replace(blank, svg=(await self._plotly(blank, "svg", 1)).decode())

    async def png(self, drawing: Drawing, dpi: int) -> bytes:
        """Return a drawing as PNG that says its own size in inches."""
        from PIL import Image

        content = await self._plotly(drawing, "png", dpi / PX_PER_INCH)
        buffer = io.BytesIO()
        with Image.open(io.BytesIO(content)) as image:
            # Paper is white all over; an alpha channel is one more thing for a printer to get wrong.
            image.convert("RGB").save(buffer, format="PNG", dpi=(dpi, dpi), optimize=True)
        return buffer.getvalue()

    async def measure(self, drawing: Drawing) -> list[Box]:
        """Return where the texts of a drawing stand."""
        await self._show(drawing, "")
        answer = await self._command("Runtime.evaluate", expression=_MEASURE)
        return [Box(*row) for row in json.loads(answer["result"]["value"])]

    async def pdf(self, drawing: Drawing, title: str) -> bytes:
        """Return a drawing as one page of PDF, of exactly its size and without a date."""
        await self._show(drawing, title)
        margins = dict.fromkeys(("marginTop", "marginBottom", "marginLeft", "marginRight"), 0)
        look = {"printBackground": True, "preferCSSPageSize": True, "generateTaggedPDF": False, "pageRanges": "1"}
        answer = await self._command("Page.printToPDF", **margins, **look)
        return undated(base64.b64decode(answer["data"]))

    async def _show(self, drawing: Drawing, title: str) -> None:
        page = _PAGE.format(
            policy=_POLICY % "'none'",
            title=html.escape(title),
            width=drawing.width,
            height=drawing.height,
            svg=drawing.svg,
        )
        await self._command("Page.setDocumentContent", frameId=self._frame, html=page)

    async def _command(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self._tab.send_command(method, params=params)
        if "error" in answer:
            raise WorkbenchError(f"The browser refused {method}: {answer['error'].get('message')}")
        return answer["result"]

    async def _plotly(self, drawing: Drawing, kind: Any, scale: float) -> bytes:
        from kaleido.errors import JavascriptError, KaleidoError

        options: Any = {"format": kind, "width": drawing.width, "height": drawing.height, "scale": scale}
        try:
            return await self._kaleido.calc_fig(drawing.figure, options)
        except (TimeoutError, JavascriptError, KaleidoError) as error:
            reason = str(error).split("\n")[0] or f"not ready after {SECONDS} s"
            raise InputError(f"Plotly can't draw {drawing.name!r}: {reason}.") from None


def _stops() -> tuple[type[Exception], ...]:
    """What choreographer, which steers the browser for Kaleido, raises when the browser is not there any more."""
    from choreographer.errors import BrowserClosedError, BrowserDepsError, BrowserFailedError, ChannelClosedError

    return BrowserClosedError, BrowserDepsError, BrowserFailedError, ChannelClosedError


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Wait for a coroutine, also where a notebook's own loop runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def undated(pdf: bytes) -> bytes:
    """Take the dates and the browser's name out of a PDF, so that the same figure gives the same bytes.

    Every replacement is as long as what it replaces: a PDF counts its bytes.
    """
    head, found, _ = pdf.partition(b"/CreationDate (")
    if not found:
        return pdf
    # From the beginning of the object to its end, which comes after the dates, as a title may hold a ">>".
    start, end = head.rfind(b"<<"), pdf.find(b">>", len(head))
    info = pdf[start:end]
    info = re.sub(rb"\(D:[^()]*\)", lambda match: b"(" + b"D:20000101000000+00'00'"[: len(match[0]) - 2] + b")", info)
    info = re.sub(
        rb"/Creator \((?:\\.|[^\\()])*\)",
        lambda match: b"/Creator (" + b"eos-workbench".ljust(len(match[0]) - 11) + b")",
        info,
    )
    return pdf[:start] + info + pdf[end:]


def sized_svg(drawing: Drawing, key: str) -> bytes:
    """Return SVG whose size is in inches and whose ids depend on ``key`` alone.

    Plotly draws six random letters into the ids of every figure.
    """
    found = re.search(r'\bid="defs-([0-9a-f]{6})"', drawing.svg)
    svg = drawing.svg
    if found:
        # Only inside of tags, and not a colour such as #4fd5bb.
        svg = re.sub(r"<[^<>]*>", lambda tag: re.sub(rf"(?<=[a-z-]){found[1]}", key, tag[0]), svg)
    inches = [f"{side / PX_PER_INCH:.4f}".rstrip("0").rstrip(".") for side in (drawing.width, drawing.height)]
    svg = re.sub(
        r'(<svg\b[^>]*?) width="[^"]*" height="[^"]*"',
        rf'\1 width="{inches[0]}in" height="{inches[1]}in"',
        svg,
        count=1,
    )
    return f"{svg}\n".encode()


def missing_glyphs(pdf: bytes) -> int:
    """Count the characters that a PDF of Chrome shows as empty boxes, as no font of the machine has them.

    Chrome takes the box from a figure's first font, where it is glyph 0, and names glyphs by numbers of four
    hexadecimal digits.
    """
    count = 0
    for start in re.finditer(rb"stream\r?\n", pdf):
        try:
            content = zlib.decompressobj().decompress(pdf[start.end() :])
        except zlib.error:
            continue
        for glyphs in re.findall(rb"<((?:[0-9A-F]{4})+)> Tj", content):
            count += sum(glyphs[place : place + 4] == b"0000" for place in range(0, len(glyphs), 4))
    return count
