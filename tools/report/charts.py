"""Charts as inline SVG: as wide as what they stand in, with text that keeps its size, coloured by the page's CSS.

Widths and places along the x axis are percentages and all else is in pixels, so that a chart needs no script to fit a
phone.  Each one has a title, and a description that says in words what it shows; a table beside it holds its numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from tools.report.markup import Markup, element, join

HEIGHT: Final = 120
"""Of the area that columns stand in."""
TOP: Final = 18
"""Above it: room for the values on the columns."""
BOTTOM: Final = 40
"""Below it: two lines of labels."""
FEW: Final = 6
"""So many columns have room for a value on each."""
LABELLED: Final = 12
"""So many columns have room for a label under each, if it is short."""
ROW: Final = 26
"""From one bar of `rows` to the next."""
CAPTION: Final = 16
"""More, where the labels are too long to stand before the bars and stand above them."""
LONG_LABEL: Final = 14
TENTHS_BELOW: Final = 10
"""Numbers below it are written with a fraction."""
LONGEST: Final = 72.0
"""Per cent of the width that the longest bar of `rows` takes; the value stands behind it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar: how large, and the name by which the page's CSS fills it."""

    value: float
    fill: str


@dataclass(frozen=True, slots=True)
class Column:
    """An upright bar of parts, the first at the bottom."""

    parts: Sequence[Part]
    label: str = ""
    """On top of it, where there is room."""
    mark: float | None = None
    """Where a line crosses it."""

    @property
    def height(self) -> float:
        """Up to where something is drawn."""
        return max(sum(part.value for part in self.parts), self.mark or 0)


@dataclass(frozen=True, slots=True)
class Tick:
    """What stands under a column: one line or two."""

    column: int
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Row:
    """A bar that lies: its label before it, its value behind it."""

    label: str
    parts: Sequence[Part]
    value: str


class Charts:
    """Draws the charts of one page; the ids in it are numbered."""

    def __init__(self) -> None:
        self._ids = count(1)

    def columns(
        self, title: str, description: str, columns: Sequence[Column], ticks: Sequence[Tick], *, whole: bool = False
    ) -> Markup:
        """Upright bars side by side, with lines across for their scale; `whole`: of numbers that have no fraction."""
        top = nice_ceiling(max((column.height for column in columns), default=0), whole=whole)
        slot = 100 / max(len(columns), 1)
        share = 0.62 if len(columns) <= LABELLED else 0.8
        middle = [] if whole and top % 2 else [top / 2]
        lines = [
            join(
                element("line", x1="0", x2="100%", y1=_level(value, top), y2=_level(value, top), class_="grid"),
                element("text", compact(value), x="-8", y=_level(value, top) + 4, class_="scale"),
            )
            for value in (0, *middle, top)
        ]
        bars = [
            _column(column, (place + (1 - share) / 2) * slot, slot * share, top, labelled=len(columns) <= FEW)
            for place, column in enumerate(columns)
        ]
        labels = [_tick(tick, len(columns), slot) for tick in ticks]
        return self._svg(title, description, TOP + HEIGHT + BOTTOM, "plot", *lines, *bars, *labels)

    def rows(self, title: str, description: str, rows: Sequence[Row]) -> Markup:
        """Bars below each other, the longest being as long as there is room."""
        longest = max((sum(part.value for part in row.parts) for row in rows), default=0) or 1
        above = max((len(row.label) for row in rows), default=0) > LONG_LABEL
        step, drawn = ROW + CAPTION * above, []
        for place, row in enumerate(rows):
            y, x = place * step + CAPTION * above, 0.0
            bar = []
            for part in row.parts:
                width = part.value / longest * LONGEST
                if part.value:
                    bar.append(_piece(x, width, y + 4, ROW - 10, part.fill))
                x += width
            drawn += [
                element("text", row.label, x="0", y=y)
                if above
                else element("text", row.label, x="-8", y=y + 17, class_="scale"),
                *bar,
                element("text", row.value, x=f"{x:.2f}%", dx="7", y=y + 17, class_="value"),
            ]
        return self._svg(title, description, len(rows) * step, "rows above" if above else "rows", *drawn)

    def nested(
        self, title: str, description: str, whole: Sequence[Part], inner: Sequence[Part], labels: tuple[str, str]
    ) -> Markup:
        """Two bars on one scale: `inner` shows what the first part of `whole` consists of."""
        total = sum(part.value for part in whole) or 1
        end = f"{whole[0].value / total * 100:.3f}%"
        bars = []
        for parts, y, height in ((whole, 18, 22), (inner, 62, 40)):
            x = 0.0
            for part in parts:
                width = part.value / total * 100
                if part.value:
                    bars.append(_piece(x, width, y, height, part.fill))
                x += width
        joins = [element("line", x1=x, x2=x, y1="40", y2="62", class_="join") for x in ("0", end)]
        texts = [element("text", label, x="0", y=y) for label, y in zip(labels, (12, 118), strict=True)]
        return self._svg(title, description, 124, "nested", *joins, *bars, *texts)

    def _svg(self, title: str, description: str, height: int, class_: str, *content: str) -> Markup:
        number = next(self._ids)
        return element(
            "svg",
            element("title", title, id=f"title-{number}"),
            element("desc", description, id=f"desc-{number}"),
            *content,
            role="img",
            aria_labelledby=f"title-{number} desc-{number}",
            class_=class_,
            height=height,
        )


def nice_ceiling(value: float, *, whole: bool = False) -> float:
    """The least of 1, 2, 3, 4, 5, 6 and 8 times a power of ten that is not below `value`, nor below 1 if `whole`."""
    if value <= 0 or (whole and value < 1):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * (1 - 1e-9))


def compact(value: float) -> str:
    """A number in few characters: `950`, `1.5k`, `25k`, `3M`; fractions only below ten."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{sign}"
    return f"{value:.2g}" if value < TENTHS_BELOW else f"{value:.0f}"


def _level(value: float, top: float) -> float:
    return TOP + HEIGHT * (1 - value / top)


def _column(column: Column, x: float, width: float, top: float, *, labelled: bool) -> Markup:
    drawn, below = [], 0.0
    for part in column.parts:
        if part.value:
            high, low = _level(below + part.value, top), _level(below, top)
            drawn.append(_piece(x, width, high, low - high, part.fill))
        below += part.value
    if column.mark is not None:
        level = _level(column.mark, top)
        drawn.append(element("rect", x=f"{x:.3f}%", width=f"{width:.3f}%", y=level - 1, height="2", class_="mark"))
    if labelled:
        height = _level(column.height, top) - 5
        drawn.append(element("text", column.label, x=f"{x + width / 2:.3f}%", y=height, class_="value middle"))
    return join(*drawn)


def _piece(x: float, width: float, y: float, height: float, fill: str) -> Markup:
    return element("rect", x=f"{x:.3f}%", width=f"{width:.3f}%", y=float(y), height=float(height), class_=fill)


def _tick(tick: Tick, columns: int, slot: float) -> Markup:
    """Under its column; what is wider than one keeps within the chart at its ends."""
    middle = ((tick.column + 0.5) * slot, "tick middle")
    ends = {0: (0.0, "tick"), columns - 1: (100.0, "tick end")}
    written = []
    for number, line in enumerate(tick.lines):
        within = columns > LABELLED or (columns > FEW and number > 0)
        place, class_ = ends.get(tick.column, middle) if within else middle
        y = TOP + HEIGHT + 16 + 17 * number
        written.append(element("text", line, x=f"{place:.3f}%", y=y, class_=class_))
    return join(*written)
