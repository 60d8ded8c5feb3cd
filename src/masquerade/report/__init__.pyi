from .charts.svg import chart_style as chart_style
from .charts.tree import TreeNode as TreeNode, tree_chart as tree_chart
from .other_pages import (
    LEADS as LEADS,
    MODEL_METRICS as MODEL_METRICS,
    curves_of as curves_of,
    drawings as drawings,
    ratio_chart as ratio_chart,
    render_answer as render_answer,
    render_comparison as render_comparison,
    render_model as render_model,
)
from .release import framed as framed, render_report as render_report
from .risks import attack_title as attack_title, attacks_on as attacks_on
from .verdict import METRICS as METRICS, counted as counted, figure as figure
