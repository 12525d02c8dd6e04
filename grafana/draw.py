"""Draws what the dashboards show, without Grafana, from a running Prometheus and the same queries.

python -m grafana.draw http://127.0.0.1:9090 --mesh tracking --output grafana/pictures
"""

import argparse
import json
import sys
import time
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
from matplotlib.figure import Figure

from grafana.ask import Prometheus
from grafana.build import WIDTH, placed
from grafana.drawing import Span, draw_panel
from grafana.generate import DASHBOARDS
from grafana.naming import GREY

CELL = 0.42, 0.26
"""Inches of one column, and of one row, of Grafana's grid."""
DPI = 80
POINTS = 240
"""A series has at most so many."""
SCRAPE = 2.0
"""Seconds between two scrapes, as `mirrormesh up --observe` has it: no finer step shows more."""


def draw(module: ModuleType, prometheus: Prometheus, span: Span) -> Figure:
    """Return the picture of one dashboard."""
    rows, top = [], 0
    for row in module.ROWS:
        panels = list(placed(row.panels, top + 2))
        rows.append((row.title, top, panels))
        top = max(bottom for *_, bottom in panels)
    figure = Figure(figsize=(WIDTH * CELL[0], (top + 2) * CELL[1]))
    whole = top + 2

    def at(left: float, upper: float, width: float, height: float) -> tuple[float, float, float, float]:
        return left / WIDTH, 1 - (upper + 2 + height) / whole, width / WIDTH, height / whole

    figure.text(0.01, 1 - 1 / whole, module.TITLE, size=13, weight="bold", va="center")
    figure.text(
        0.99, 1 - 1 / whole, f"mesh {prometheus.mesh}; minutes", size=10, color=GREY, ha="right", va="center"
    )
    for title, upper, panels in rows:
        figure.text(0.01, 1 - (upper + 3) / whole, title, size=11, weight="bold", va="center", color=GREY)
        for panel, left, above, _ in panels:
            place = at(left + 1.1, above + 1.2, panel.width - 1.5, panel.height - 2.6)
            draw_panel(figure.add_axes(place), panel, prometheus, span)
    return figure


DRAWN = "drawn.json"
"""The file beside the pictures that says what they show."""


def drawn() -> str:
    """Return the titles and queries of all panels, as a picture of now shows them."""
    boards = {
        name: {
            panel.title: [query.expr for query in panel.queries]
            for row in module.ROWS
            for panel in row.panels
        }
        for name, module in DASHBOARDS.items()
    }
    return json.dumps(boards, indent=1) + "\n"


def main() -> None:
    """Draw them all."""
    asked = argparse.ArgumentParser(description="Draw the dashboards from a running Prometheus.")
    asked.add_argument("prometheus", help="its address, http://127.0.0.1:9090 say")
    asked.add_argument("--mesh", required=True, help="the name of the mesh")
    asked.add_argument("--nodes", default=".+", help="a regular expression of nodes (all)")
    asked.add_argument("--minutes", type=float, default=15.0, help="how far back (15)")
    asked.add_argument("--ago", type=float, default=0.0, help="minutes from the pictures' end to now (0)")
    asked.add_argument("--output", type=Path, default=Path("grafana/pictures"), help="the folder of the PNG")
    given = asked.parse_args()
    end = time.time() - 60 * given.ago
    step = max(SCRAPE, 60 * given.minutes / POINTS)
    interval = f"{max(4 * SCRAPE, step + SCRAPE):.0f}s"  # as Grafana works out $__rate_interval
    shown = f"{60 * given.minutes:.0f}s"
    prometheus = Prometheus(given.prometheus, given.mesh, given.nodes, interval, shown)
    mpl.rcParams |= {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    given.output.mkdir(parents=True, exist_ok=True)
    for name, module in DASHBOARDS.items():
        try:
            figure = draw(module, prometheus, Span(end - 60 * given.minutes, end, step))
        except (OSError, ValueError) as error:
            sys.exit(f"{given.prometheus}: {error}")
        figure.savefig(given.output / f"{name}.png", dpi=DPI, pil_kwargs={"optimize": True})
    (given.output / DRAWN).write_text(drawn())


if __name__ == "__main__":
    main()
