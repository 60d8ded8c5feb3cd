"""The page: well-formed, self-contained, accessible, and true to the release."""

from __future__ import annotations

import dataclasses
import re
from importlib import metadata
from itertools import pairwise

import numpy as np
import pytest

from masquerade.privacy import REQUIREMENTS, AlphaKAnonymity, KAnonymity, verify
from masquerade.report import chart_style, render_report
from masquerade.report.release import _file

SECTIONS = [
    "Requirements",
    "Group sizes",
    "What each attribute lost",
    "What could still go wrong",
    "A few rows of the release",
    "Taxonomies and their cuts",
    "Specializations, in order",
    "Metrics",
    "To repeat it",
]


def test_the_page_nests_and_its_headings_are_in_order(release, page):
    read = page(render_report(release))
    levels = [level for level, _ in read.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert [text for level, text in read.headings if level == 2] == SECTIONS
    assert ("html", {"lang": "en"}) in read.elements


def test_nothing_is_fetched_and_nothing_runs(release, page):
    html = render_report(release)
    read = page(html)
    assert not re.search(r"https?://|@import|url\(", html)
    assert not {tag for tag, _ in read.elements} & {"script", "link", "img", "iframe", "object", "embed", "form"}
    for _, attributes in read.elements:
        assert not {"src", "srcset", "action", "data", "style"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(a["content"] for t, a in read.elements if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_the_headline_tells_the_summary(release, page):
    release = dataclasses.replace(release, rows=40, dropped_rows=4, suppressed=2)
    summary = release.summary
    read = page(render_report(release))
    told = dict(read.terms)
    assert told["Rows read"] == str(summary["rows"]) == "40"
    assert told["Dropped for missing cells"] == str(summary["dropped_rows"]) == "4"
    assert told["Suppressed"] == str(summary["suppressed"]) == "2"
    assert told["Released"] == str(summary["released"]) == "34"
    assert told["Groups"] == str(summary["groups"]) == "7"
    assert "Both requirements hold" in read.text
    assert (told["Smallest"], told["Median"], told["Largest"]) == ("3", "5", "7")
    unknown = page(render_report(dataclasses.replace(release, dropped_rows=None)))
    assert "Dropped for missing cells" not in dict(unknown.terms)


def test_the_tables_tell_the_summary(release, page):
    read = page(render_report(release))
    requirements = read.tables["Requirements and verdicts"]
    assert requirements[1][:3] == ["k-anonymity", "Sex Job", "k = 4"]
    assert requirements[1][3].split()[0] == "4"
    assert requirements[1][5] == "holds"
    assert requirements[2][1:3] == ["Sex Salary", "k = 5"]
    steps = read.tables["Specializations, in order"][1:]
    assert [row[1] for row in steps] == [step["attribute"] for step in release.summary["steps"]]
    assert [row[3] for row in steps] == [
        "0.3827", "0.2723", "0.3424", "0.2505", "0.1751", "0.1348", "0.1212", "0.0919",
    ]  # fmt: skip
    assert steps[0][2] == "[1, 99) → [1, 37) · [37, 99)"
    losses = {row[0]: row[2:] for row in read.tables["What each attribute lost, and how many values remain"][1:]}
    assert losses["Sex"] == ["0 %", "100 %", "2"]
    assert losses["Job"] == [
        f"{100 * release.attribute_losses['Job']:.1f} %",
        f"{100 * release.attribute_information['Job']:.1f} %",
        "5",
    ]
    assert losses["Salary"][2] == "4"
    metrics = {row[0]: row[1:] for row in read.tables["Metrics"][1:]}
    assert metrics["discernibility"][0] == str(release.metrics["discernibility"]) == "176"
    assert {name.replace("_", " ") for name in release.metrics} == set(metrics)
    assert all(meaning for _, meaning in metrics.values()), "a metric lacks its explanation"
    settings = dict(read.tables["Settings"][1:])
    assert settings == {
        "source": "people.csv",
        "algorithm.name": "tds",
        "algorithm.score": "gain-ratio",
        "class": "Class",
    }
    assert dict(read.tables["Versions"][1:])["numpy"] == metadata.version("numpy")
    assert [row[0] for row in read.tables["Timings"][1:]] == list(release.seconds)
    assert "Columns left out of the release: Note" in " ".join(read.text.split())
    assert "Published as they are: Class" in " ".join(read.text.split())


def test_every_table_says_what_its_cells_are(release, page):
    html = render_report(release)
    for table in re.findall(r"<table.*?</table>", html, re.DOTALL):
        assert "<caption" in table
        assert "<th" in table
        assert all("scope=" in head for head in re.findall(r"<th\b[^>]*>", table))


def test_every_chart_has_a_text_alternative(release, svgs):
    charts = [svg for svg in svgs(render_report(release)) if svg.get("role") == "img"]
    assert len(charts) == 5  # the histogram, the risks and three trees
    for svg in charts:
        assert svg[0].tag == "title"
        assert svg[0].text
        assert svg[1].tag == "desc"
        assert svg[1].text
    assert all(svg.get("aria-hidden") == "true" for svg in svgs(render_report(release)) if svg.get("role") != "img")


def test_a_k_over_fewer_attributes_does_not_look_violated(release, page):
    text = " ".join(page(render_report(release)).text.split())
    assert "so a bar to its left is in order" in text
    assert "Sex Job k = 4: smallest group 4" in text
    assert "Sex Salary k = 5: smallest group 5" in text


def test_a_k_over_all_attributes_needs_no_excuse(hand_made, released_column, page):
    html = render_report(hand_made([released_column("A", ["x", "y"], [0, 0, 1, 1])], k=2))
    assert "bar to its left" not in html
    assert 'class="required"' in html
    assert 'class="required loose"' not in html


def test_a_requirement_that_does_not_hold_is_named(hand_made, released_column, page):
    html = render_report(hand_made([released_column("A", ["x", "y"], [0, 0, 1])], k=2))
    text = " ".join(page(html).text.split())
    assert "The requirement does not hold" in text
    assert "k-anonymity (k = 2) over A" in text
    assert "first violating group: A = y" in text
    assert "holds" not in text


def test_requirements_that_do_not_hold_are_counted_and_none_is_no_success(release, page):
    bad = verify(release.table, KAnonymity(["Sex", "Job", "Salary"], 4))
    text = page(render_report(dataclasses.replace(release, verdicts=release.verdicts + bad))).text
    assert "1 of 3 requirements does not hold" in text
    text = page(render_report(dataclasses.replace(release, verdicts=()))).text
    assert "No requirement was checked" in text
    assert "hold" not in text


def test_the_same_release_gives_the_same_page(release):
    assert render_report(release) == render_report(release)


def _variables(css: str) -> dict[str, str]:
    return dict(re.findall(r"(--[\w-]+):\s*(#[0-9a-f]{6})", css))


def _luminance(colour: str) -> float:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(scheme):
    colours: dict[str, str] = {}
    for css in (chart_style(), _file("style.css")):
        light, dark = css.split("@media (prefers-color-scheme: dark)", 1)
        colours |= _variables(light)
        if scheme == "dark":
            colours |= _variables(dark.split("\n}\n", 1)[0])
    pairs = [
        (text, ground)
        for text in ("--ink", "--muted", "--faint", "--accent", "--required")
        for ground in ("--surface", "--page")
    ]
    pairs += [("--ink", "--accent-soft"), ("--ink", "--track"), ("--muted", "--track")]
    pairs += [(f"--{state}", f"--{state}-soft") for state in ("good", "bad")]
    pairs += [("--ink", "--good-soft"), ("--ink", "--bad-soft")]
    pairs += [(f"--s{i}", "--surface") for i in range(6)]
    for text, ground in pairs:
        assert _contrast(colours[text], colours[ground]) >= 4.5, f"{scheme}: {text} on {ground}"


def test_a_k_of_another_model_over_fewer_attributes_is_explained_too(release, page):
    requirement = AlphaKAnonymity(["Sex"], k=10, alpha=1.0, sensitive="Class")
    verdicts = verify(release.table, requirement)
    html = render_report(dataclasses.replace(release, verdicts=verdicts))
    text = " ".join(page(html).text.split())
    assert "so a bar to its left is in order." in text
    assert "own smallest group" not in text
    assert "largest share of a sensitive value in a group" in text


def test_every_model_says_what_its_figure_is():
    assert all(model.declares("figure_meaning") for model in REQUIREMENTS.values())
