"""One page that holds a whole result, for handing to a colleague.

The verdict comes first, then what it rests on, then the figures with their numbers, single captions to look
at, what to be careful about, and where every number comes from. The page is one file: it opens without a
network and reads nothing else, and its content security policy forbids it to try. All texts that come from
users or corpora are escaped. The same inputs give the same bytes.
"""

import base64
import gzip
import hashlib
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from analyses.base import Analysis, figure_html, json_script, template
from analyses.browser import BrowserData
from analyses.tables import table_html
from workbench.errors import InputError
from workbench.files import write_atomically

# A table beyond this is shown in part; its CSV in the page has all of it.
SHOWN_ROWS = 250

_OWN_SECTIONS = ("patch-browser", "caveats", "provenance")


def write_report(
    path: str | Path,
    *,
    title: str,
    verdict: str,
    evidence: Sequence[tuple[str, str]],
    analyses: Sequence[Analysis],
    browser: BrowserData | None = None,
    caveats: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """Write the page.

    Parameters
    ----------
    path : str or Path
        Its folder is made if it is absent.
    title : str
    verdict : str
        One sentence.
    evidence : sequence of (str, str)
        A label and what was found, one line each.
    analyses : sequence of Analysis
        In the order of the page; names must differ.
    browser : BrowserData, optional
    caveats : sequence of str
    provenance : mapping, optional
        JSON-like; a run's manifest.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    InputError
        If two analyses have one name, or there is no verdict.
    """
    if not verdict.strip():
        raise InputError("The verdict is empty. A report opens with one sentence that says what was found.")
    names = [*_OWN_SECTIONS, *(analysis.name for analysis in analyses)]
    if len(set(names)) < len(names):
        raise InputError(
            f"Two sections of the page would have one name. The analyses are called {', '.join(names[3:])}; give each "
            f"its own name, and none of {', '.join(_OWN_SECTIONS)}."
        )
    sections = [
        (analysis.name, analysis.title, body) for analysis, body in zip(analyses, _bodies(analyses), strict=True)
    ]
    if browser is not None:
        sections.append((_OWN_SECTIONS[0], "Single captions, before and after a patch", _browser(browser)))
    if caveats:
        items = "".join(f"<li>{html.escape(text)}</li>\n" for text in caveats)
        sections.append((_OWN_SECTIONS[1], "What to be careful about", f"<ul>\n{items}</ul>"))
    if provenance:
        sections.append((_OWN_SECTIONS[2], "Where the numbers come from", _provenance(provenance)))
    write_atomically(Path(path), _page(title, verdict, evidence, sections, browser is not None).encode())
    return Path(path)


def _page(
    title: str,
    verdict: str,
    evidence: Sequence[tuple[str, str]],
    sections: Sequence[tuple[str, str, str]],
    has_browser: bool,
) -> str:
    from plotly.offline import get_plotlyjs

    plotly = f"\n{get_plotlyjs()}\n"
    script = "\n" + template("figures.js") + (template("browser.js") if has_browser else "") + "\n"
    links = "".join(f'<li><a href="#{key}">{html.escape(name)}</a></li>\n' for key, name, _ in sections)
    return Template(template("report.html")).substitute(
        title=html.escape(title),
        verdict=html.escape(verdict),
        evidence=_evidence(evidence),
        contents=f'<nav aria-label="Contents"><ul>\n{links}</ul></nav>' if links else "",
        sections="\n".join(
            f'<section id="{key}" aria-labelledby="{key}-title">\n'
            f'<h2 id="{key}-title">{html.escape(name)}</h2>\n{body}\n</section>'
            for key, name, body in sections
        ),
        css=template("report.css"),
        policy=_policy(plotly, script),
        # The template has line breaks around its scripts, and the hashes of the policy count them.
        plotly=plotly[1:-1],
        js=script[1:-1],
    )


def _policy(*scripts: str) -> str:
    """Allow these scripts and nothing else: no other script, no network, no form."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return html.escape(
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "font-src data:; form-action 'none'; base-uri 'none'"
    )


def _evidence(evidence: Sequence[tuple[str, str]]) -> str:
    if not evidence:
        return ""
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>\n" for name, text in evidence)
    return f'<dl class="evidence">\n{rows}</dl>'


# -- figures and tables ------------------------------------------------------------------------------


def _bodies(analyses: Sequence[Analysis]) -> list[str]:
    """Return the body of each section; a table that two analyses share is in the page once."""
    bodies: list[str] = []
    seen: dict[str, Analysis] = {}
    for analysis in analyses:
        table = analysis.csv()
        first = seen.setdefault(table, analysis)
        if first is analysis:
            numbers = _table_details(analysis, table)
        else:
            numbers = (
                f'<p class="note">Its numbers are those of the table under '
                f'<a href="#{first.name}">{html.escape(first.title)}</a>.</p>'
            )
        bodies.append(
            f"<figure>\n{figure_html(analysis)}\n<figcaption>{html.escape(analysis.caption)}</figcaption>\n</figure>\n"
            f"{numbers}"
        )
    return bodies


def _table_details(analysis: Analysis, csv: str) -> str:
    rows = len(analysis.table)
    size = f"{rows:,} row{'s' * (rows != 1)}" if rows <= SHOWN_ROWS else f"the first {SHOWN_ROWS} of {rows:,} rows"
    # No time in the header: the same table gives the same bytes.
    packed = base64.b64encode(gzip.compress(csv.encode(), mtime=0)).decode()
    key = f"csv-{analysis.name}"
    return (
        f"<details>\n<summary>Numbers ({size})</summary>\n"
        f'<p><button type="button" class="download" data-csv="{key}">Download all as CSV</button></p>\n'
        f'<div class="scroll" tabindex="0" role="region" '
        f'aria-label="Numbers: {html.escape(analysis.title)}">\n'
        f"{table_html(analysis.table.head(SHOWN_ROWS))}\n</div>\n</details>\n"
        f"{json_script(key, {'name': f'{analysis.name}.csv', 'gzip': packed})}"
    )


# -- the rest of the page ----------------------------------------------------------------------------


def _browser(data: BrowserData) -> str:
    fields = "".join(
        f'<label for="browser-{key}">{name}<select id="browser-{key}"></select></label>\n'
        for key, name in (("language", "language"), ("caption", "caption"), ("intervention", "intervention"))
    )
    return f"""<p class="note">{html.escape(data.note)}</p>
<div class="browser">
<div class="controls">
{fields}<label for="browser-depth"><span>patched at <span id="browser-depth-name"></span></span>
<input type="range" id="browser-depth" min="0" max="0" step="1" value="0"></label>
</div>
<dl class="texts" id="browser-texts"></dl>
<p class="note" id="browser-does"></p>
<div class="arms" aria-live="polite">
<div>
<h3>Before: frozen tower</h3>
<p class="rank" id="browser-before-rank"></p>
<ol class="images" id="browser-before"></ol>
</div>
<div>
<h3 id="browser-after-title">After</h3>
<p class="rank" id="browser-after-rank"></p>
<ol class="images" id="browser-after"></ol>
</div>
</div>
<h3>Rank of the right image (t2i), by depth of the patch</h3>
<ol class="strip" id="browser-strip"></ol>
</div>
{json_script("patch-browser-data", data.to_json())}"""


def _provenance(provenance: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{html.escape(key)}</th><td>{html.escape(value)}</td></tr>\n'
        for key, value in flattened(provenance)
    )
    return (
        f"<details>\n<summary>Everything that the run depends on</summary>\n"
        f'<table class="provenance">\n<tbody>\n{rows}</tbody>\n</table>\n</details>'
    )


def flattened(content: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Return nested JSON-like content as (dotted key, text) pairs; a list of plain values is one text."""
    if isinstance(content, Mapping) and content:
        pairs = ((f"{prefix}.{key}" if prefix else str(key), value) for key, value in content.items())
    elif isinstance(content, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in content):
        pairs = ((f"{prefix}[{place}]", value) for place, value in enumerate(content))
    elif isinstance(content, list | tuple):
        return [(prefix, ", ".join(map(str, content)) or "none")]
    else:
        empty = content is None or content == {} or content == ""
        return [(prefix, "none" if empty else str(content))]
    return [pair for key, value in pairs for pair in flattened(value, key)]
