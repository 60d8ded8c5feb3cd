"""What a report says of requirements that wrap others, and of the worth of Mondrian's groups."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

import masquerade as mq
from masquerade.report.contents import contents


def test_what_m_privacy_wraps_has_rows_of_its_own() -> None:
    rows = 40
    frame = pa.table(
        {
            "age": [20 + at % 20 for at in range(rows)],
            "hospital": [("north", "south", "west")[at % 3] for at in range(rows)],
            "disease": [("flu", "gout")[at % 2] for at in range(rows)],
        }
    )
    table = mq.Table(frame, mq.Schema([mq.Attribute("age", "continuous")]))
    plain = mq.KAnonymity("age", 3) & mq.LDiversity("age", 2, "disease")
    release = mq.anonymize(table, mq.MPrivacy(1, plain, "hospital"), mq.Mondrian())
    told = contents(release)
    assert [each["model"] for each in told["requirements"]] == ["m-privacy", "k-anonymity", "l-diversity"]
    assert told["requirements"][0]["parameters"] == [("m", "1"), ("provider", "hospital")]
    assert told["requirements"][0]["meaning"].startswith("colluding providers")
    queries = {name: value for name, value, _ in told["metrics"]}["query error"]
    assert release.query_error is not None
    assert float(queries) == float(f"{release.query_error.mean:.4g}")


def test_a_report_of_several_parties_is_named_after_them() -> None:
    table = mq.Table(pa.table({"age": [1, 2]}), mq.Schema([mq.Attribute("age", "continuous")]))
    release = mq.anonymize(table, mq.KAnonymity("age", 1))
    of = {"source": "bank and clinic and shop", "parties": ["bank", "clinic", "shop"], "argmax": "secure"}
    told = contents(dataclasses.replace(release, settings=of))
    assert told["headline"]["source"] == "bank, clinic and shop"
    assert told["settings"]["rows"] == [("parties", "bank, clinic, shop"), ("argmax", "secure")]
