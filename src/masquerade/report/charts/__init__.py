"""Charts: each function takes plain data and a few labels and returns one inline SVG.

Every chart has a `<title>` and a `<desc>` for screen readers, and no colours of its own: classes are
styled by `charts.css`, for light and dark. `standalone` turns a chart into a file, for documentation.
"""

from masquerade.report.charts.bars import Bar, SizeLine, bar_chart, share_bar, size_bins, size_histogram
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
