"""The taxonomies of sensitive attributes, for the requirements that look at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade.data.product import Product
from masquerade.data.taxonomy import Taxonomy
from masquerade.data.taxonomy_files import read_taxonomy
from masquerade.errors import JobError, Problem
from masquerade.job.model import AttributeSection, Job
from masquerade.privacy.requirement import GroupRequirement


@dataclass(frozen=True)
class Trees:
    """Where a job names the taxonomies; without `base`, a form whose entries hold them themselves."""

    job: Job
    base: Path | None

    def wanted(self, model: type[GroupRequirement], given: Mapping[str, Any]) -> bool:
        """Return whether an entry needs a taxonomy and does not hold it."""
        named = isinstance(given.get("sensitive"), str) and not isinstance(given["sensitive"], Product)
        return self.base is not None and named and "taxonomy" not in given and model.needs_taxonomy(given)

    def tree_of(self, name: str) -> Taxonomy:
        """Read the taxonomy of a sensitive attribute; raise JobError if it has none that would do."""
        assert self.base is not None  # otherwise none is wanted
        section = self.job.attributes.get(name, AttributeSection())
        if section.type != "categorical":
            text = f'a taxonomy\'s distance is for categories, and {name} is {section.type}; use "ordered"'
            raise JobError(Problem(text, key=("distance",)))
        if section.taxonomy is None or section.taxonomy == "flat":
            text = f'missing; give [attributes.{name}] taxonomy = "file.csv" or "file.yaml", or use another distance'
            raise JobError(Problem(text, key=("taxonomy",)))
        return read_taxonomy(self.base / section.taxonomy)
