"""Linkage: who of an outside table has one record in the release that fits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.risk.attacks.attack import MOST_RECORDS, Attack, Finding, Scene


class Linkage(Attack):
    """Somebody links the people of an outside table with records, by the attributes that both have."""

    name = "linkage"
    summary = "people of the outside table for whom one record alone fits; their rows are those of that table"
    needs = ("outside",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Count the records whose cells cover each person's."""
        assert scene.outside is not None
        people, who_fits = scene.outsiders
        fitting = np.zeros(people.sizes.size, np.int64)  # records, by person
        for size, met in zip(scene.groups.sizes, who_fits, strict=True):
            fitting[met] += size
        of_rows = fitting[people.groups]
        found = np.flatnonzero(of_rows == 1)
        linked = of_rows[of_rows > 0]
        confidence = float((1 / linked).mean()) if linked.size else 0.0
        meaning = (
            f"{found.size:,} of {of_rows.size:,} people have one record alone that fits by {', '.join(people.names)}; "
            f"a guess for each of the {linked.size:,} with any is right with probability {confidence:.4g} on average"
        )
        rows = tuple(scene.outside.source_row(int(row)) + 1 for row in found[:MOST_RECORDS])
        yield Finding(self.name, float(found.size), meaning, rows)
