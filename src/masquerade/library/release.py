"""A release as people get it from Python: it can write its own report."""

from __future__ import annotations

from pathlib import Path

from masquerade.anonymize import release as releases


class Release(releases.Release):
    """A verified release that can write its own report."""

    def report(self, path: str | Path) -> None:
        """Write the report: one HTML file that needs no network."""
        from masquerade.files import write_whole
        from masquerade.report.html import render_report

        write_whole(Path(path), render_report(self))

    def _repr_html_(self) -> str:
        """Return the report in a frame of its own, for notebooks."""
        from html import escape

        from masquerade.report.html import render_report

        page = escape(render_report(self), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 36rem; border: 0" sandbox></iframe>'
