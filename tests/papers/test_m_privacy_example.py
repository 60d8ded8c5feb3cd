"""Table I of the m-privacy paper: four hospitals, an anonymization that an insider breaks, and a better one.

The paper calls T_b* 1-private for k = 3, l = 2. By its own Definition 2.1 it is not (a group of three records loses
one and keeps two); it is for k = 2, l = 2.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import masquerade as mq

NAMES = ("provider", "name", "age", "zip", "disease")
T_A = [
    ("P1", "Alice", "[20-30]", "*****", "Cancer"),
    ("P1", "Emily", "[20-30]", "*****", "Asthma"),
    ("P3", "Sara", "[20-30]", "*****", "Epilepsy"),
    ("P1", "Bob", "[31-35]", "*****", "Asthma"),
    ("P2", "John", "[31-35]", "*****", "Flu"),
    ("P4", "Olga", "[31-35]", "*****", "Cancer"),
    ("P4", "Frank", "[31-35]", "*****", "Asthma"),
    ("P2", "Dorothy", "[36-40]", "*****", "Cancer"),
    ("P2", "Mark", "[36-40]", "*****", "Flu"),
    ("P3", "Cecilia", "[36-40]", "*****", "Flu"),
]
T_B = [
    ("P1", "Alice", "[20-40]", "*****", "Cancer"),
    ("P2", "Mark", "[20-40]", "*****", "Flu"),
    ("P3", "Sara", "[20-40]", "*****", "Epilepsy"),
    ("P1", "Emily", "[20-40]", "987**", "Asthma"),
    ("P2", "Dorothy", "[20-40]", "987**", "Cancer"),
    ("P3", "Cecilia", "[20-40]", "987**", "Flu"),
    ("P1", "Bob", "[20-40]", "123**", "Asthma"),
    ("P4", "Olga", "[20-40]", "123**", "Cancer"),
    ("P4", "Frank", "[20-40]", "123**", "Asthma"),
    ("P2", "John", "[20-40]", "123**", "Flu"),
]
WAYS = ["direct", "top-down", "bottom-up", "binary", "adaptive", "exact"]


def table(rows: list[tuple[str, ...]]) -> pa.Table:
    return pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))


def against(m: int, k: int, l: int, way: str = "exact") -> mq.MPrivacy:  # noqa: E741 # the papers' name
    qid = ["age", "zip"]
    return mq.MPrivacy(m, mq.KAnonymity(qid, k) & mq.LDiversity(qid, l, "disease"), "provider", way)


@pytest.mark.parametrize("way", WAYS)
def test_who_is_held_against(way: str) -> None:
    """Outsiders of both tables; one provider of the better one for two records, and not for three."""
    for rows, m, k, holds in (
        (T_A, 0, 3, True),
        (T_B, 0, 3, True),
        (T_B, 1, 2, True),
        (T_B, 1, 3, False),
        (T_B, 2, 2, False),
        (T_A, 1, 2, False),
    ):
        assert mq.verify(table(rows), against(m, k, 2, way)).holds is holds, (m, k)


@pytest.mark.parametrize("way", WAYS)
def test_hospital_p1_finds_sara(way: str) -> None:
    found = mq.verify(table(T_A), against(1, 3, 2, way))
    assert not found.holds
    assert str(found.verdicts[0].violation).endswith(
        "group (age = [20-30], zip = *****) without the records of provider P1 has 1 record; at least 3 are required"
    )
    young, thirties, _ = mq.verify_m_privacy(table(T_A), against(1, 3, 2, way))
    assert (young.providers, young.coalition) == (("P1", "P3"), ("P1",))
    assert (thirties.providers, thirties.coalition) == (("P1", "P2", "P4"), ("P4",))
