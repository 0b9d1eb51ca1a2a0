"""The LinUCB benchmark as a picture: microseconds per round on a logarithmic scale, one panel per problem size."""

from __future__ import annotations

from io import BytesIO

from equipoise.lab.report import drawing
from tools.bench.samples import Benchmark

OWN, OTHER, FLOOR = "#1f6fb4", "#b9bec5", "#6b7280"


def draw(data: Benchmark) -> bytes:
    """The picture as PNG."""
    from matplotlib.figure import Figure

    rows = [row for row in data["contest"] if row["results"]]
    rows.sort(key=lambda row: row["results"][0]["micros"]["median"], reverse=True)  # the fastest on top
    names, shapes = [row["name"] for row in rows], rows[0]["results"]
    figure = Figure(figsize=(12, 1.2 + 0.36 * len(rows)), layout="constrained")
    for panel, shape in enumerate(shapes):
        axes = figure.add_subplot(1, len(shapes), panel + 1)
        micros = [row["results"][panel]["micros"]["median"] for row in rows]
        bars = axes.barh(names, micros, color=[color(name) for name in names], height=0.72)
        axes.bar_label(
            bars, [f"{each:,.3g}" if each < 1000 else f"{each:,.0f}" for each in micros], padding=3, fontsize=9
        )
        axes.set_xscale("log")
        drawing.readable_ticks(axes.xaxis)
        axes.set_xlim(min(micros) / 2, max(micros) * 6)  # room for the labels
        axes.set_title(f"{shape['dim']} features, {shape['n_actions']} actions", fontsize=11)
        axes.set_xlabel("Microseconds per round (log scale)")
        axes.tick_params(axis="y", length=0, labelleft=panel == 0)
        drawing.frame(axes, grid="x", labels=None)
        axes.spines["left"].set_visible(False)
    figure.suptitle("Time of one round of LinUCB: decide and learn, one thread (shorter is better)", fontsize=12)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()


def color(name: str) -> str:
    if name.startswith("equipoise"):
        return OWN
    return FLOOR if name in ("bare loop", "yardstick") else OTHER
