"""The documentation has every key of every file that people write."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from pydantic import BaseModel

from docs.walkthrough import DOCS, blocks
from masquerade.jobs import model
from masquerade.methods import DEFAULT
from masquerade.service import Request
from masquerade.service.agree.policy import Policy, Prices
from masquerade.service.coordinator import settings as coordinator
from masquerade.service.node import settings as node
from masquerade.service.node.settings import DatasetKeys

TABLE = {"source", "query", "missing", "missing_values", "separator", "encoding"}  # told once, for every table

SECTIONS = {
    "[data]": (model.DataSection, set()),
    "[attributes.NAME]": (model.AttributeSection, set()),
    "[roles]": (model.RolesSection, set()),
    "[parties.NAME]": (model.PartySection, TABLE),
    "[output]": (model.OutputSection, set()),
}


def keys(form: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in form.model_fields.items()}


def first_cells(section: str) -> set[str]:
    """What stands in the first column of a section's table."""
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return {re.sub(r"\[+request\.(.+?)\]+", r"\1", name) for row in rows for name in re.findall("`(.+?)`", row)}


def section(page: str, heading: str) -> str:
    return (DOCS / page).read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]


def example(page: str) -> dict[str, Any]:
    """A page's first example, with the keys that it only shows in comments."""
    text = next(block.text for block in blocks(DOCS / page) if block.language == "toml")
    return tomllib.loads(re.sub(r"^# (?=\[?[a-z_]+\]?( *=| +#|$))", "", text, flags=re.MULTILINE))


@pytest.mark.parametrize("name", SECTIONS)
def test_the_reference_has_every_key_of_a_job(name: str) -> None:
    form, told_elsewhere = SECTIONS[name]
    assert first_cells(section("reference/job.md", f"`{name}`")) | told_elsewhere == keys(form)


def test_the_reference_names_the_usual_method() -> None:
    assert f'| `name` | `"{DEFAULT}"` |' in section("reference/job.md", "`[algorithm]`")


def test_a_page_has_every_key_of_a_request() -> None:
    told = first_cells(section("howto/client.md", "The keys of a request"))
    assert told == keys(Request) - {"user"}  # that is set by the coordinator


def test_the_examples_have_every_key_of_a_service() -> None:
    party, policy, serving = (example(f"howto/{name}.md") for name in ("party", "policy", "coordinator"))
    assert set(party) == keys(node.NodeSettings)
    assert set(party["coordinator"]) == keys(node.CoordinatorSection)
    assert party["timings"] == node.NodeTimings().model_dump()
    assert set(party["datasets"]["customers"]) | TABLE == keys(DatasetKeys)
    assert set(policy) == keys(Policy)
    assert set(policy["price"]) == keys(Prices)
    assert set(serving) | {"session_host"} == keys(coordinator.CoordinatorSettings)
    assert serving["timings"] == coordinator.CoordinatorTimings().model_dump()
