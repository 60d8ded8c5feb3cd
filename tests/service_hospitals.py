"""Hospitals that hold the same columns about different people, and a coordinator: the house of horizontal sessions."""

from __future__ import annotations

import csv
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service_house import House, write

DISEASES = ("flu", "cold", "measles", "gout", "asthma")
WARDS = {"inner": ("heart", "lung", "kidney"), "surgery": ("bones", "skin")}
TOGETHER: Mapping[str, Any] = {"least_m": 1, "methods": {"mondrian": {"third_party": ["secure", "trusted"]}, "tds": {}}}


@dataclass
class Hospitals(House):
    """Three hospitals, whose policies let them publish together."""

    parties: tuple[str, ...] = ("north", "south", "west")
    people: int = 120
    different: Mapping[str, str] = field(default_factory=dict)  # by party: other columns in its configuration

    def __post_init__(self) -> None:
        self.policies = {party: {**TOGETHER, **self.policies.get(party, {})} for party in self.parties}
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{ward};{kind};Any ward" for kind, wards in WARDS.items() for ward in wards]
        (self.folder / "ward.csv").write_text("\n".join(lines) + "\n")
        super().__post_init__()

    def write_table(self, party: str, people: int | None = None, *, change: str = "") -> None:
        """A hospital's patients, whom no other hospital has; of the last one there are half as many."""
        rng = random.Random(f"{self.seed} {party} {change}")
        number = people or self.people // (2 if party == self.parties[-1] else 1)
        wards = [ward for each in WARDS.values() for ward in each]
        lines = ["ssn,age,ward,cost,disease,survived"]
        for each in range(number):
            age = rng.randint(18, 90)
            survived = "no" if age + rng.randint(-20, 20) > 75 else "yes"
            ward, disease = rng.choice(wards), rng.choice(DISEASES)
            lines.append(f"{self.prefix}{party}{each},{age},{ward},{rng.randint(10_000, 60_000)},{disease},{survived}")
        write(self.folder / f"{party}.csv", "\n".join(lines) + "\n")

    def columns(self, party: str) -> str:
        usual = (
            'sensitive = ["disease"]\nclass = "survived"\n'
            'attributes.age = { type = "continuous", min = 0, max = 128 }\n'
            'attributes.ward = { taxonomy = "ward.csv" }\n'
            'attributes.cost = { type = "continuous", min = 0, max = 65536 }'
        )
        return self.different.get(party, usual)

    def request(self, **changes: Any) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            "kind": "horizontal",
            "purpose": "research",
            "attributes": ["age", "ward", "disease"],
            "class": "survived",
            "budget": 1_000_000,
            "m": 1,
            "privacy": [
                {"model": "k-anonymity", "qid": ["age", "ward"], "k": 5},
                {"model": "l-diversity", "qid": ["age", "ward"], "sensitive": "disease", "l": 2},
            ],
        }
        return wanted | changes

    def records(self, party: str) -> list[dict[str, str]]:
        """What a hospital has."""
        with (self.folder / f"{party}.csv").open(newline="") as file:
            return list(csv.DictReader(file))
