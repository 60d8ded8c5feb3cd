"""The page as a real browser shows it, where one is installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from playwright.sync_api import sync_playwright

import masquerade as mq
from masquerade.report import render_report
from papers.paper_tables import loan_table

pytestmark = pytest.mark.system

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_page_is_drawn_without_a_complaint(release, tmp_path):
    (tmp_path / "report.html").write_text(render_report(release), "utf-8")
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
        timeout=900,
        check=True,
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "CONSOLE" not in done.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_phone_shows_the_page_without_scrolling_sideways(tmp_path):
    """Every part of it: the methods that were tried have long names."""
    requirement = mq.KAnonymity(["Sex", "Job"], k=4)
    mq.anonymize(loan_table(), requirement, mq.Auto(target="Class"), seed=1).report(tmp_path / "report.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.goto((tmp_path / "report.html").as_uri())
        assert page.get_by_role("heading", name="Methods that were tried").count() == 1
        root = "document.documentElement"
        assert page.evaluate(f"{root}.scrollWidth") == page.evaluate(f"{root}.clientWidth")
        browser.close()
