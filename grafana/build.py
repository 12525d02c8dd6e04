"""Panels into Grafana's dashboards: one look for all."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    timeseries,
    xychart,
)
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    GridPos,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.panels import AXES, BLUE, MESH, NODES, ORANGE, TARGET, Panel, Row, metric
from streams.metrics.catalogue import PREFIX

RUNBOOKS = Path(__file__).parents[1] / "deploy" / "prometheus" / "runbooks.md"
RUNBOOKS_AT = "https://runbooks.example/mirrormesh"
"""Where people open the runbooks, until they write their own address into the variable."""
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
WIDTH = 24
RESTARTED = f"changes({metric('node_starts_total', NODES)}[$__rate_interval]) > 0"
REPLANNED = f"max(changes({metric('plan_members', MESH)}[$__rate_interval])) > 0"
"""What is marked on every panel over time."""


def built(uid: str, title: str, description: str, rows: Sequence[Row]) -> dashboard.Dashboard:
    """Return a dashboard: variables datasource, mesh and node, then the rows from top to bottom."""
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["mirrormesh"])
        .readonly()
        .refresh("10s")
        .time("now-15m", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .link(_others())
        .annotation(_event("Starts", ORANGE, RESTARTED, "{{node}} has started"))
        .annotation(_event("Plans", BLUE, REPLANNED, "the plan's members change"))
        .with_variable(_choice("mesh", f"label_values({PREFIX}_build_info, mesh)"))
        .with_variable(
            _choice("node", f'label_values({PREFIX}_build_info{{mesh="$mesh"}}, node)', several=True)
        )
    )
    runbooks = dashboard.TextBoxVariable("runbooks").label("Runbooks")
    made = made.with_variable(runbooks.default_value(RUNBOOKS_AT))
    number, top = 1, 0
    for row in rows:
        heading = dashboard.Row(row.heading).id(number).grid_pos(GridPos(1, WIDTH, 0, top))
        number, top = number + 1, top + 1
        built_panels = []
        for panel, left, at, bottom in placed(row.panels, top):
            place = GridPos(panel.height, panel.width, left, at)
            built_panels.append(_panel(panel, number, place))
            number, top = number + 1, bottom
        if row.of:
            heading = heading.collapsed(True)
            for built_panel in built_panels:
                heading = heading.with_panel(built_panel)
        made = made.with_row(heading)
        for built_panel in () if row.of else built_panels:
            made = made.with_panel(built_panel)
    return made


def _choice(name: str, query: str, *, several: bool = False) -> dashboard.QueryVariable:
    made = (
        dashboard.QueryVariable(name)
        .datasource(SOURCE)
        .query(query)
        .label(name.capitalize())
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return made.multi(True).include_all(True).all_value(".+") if several else made


def _others() -> dashboard.DashboardLink:
    """Return links to all our dashboards, for the same mesh, nodes and time."""
    return (
        dashboard.DashboardLink("mirrormesh")
        .type(DashboardLinkType.DASHBOARDS)
        .tags(["mirrormesh"])
        .include_vars(True)
        .keep_time(True)
    )


def _event(name: str, colour: str, expr: str, title: str) -> dashboard.AnnotationQuery:
    made = dashboard.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(colour)
    return made.expr(expr).title_format(title)


def placed(panels: Sequence[Panel], top: int) -> Iterator[tuple[Panel, int, int, int]]:
    """Yield (panel, left, top, the bottom of all so far): side by side while there is room."""
    left, bottom = 0, top
    for panel in panels:
        if left + panel.width > WIDTH:
            left, top = 0, bottom
        bottom = max(bottom, top + panel.height)
        yield panel, left, top, bottom
        left += panel.width


def told_by(title: str) -> list[str]:
    """Return the alerts whose runbook names a panel, as in *mesh / Live nodes, Round*."""
    alerts = []
    for section in RUNBOOKS.read_text().split("\n## ")[1:]:
        named = re.findall(r"\*\w+ / ([^*]+)\*", section)
        if any(title in " ".join(titles.split()).split(", ") for titles in named):
            alerts.append(section.split("\n", 1)[0].strip())
    return alerts


def _runbook(alert: str) -> dashboard.DashboardLink:
    """Return the link from a figure to the runbook of an alert that is about it."""
    link = dashboard.DashboardLink(f"Runbook: {alert}").type(DashboardLinkType.LINK)
    return link.url(f"${{runbooks}}#{alert.lower()}").target_blank(True)


def _panel(panel: Panel, number: int, place: GridPos) -> Any:
    made: Any = _KINDS[panel.kind](panel)
    made = made.id(number).title(panel.title).description(panel.description).datasource(SOURCE)
    made = made.links([_runbook(alert) for alert in told_by(panel.title)])
    steps = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE)
    steps = steps.steps([Threshold(value, colour) for value, colour in panel.steps])
    made = made.unit(panel.unit).grid_pos(place).thresholds(steps)
    if panel.words:
        results = {value: ValueMappingResult(text=text, color=colour) for value, text, colour in panel.words}
        made = made.mappings([ValueMap(options=results)])
    made = made.no_value(panel.nothing)
    if panel.least is not None:
        made = made.min(panel.least)
    for letter, query in zip("ABCDEFG", panel.queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(letter)
        if panel.kind == "map":
            target = target.format(PromQueryFormat.TABLE)
        instant = panel.kind == "stat" and not panel.trend
        made = made.with_target(target.instant() if instant else target.range())
        if query.colour:
            fixed = {"mode": FieldColorModeId.FIXED, "fixedColor": query.colour}
            made = made.override_by_query(letter, [DynamicConfigValue("color", fixed)])
    return made


def _timeseries(panel: Panel) -> timeseries.Panel:
    made = (
        timeseries.Panel()
        .line_width(1)
        .fill_opacity(5)
        .show_points(models.VisibilityMode.NEVER)
        .legend(_legend(last=True))
        .tooltip(common.VizTooltipOptions().mode(models.TooltipDisplayMode.MULTI))
        .axis_label(panel.axis or AXES[panel.unit])
    )
    if len(panel.steps) > 1:
        drawn = common.GraphThresholdsStyleConfig().mode(models.GraphThresholdsStyleMode.DASHED)
        made = made.thresholds_style(drawn)
    if panel.log:
        made = made.scale_distribution(
            common.ScaleDistributionConfig().type(models.ScaleDistribution.LOG).log(10)
        )
    return made


def _stat(panel: Panel) -> stat.Panel:
    reduced = common.ReduceDataOptions().calcs(["lastNotNull"])
    graph = models.BigValueGraphMode.AREA if panel.trend else models.BigValueGraphMode.NONE
    text = models.BigValueTextMode.NAME if panel.names else models.BigValueTextMode.VALUE_AND_NAME
    made = stat.Panel().reduce_options(reduced).color_scheme(_by_threshold())
    return made.graph_mode(graph).text_mode(text)


def _states(_: Panel) -> statetimeline.Panel:
    made = statetimeline.Panel().merge_values(True).fill_opacity(70).line_width(0).legend(_legend())
    return made.show_value(models.VisibilityMode.NEVER).color_scheme(_by_threshold())


def _map(_: Panel) -> xychart.Panel:
    """Return a chart of tables: of a table for each node the first number is x, the second y."""
    marked = [
        DynamicConfigValue("color", {"mode": FieldColorModeId.FIXED, "fixedColor": "text"}),
        DynamicConfigValue("custom.pointSize.fixed", 9),
    ]
    return (
        xychart.Panel()
        .legend(_legend())
        .with_transformation(DataTransformerConfig("merge", options={}))
        .with_transformation(DataTransformerConfig("partitionByValues", options={"fields": ["node"]}))
        .override_by_regexp(f"/{TARGET}/", marked)
    )


def _legend(*, last: bool = False) -> common.VizLegendOptions:
    """Return a legend under the panel, with each series' last value where it has numbers over time."""
    shown = common.VizLegendOptions().show_legend(True).placement(models.LegendPlacement.BOTTOM)
    if not last:
        return shown.display_mode(models.LegendDisplayMode.LIST)
    return shown.display_mode(models.LegendDisplayMode.TABLE).calcs(["lastNotNull"])


def _by_threshold() -> dashboard.FieldColor:
    return dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS)


_KINDS = {"timeseries": _timeseries, "stat": _stat, "states": _states, "map": _map}
