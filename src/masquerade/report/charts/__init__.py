"""A chart is records and a few words: each function takes plain data and gives one inline SVG.

Every chart has a `<title>` and a `<desc>` for those who do not see it, and no colour of its own: classes are
styled by `charts.css`, for light and dark. `standalone` makes a file of a chart, for documentation.
"""

from masquerade.report.charts.bars import Bar, bar_chart, share_bar
from masquerade.report.charts.histogram import SizeLine, size_bins, size_histogram
from masquerade.report.charts.lines import Reference, Series, line_chart
from masquerade.report.charts.svg import chart_style, standalone
from masquerade.report.charts.tree import TreeNode, tree_chart

__all__ = [
    "Bar",
    "Reference",
    "Series",
    "SizeLine",
    "TreeNode",
    "bar_chart",
    "chart_style",
    "line_chart",
    "share_bar",
    "size_bins",
    "size_histogram",
    "standalone",
    "tree_chart",
]
