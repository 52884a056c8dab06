"""The charts of the reports: from a frame or a plan to a figure. Each has a module of its own; this is the door."""

from agentlab.report.forest import forest
from agentlab.report.plan_charts import gantt, plan_graph
from agentlab.report.shares_charts import failure_classes, outcomes
from agentlab.report.stability_chart import stability_heatmap
from agentlab.report.style import Chart, save
from agentlab.report.tokens_chart import tokens_by_actor

__all__ = [
    "Chart",
    "failure_classes",
    "forest",
    "gantt",
    "outcomes",
    "plan_graph",
    "save",
    "stability_heatmap",
    "tokens_by_actor",
]
