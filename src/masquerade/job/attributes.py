"""Build the schema from `[attributes.NAME]`, reading the taxonomies."""

from __future__ import annotations

import datetime
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from masquerade.data.continuum import Number, days
from masquerade.data.schema import Attribute, AttributeKind, Schema
from masquerade.data.taxonomy_files import read_taxonomy
from masquerade.errors import Key, ParameterError
from masquerade.forms.declared import shown_value as shown
from masquerade.forms.problems import Problems
from masquerade.job.model import AttributeSection, Job


def schema_of(
    job: Job,
    qid: Container[str],
    base: Path,
    problems: Problems,
    taxonomies: Mapping[Path, str] = MappingProxyType({}),
) -> Schema:
    """Return the attributes in the job's order; invalid ones are added to `problems` and left out.

    `taxonomies` are the texts of files that are not written.
    """
    attributes = []
    for name, section in job.attributes.items():
        with problems.collecting(("attributes", name)):
            attributes.append(_attribute(name, section, name in qid, base, problems, taxonomies))
    identifiers = [name for name in job.roles.identifiers if name not in job.attributes]
    return Schema(attributes, identifiers)


def _attribute(
    name: str,
    section: AttributeSection,
    in_qid: bool,
    base: Path,
    problems: Problems,
    taxonomies: Mapping[Path, str],
) -> Attribute:
    key: Key = ("attributes", name)
    lower = _bound((*key, "min"), section.min, section.type, problems)
    upper = _bound((*key, "max"), section.max, section.type, problems)
    if lower is not None and upper is not None and lower >= upper:
        problems.add((*key, "min"), f"must be below max, {shown(section.max)}; got {shown(section.min)}")
        lower = upper = None
    for word, kind in (
        ("format", "date"),
        ("decimal", "continuous"),
        ("thousands", "continuous"),
        ("unit", "continuous"),
    ):
        if word in section.model_fields_set and section.type != kind:
            problems.add(
                (*key, word), f'belongs to attributes of type = "{kind}"; this one is {section.type}'
            )
    if section.thousands == section.decimal:
        problems.add((*key, "thousands"), f'must be another sign than decimal; both are "{section.decimal}"')
    taxonomy: Any = section.taxonomy
    if taxonomy is None:
        if section.type == "categorical" and in_qid:
            problems.add(
                key, 'a categorical attribute of a QID needs taxonomy = "file.csv", "file.yaml" or "flat"'
            )
    elif taxonomy != "flat":
        with problems.collecting((*key, "taxonomy")):
            # An invalid taxonomy is reported with its own file and lines.
            file = base / taxonomy
            taxonomy = read_taxonomy(file, section.type, text=taxonomies.get(file))
    # After a problem the attribute is never used, but the others are still checked.
    unusable = isinstance(taxonomy, str) and taxonomy != "flat"
    attribute = Attribute(
        name,
        section.type,
        None if unusable else taxonomy,
        lower,
        upper,
        section.weight,
        section.format,
        section.decimal,
        thousands="" if section.thousands == section.decimal else section.thousands or "",
        unit=section.unit or "",
    )
    for word in ("min_generalization", "min_width"):
        if getattr(section, word) is not None and not in_qid:
            problems.add((*key, word), "belongs to attributes of a QID; the others are released as they are")
    if unusable:
        return attribute
    names = tuple(section.max_generalization or ())
    try:
        return replace(
            attribute,
            max_generalization=names,
            max_width=section.max_width,
            min_generalization=tuple(section.min_generalization or ()),
            min_width=section.min_width,
        )
    except ParameterError as error:
        problems.collect(error)
        return attribute


def _bound(key: Key, bound: object, kind: AttributeKind, problems: Problems) -> Number | None:
    """Return a bound as a number; dates as days."""
    if bound is None or problems.about(key[:2]):
        return None
    if kind == "categorical":
        problems.add(
            key, 'bounds belong to attributes of type = "continuous" or "date"; this one is categorical'
        )
    elif kind == "date":
        try:
            date = datetime.date.fromisoformat(bound) if isinstance(bound, str) else bound
        except ValueError:
            date = None
        if isinstance(date, datetime.date):
            return days(date)
        problems.add(key, f"must be a date such as 1980-12-31; got {shown(bound)}")
    elif isinstance(bound, int | float):
        return bound
    else:
        problems.add(key, f"must be a number; got {shown(bound)}")
    return None
