"""Names and labels that try to break out of the page come out as harmless text."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.data import Step
from masquerade.report import render_report
from masquerade.report.charts import Bar, Reference, Series, bar_chart, line_chart, standalone

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "]]></title></svg></style><script>alert(2)</script>",
    "{{ 7 * 7 }} {% raw %}",
    "&lt;b&gt; &amp;",
    "\u202egnp.exe\u202c \u05d0\u05d1\u05d2 \u0627\u0644",
    "🎭👩‍👩‍👧 café 漢字",
    "null\x00bell\x07esc\x1b\ufffe",
    "--> <!-- </table>",
    "x" * 20_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_stays_text(hand_made, released_column, page, svgs, text):
    column = released_column(text, [text, f"{text} two"], [0, 0, 1, 1])
    release = hand_made(
        [column],
        k=2,
        steps=(Step(text, f"{text} top", (text, f"{text} two"), 0.5),),
        dropped=(text,),
        attribute_losses={text: 0.5},
        metrics={text: 0.25},
        settings={"source": text, text: {text: [text, {"x": text}]}},
        seconds={text: 0.5},
    )
    html = render_report(release)
    read = page(html)
    assert not {tag for tag, _ in read.elements} & {"script", "img", "b"}
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)
    assert "49" not in read.text.replace("7 * 7", "")
    assert "\x00" not in html
    assert len(html) < 200_000
    assert len(svgs(html)) >= 4
    if len(text) < 100 and "\x00" not in text and "/" not in text:  # of a path, the last part is told
        assert (text in read.text) is True
        assert read.headings[0][1] == text


def test_a_violating_group_is_hostile_too(hand_made, released_column, page):
    html = render_report(hand_made([released_column("<i>", ["<u>", "<s>"], [0, 0, 1])], k=2))
    read = page(html)
    assert not {tag for tag, _ in read.elements} & {"i", "u", "s"}
    assert "first violating group: <i> = <s>" in " ".join(read.text.split())


@given(st.text(max_size=40), st.text(max_size=40))
@settings(max_examples=examples(60), deadline=None)
def test_charts_are_xml_whatever_the_text(one, other):
    from xml.etree import ElementTree

    series = [Series(one, [(1, 2.0), (5, None), (9, 3.0)]), Series(other, [(2, 1.0)])]
    for svg in (
        bar_chart([Bar(one, 1.0, other), Bar(other, 0.0)], title=one, description=other),
        line_chart(series, title=one, x_name=other, y_name=one, references=[Reference(1.5, other)]),
    ):
        ElementTree.fromstring(svg)
        ElementTree.fromstring(standalone(svg).encode())


def test_lone_surrogates_do_not_stop_a_report(release, tmp_path):
    html = render_report(dataclasses.replace(release, settings={"source": "a\udcffb"}))
    assert "a\ufffdb" in html
    html.encode()
