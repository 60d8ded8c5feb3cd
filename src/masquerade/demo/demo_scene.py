"""The demo's story: a bank, an insurer and a clinic, what each offers and requires, and what an analyst asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from masquerade.data.people import MOST_PEOPLE, people_taxonomies
from masquerade.demo.local_configurations import Holding, toml_table
from masquerade.errors import ParameterError

ANALYST, ADMIN = "ana", "admin"
PURPOSE = "research"
LEAST_K = 10
FEWEST_PEOPLE = 100

# How each attribute may be generalised, as [attributes.NAME] of a job or of a party's configuration.
_ATTRIBUTES = {
    "birth_date": 'type = "date"\nmin = 1930-01-01\nmax = 2010-01-01',
    "sex": 'taxonomy = "flat"',
    "town": 'taxonomy = "taxonomies/town.csv"',
    "hours": 'type = "continuous"\ntaxonomy = "taxonomies/hours.csv"',
    "job": 'taxonomy = "taxonomies/job.yaml"',
    "education": 'taxonomy = "taxonomies/education.csv"',
    "salary": 'type = "continuous"\nmin = 0\nmax = 1000',
}
# Few enough that each stays useful where every record is alike with nine others in all of them together.
_WANTED = ["birth_date", "sex", "hours", "job"]
# What is left open would be cut by what tells about the class first, which spends detail on what predicts a loan.
_METHOD = {"name": "mondrian", "choose": "certainty"}
# Models, by the name of their file. Their attributes are categories, or numbers with fixed intervals.
MODELS: Mapping[str, str] = {"tree": "id3", "net": "bayes-net"}
_LEARNED_FROM = ["sex", "hours", "education"]
_L_DIVERSITY = {"model": "l-diversity", "qid": _WANTED, "sensitive": "disease", "l": 3}

_POLICY = f"""\
access = "private"                       # only these may ask, and be given a release
users = ["{ANALYST}"]
purposes = ["{PURPOSE}"]
learn = {json.dumps(list(MODELS.values()))}             # models that may be learned: a tree and a net
least_k = {LEAST_K}                             # no release has smaller groups,
joint_qid = "all"                        # over all attributes of all parties together
sessions = 4                             # at once
show_progress = true                     # the coordinator may watch the stages
allow_rerelease = true                   # a playground: in earnest, a second release can break the first
"""


def _holding(dataset: str, file: str, names: Sequence[str], policy: str, **more: Any) -> Holding:
    taxonomies = {name: text for name, text in people_taxonomies().items() if name.partition(".")[0] in names}
    attributes = {name: _ATTRIBUTES[name] for name in names}
    return Holding(dataset, file, "ssn", attributes, _POLICY + policy, taxonomies=taxonomies, **more)


HOLDINGS: Mapping[str, Holding] = {
    "bank": _holding(
        "customers",
        "bank.db",
        ["job", "education", "salary"],
        "share_class = true                       # the others may learn whose loan was approved\n"
        "\n[price]  # cents\nper_attribute = 500\n",
        class_name="approved",
    ),
    "insurer": _holding(
        "insured",
        "insured.parquet",
        ["town", "hours"],
        "\n[price]\nper_attribute = 300\nper_record = 1\n",
    ),
    "clinic": _holding(
        "patients",
        "patients.csv",
        ["birth_date", "sex"],
        "\n[price]\nper_attribute = 500\nattributes = { disease = 2000 }\n"
        "\n[[privacy]]  # whenever the disease is released\n"
        'model = "l-diversity"\nsensitive = "disease"\nl = 3\n',
        sensitive=["disease"],
    ),
}


def checked_people(people: int) -> int:
    """Check the number of people to generate, and return it."""
    if not FEWEST_PEOPLE <= people <= MOST_PEOPLE:
        raise ParameterError(
            f"--people: must be a whole number from {FEWEST_PEOPLE:,} to {MOST_PEOPLE:,}; got {people:,}"
        )
    return people


def request(people: int) -> dict[str, Any]:
    """Return the analyst's request: a few attributes of all three, with less privacy than the parties require."""
    return {
        "purpose": PURPOSE,
        "attributes": [*_WANTED, "disease"],
        "class": "approved",
        "algorithm": _METHOD,
        "most_error": 0.4,
        "budget": 10_000 + 2 * people,
        "show_progress": True,
        "privacy": [{"model": "k-anonymity", "qid": _WANTED, "k": 5}, _L_DIVERSITY],
    }


def model_request(model: str, people: int) -> dict[str, Any]:
    """Return the analyst's request for one of `MODELS`: what an attribute of each party tells about the class."""
    return {
        "purpose": PURPOSE,
        "attributes": _LEARNED_FROM,
        "class": "approved",
        "algorithm": {"name": MODELS[model]},
        "budget": 10_000 + 2 * people,
    }


def trusted_job() -> str:
    """Return a job for the joined table, which nobody has, on the parties' agreed terms: it makes the same release."""
    agreed = {"model": "k-anonymity", "qid": _WANTED, "k": LEAST_K}
    lines = [
        "# What a trusted party with everybody's data would do. The demo's parties make the same release without one.",
        '[data]\nsource = "people.csv"\n',
        *(f"[attributes.{name}]\n{_ATTRIBUTES[name]}\n" for name in _WANTED),
        "[attributes.disease]\n",  # so that it stands before the class, as in the request
        toml_table("roles", {"class": "approved", "sensitive": ["disease"], "identifiers": ["ssn", "name"]}),
        *(toml_table("privacy", each).replace("[privacy]", "[[privacy]]") for each in (agreed, _L_DIVERSITY)),
        # Between parties the default where a requirement is on another's sensitive values.
        toml_table("algorithm", {**_METHOD, "merge": "small"}),
        '[output]\ntable = "release.csv"\nreport = "report.html"\n',
    ]
    return "\n".join(lines)
