"""The order of a release's columns is the request's."""

from __future__ import annotations

import pyarrow as pa

from masquerade.service.coordinator.column_order import as_asked, wanted_order

ASKED = {"purpose": "p", "attributes": ["disease", "salary", "sex"], "class": "approved"}


def test_columns_come_as_they_were_asked_for_and_the_class_last() -> None:
    contract_order = pa.table({"salary": [1], "sex": ["f"], "approved": ["y"], "disease": ["flu"]})
    assert as_asked(contract_order, ASKED).column_names == ["disease", "salary", "sex", "approved"]
    assert wanted_order({**ASKED, "class": None}) == ["disease", "salary", "sex"]
