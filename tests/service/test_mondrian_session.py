"""Mondrian between parties through a coordinator: asked for, run by real nodes in memory, and finer than tds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from masquerade.service import Status
from service_house import House

QID = ["age", "job", "salary", "town"]
WISH: dict[str, Any] = {"privacy": [{"model": "k-anonymity", "qid": QID, "k": 6}], "class": None}


def test_a_wide_qid_keeps_more_than_by_specialization(tmp_path: Path) -> None:
    penalties = {}
    with House(tmp_path) as house:
        house.start_nodes()
        with house.coordinator() as coordinator:
            ana = house.user("ana")
            house.known(coordinator, ana)
            for name in ("mondrian", "tds"):
                asked = coordinator.ask(ana, house.request(**WISH, algorithm={"name": name}))
                done = house.finished(coordinator, asked.id)
                assert (done.status, done.cause) == (Status.PUBLISHED, None)
                summary = coordinator.summary(ana, done.id)
                assert all(each["holds"] for each in summary["requirements"])
                assert (summary["algorithm"]["name"], summary["argmax"]) == (name, "secure")
                penalties[name] = summary["metrics"]["ncp"]
    assert penalties["mondrian"] < penalties["tds"]
