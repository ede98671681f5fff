"""The benchmark's plots, to be read on a light and on a dark page alike."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from matplotlib.figure import Figure

from benchmarks.figures import (
    BARE,
    FULL_READ,
    HANDLER,
    LAYOUTS,
    NAIVE,
    UNTUNED,
    Measured,
    Variant,
)
from benchmarks.memory import INK

PRODUCT: Final = "#2f81f7"
OTHER: Final = "#d9730d"


def page_plot(measured: Measured) -> Figure:
    """A page's wall time beside its latency bound, and its processor time beside that of the bare calls."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    above, below = figure.subplots(2, 1)
    walls: dict[str, Variant] = {
        "one call after the other": NAIVE,
        "full read, its share": FULL_READ,
        **{f"paged, {layout}": HANDLER[layout] for layout in LAYOUTS},
    }
    _bars(above, {name: measured.wall(variant) for name, variant in walls.items()}, "ms for 1,000 bookings (log scale)")
    above.set_xscale("log")
    above.set_title(f"Wall time, each call {1000 * measured.latency:g} ms; the line is the time of waiting alone")
    names = list(_known({name: measured.wall(variant) for name, variant in walls.items()}))
    for layout in LAYOUTS:
        bound = measured.bound(layout)
        if bound is not None:
            place = names.index(f"paged, {layout}")
            above.plot([bound, bound], [place - 0.45, place + 0.45], color=INK, linewidth=2)
    works: dict[str, Variant] = {"object, default client": UNTUNED}
    for layout in LAYOUTS:
        works[f"{layout}, bare calls"] = BARE[layout]
        works[f"{layout}, the page function"] = HANDLER[layout]
    _bars(below, {name: measured.cpu(variant) for name, variant in works.items()}, "ms for 1,000 bookings")
    below.set_title("Processor time")
    return figure


def cost_plot(prices: Mapping[str, Mapping[str, float]]) -> Figure:
    """US dollars for a million records, by what they are spent with."""
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    axes = figure.add_subplot(title="Modelled cost of a million records, list prices", xscale="log")
    totals: dict[str, float | None] = {
        f"paged, {name}" if name in LAYOUTS else name: sum(services.values()) for name, services in prices.items()
    }
    _bars(axes, totals, "US dollars (log scale)", "$ {:,.2f}")
    return figure


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _bars(axes: Any, values: Mapping[str, float | None], unit: str, form: str = "{:,.0f}") -> None:
    """A bar for each value that is known, the first on top; the product's own in its colour."""
    known = _known(values)
    colours: Sequence[str] = [PRODUCT if _is_products(name) else OTHER for name in known]
    bars = axes.barh(list(known), list(known.values()), color=colours, height=0.6)
    axes.bar_label(bars, [form.format(value) for value in known.values()], padding=5, color=INK)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlabel(unit)
    axes.tick_params(length=0)
    axes.grid(axis="x", color=INK, alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)


def _is_products(name: str) -> bool:
    return name.startswith("paged") or name.endswith("the page function")
