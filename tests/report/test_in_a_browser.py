"""The page as a real browser shows it, where one is installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from masquerade.report import write_report

pytestmark = pytest.mark.system

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_page_is_drawn_without_a_complaint(release, tmp_path):
    write_report(release, tmp_path / "report.html")
    picture = tmp_path / "report.png"
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--screenshot={picture}",
            "--window-size=1000,2000",
            (tmp_path / "report.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "CONSOLE" not in done.stderr
