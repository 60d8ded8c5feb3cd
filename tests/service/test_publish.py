"""Publishing a release: its columns come in the order of the request."""

from __future__ import annotations

from masquerade.service.coordinator.publish import columns_asked_for

ASKED = {"purpose": "p", "attributes": ["disease", "salary", "sex"], "class": "approved"}


def test_columns_come_as_they_were_asked_for_and_the_class_last() -> None:
    assert columns_asked_for(ASKED) == ["disease", "salary", "sex", "approved"]
    assert columns_asked_for({**ASKED, "class": None}) == ["disease", "salary", "sex"]
