"""HTML of the report page: the stylesheet, and helpers that escape everything they are given."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

STYLE = """
:root { color-scheme: light dark; --bg: #fbfbfd; --card: #ffffff; --text: #1b1f27; --muted: #667085; --grid: #d9dde5;
  --line: #e5e8ee; --accent: #1f6feb; --good: #137a4b; --bad: #b3261e; --shade: 31, 111, 235;
  --s0: #1f6feb; --s1: #d9650b; --s2: #137a4b; --s3: #8e44ad; --s4: #b8860b; --s5: #c2185b; }
@media (prefers-color-scheme: dark) { :root { --bg: #0f1218; --card: #171b23; --text: #e6e9ef; --muted: #98a2b3;
  --grid: #3a4150; --line: #2a303c; --accent: #6ea8ff; --good: #5fd39a; --bad: #ff8a80; --shade: 110, 168, 255;
  --s0: #6ea8ff; --s1: #ffa45c; --s2: #5fd39a; --s3: #cf9bff; --s4: #e5c15b; --s5: #ff85b3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .35rem; }
h2 { font-size: 1.25rem; margin: 0 0 .75rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .4rem; }
p { margin: .4rem 0 .8rem; max-width: 52rem; }
.lead { font-size: 1.1rem; }
.muted, figcaption { color: var(--muted); }
figcaption, .note { font-size: .9rem; max-width: 56rem; }
nav { margin: 1rem 0 1.5rem; display: flex; flex-wrap: wrap; gap: .35rem 1rem; font-size: .92rem; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.4rem 1.5rem;
  margin: 0 0 1.25rem; }
figure { margin: 0; } figure svg { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { padding: .45rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; color: var(--muted); font-size: .85rem; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
tr.own td:first-child { font-weight: 700; } tr.ceiling td { color: var(--muted); }
td.bar { min-width: 13rem; padding: .45rem .4rem; }
.range { position: relative; height: 1rem; border-left: 1px solid var(--grid); border-right: 1px solid var(--grid); }
.range i, .range b { position: absolute; background: var(--colour, var(--muted)); }
.range i { top: .38rem; height: .24rem; border-radius: .2rem; opacity: .55; }
.range b { top: .18rem; width: .64rem; height: .64rem; margin-left: -.32rem; border-radius: 50%; }
.tag { font-size: .75rem; border: 1px solid var(--grid); border-radius: 1rem; padding: .05rem .5rem; margin-left: .4rem;
  color: var(--muted); font-weight: 400; }
.heat td, .heat th { text-align: center; padding: .4rem .3rem; } .heat th { white-space: normal; }
.heat td:first-child, .heat th:first-child { text-align: left; white-space: normal; min-width: 9rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
details { border-top: 1px solid var(--line); padding: .6rem 0; } summary { cursor: pointer; font-weight: 600; }
summary .muted { font-weight: 400; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--bg); border: 1px solid var(--line);
  border-radius: 8px; padding: .7rem .9rem; max-height: 24rem; overflow: auto;
  font: .84rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
@media print { section { break-inside: avoid; border: 0; } nav { display: none; } }
"""


class Html(str):
    """Text that is HTML already; every other string is escaped by the helpers."""


def escape(value: object) -> Html:
    """`value` as HTML text."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def tag(name: str, *children: object, **attributes: str) -> Html:
    """One element; `class_` stands for class."""
    written = "".join(f' {key.rstrip("_")}="{html.escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")


def table(header: Sequence[object], rows: Iterable[tuple[str, Sequence[object]]], class_: str = "") -> Html:
    """A table that scrolls sideways on narrow screens.

    Args:
        header: column heads.
        rows: (class of the row, cells); a cell that is a `<td>` already is taken as it is.
        class_: class of the table.
    """
    body = [
        tag(
            "tr",
            *(cell if isinstance(cell, Html) and cell.startswith("<td") else tag("td", cell) for cell in cells),
            class_=kind,
        )
        for kind, cells in rows
    ]
    head = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in header)))
    return tag("div", tag("table", head, tag("tbody", *body), class_=class_), class_="scroll")


def interval_bar(mean: float, low: float, high: float, colour: str = "var(--muted)") -> Html:
    """A cell that shows a proportion and its interval on a scale from 0 to 1."""
    span = f"left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"
    drawing = tag(
        "div",
        tag("i", style=span),
        tag("b", style=f"left:{100 * mean:.1f}%"),
        class_="range",
        style=f"--colour:{colour}",
    )
    return tag("td", drawing, class_="bar", title=f"{mean:.1%}, 95% interval {low:.1%} to {high:.1%}")


def heat_cell(share: float, text: str) -> Html:
    """A cell shaded by `share`, 0 to 1."""
    return tag("td", text, style=f"background: rgba(var(--shade), {0.6 * share:.3f})")


def section(anchor: str, title: str, *content: object) -> Html:
    """One card of the page."""
    return tag("section", tag("h2", title), *content, id=anchor)


def figure(svg: str, caption: object) -> Html:
    """A drawing with its caption."""
    return tag("figure", Html(svg), tag("figcaption", caption))


def document(title: str, body: Iterable[object]) -> str:
    """The whole page. Nothing in it is loaded from anywhere: the policy in its head forbids it too."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<main>{''.join(escape(part) for part in body)}</main>\n</body>\n</html>\n"
    )
