"""Curves for the report as inline SVG: deterministic text, colours from the page's stylesheet so that themes apply.

matplotlib draws with marker colours that stand for CSS variables and are replaced afterwards; text stays text. It is
imported when a figure is drawn.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: line and marker of each series, beside its colour (--s0 … --s5 of the page): not everybody tells colours apart
STYLES = (("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ("-", "v"), ("--", "P"))
_SERIES = tuple(f"#0101{number:02x}" for number in range(1, 1 + len(STYLES)))
_TEXT, _GRID = "#020201", "#020202"
_VARIABLES = {color: f"var(--s{number})" for number, color in enumerate(_SERIES)} | {
    _TEXT: "currentColor",
    _GRID: "var(--grid)",
}


@dataclass(frozen=True)
class Line:
    """One series of a panel.

    Attributes:
        label: name in the legend.
        x: positions.
        y: values, as long as `x`.
        style: index of its colour and marker, so that one learner looks the same in all panels.
        faint: draw thin and without markers, as a reference.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: int
    faint: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: what is shown.
        x_label: with its unit.
        y_label: with its unit.
        lines: the series; one without points is left out.
        y_limits: fixed limits, or None.
        x_ticks: positions to label, or None.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    y_limits: tuple[float, float | None] | None = None
    x_ticks: Sequence[int] | None = None


def figure(name: str, panels: Sequence[Panel], label: str, columns: int = 2) -> str:
    """Panels side by side as one `<svg>` element.

    Args:
        name: prefix of the ids inside, unique on the page.
        panels: what to draw, row by row.
        label: what the figure shows, for those who cannot see it.
        columns: panels in a row.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    with matplotlib.rc_context(_RC):
        drawing = Figure(figsize=(4.6 * columns, 3.2 * rows), layout="constrained")
        FigureCanvasSVG(drawing)
        axes = list(drawing.subplots(rows, columns, squeeze=False).flat)
        for ax, panel in zip(axes, panels, strict=False):
            _draw(ax, panel)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        buffer = io.StringIO()
        drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue(), name, label, columns)


_RC: Any = {
    "svg.hashsalt": "toolcredit",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a `$` in a name is a dollar
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _TEXT,
    "axes.titlecolor": _TEXT,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "text.color": _TEXT,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _TEXT,
    "ytick.labelcolor": _TEXT,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 4.5,
}


def _draw(ax: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    for line in panel.lines:
        if not line.x:
            continue
        color = _SERIES[line.style % len(STYLES)]
        dashes, marker = STYLES[line.style % len(STYLES)]
        if line.faint:
            ax.plot(line.x, line.y, color=color, linewidth=1.0, alpha=0.45, label=line.label)
        else:
            every = max(1, len(line.x) // 12)
            ax.plot(line.x, line.y, dashes, color=color, marker=marker, markevery=every, label=line.label)
    ax.set_title(panel.title)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    ax.yaxis.set_major_formatter("{x:g}")  # no offset or power beside the title
    if panel.y_limits is not None:
        ax.set_ylim(*panel.y_limits)
    if panel.x_ticks is not None:
        ax.set_xticks(list(panel.x_ticks))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="best", fontsize=10)


def _inline(svg: str, name: str, label: str, columns: int) -> str:
    """The `<svg>` element alone, as wide as the page allows, with ids of its own and the page's colours."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(|href=")#', rf"\1#{name}-", svg)
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, variable)
    return svg.replace(
        "<svg", f'<svg role="img" aria-label="{html.escape(label)}" style="max-width: {36 * columns}rem"', 1
    )
