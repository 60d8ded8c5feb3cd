"""The human-readable report on a release: charts, and one HTML file that needs no network."""

from masquerade.report.release import render_report, write_report

__all__ = ["render_report", "write_report"]
