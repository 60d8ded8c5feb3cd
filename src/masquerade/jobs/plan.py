"""Build a job's working objects from its file: schema, requirement, algorithm, outputs.

Checks beyond the shape of the file happen here, before any data is read: contradictory keys, undeclared
names, missing files. All problems are reported at once, together with those of the shape.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade import methods
from masquerade.anonymize import Method, TableMethod
from masquerade.arrangement import ARRANGEMENTS, PROVIDER, Arrangement
from masquerade.data import ProductColumn, Schema, columns_of, database_scheme, is_partitioned
from masquerade.errors import BadInput, Key, ParameterError, Problem, hint, nearest, written
from masquerade.forms import Problems, checked, fill, parameters_of, read_declared, read_toml, words_of
from masquerade.jobs.model import DataSection, Job, PrivacyEntry, SensitiveTaxonomies, TableSection, schema_of
from masquerade.jobs.outputs import Outputs, outputs_beside, outputs_of
from masquerade.privacy import (
    M_PRIVACY,
    REQUIREMENTS,
    Conjunction,
    GroupRequirement,
    Requirement,
    requirement_named,
    without_redundant,
)

if TYPE_CHECKING:
    from masquerade.jobs.drafts.draft import Draft

# --- requirements -------------------------------------------------------------------------------------------
# Build the requirement that must hold from the `[[privacy]]` entries.

FOR_PROVIDERS = (
    f"{M_PRIVACY} is for providers of the same columns, not for parties that hold different ones; "
    f'they publish together with name = "{next(iter(methods.session_methods("horizontal")))}"'
)


@dataclass(frozen=True)
class Providers:
    """A job's settings for m-privacy: the column of each record's provider, and how to verify it."""

    column: str | None = None
    verification: str = "exact"
    missing: str | None = None  # the problem to report if there is no column; None: another is reported already


def requirement_of(
    job: Job, problems: Problems, providers: Providers | None = None, base: Path | None = None
) -> Requirement:
    """Return the conjunction of all entries; invalid ones are added to `problems` and left out.

    Taxonomies of sensitive attributes are read relative to `base`; without it, the entries hold them themselves.
    An m-privacy entry is not a separate part: it wraps all the others.
    """
    if not job.privacy:
        problems.add(("privacy",), "missing; give at least one [[privacy]] entry")
    wrapping = [position for position, entry in enumerate(job.privacy) if entry.model == M_PRIVACY]
    joined = Conjunction([part for _, part in _entries(job, problems, base)])
    return _wrapped(job, wrapping, joined, providers or Providers(), problems) if wrapping else joined


def entry_of(job: Job, part: GroupRequirement, base: Path) -> Key:
    """Return the key of the entry that a requirement comes from."""
    unheard = Problems("")  # already reported when the entries were read
    return next((key for key, each in _entries(job, unheard, base) if each == part), ("privacy",))


def tell_values(job: Job, problems: Problems, error: ParameterError, base: Path) -> None:
    """Add an error's problems, about values that no record or no taxonomy has, to the entries they belong to."""
    entries = list(_entries(job, Problems(""), base))
    for problem in error.problems:
        for key, part in entries:
            if problem.owner == str(part):
                problems.add((*key, *(problem.key or ("values",))), problem.at(owner=""))


def _entries(job: Job, problems: Problems, base: Path | None) -> Iterator[tuple[Key, GroupRequirement]]:
    """Yield the requirements of all entries except m-privacy, each with its entry's key."""
    sensitive: list[str] = list(dict.fromkeys(job.roles.sensitive))
    if len(sensitive) > 1 and any(entry.model == M_PRIVACY for entry in job.privacy):
        sensitive = [ProductColumn(sensitive)]  # against insiders, several sensitive attributes count as one
    for position, entry in enumerate(job.privacy):
        key = ("privacy", position)
        if entry.model != M_PRIVACY:
            for part in _parts(key, entry, sensitive, problems, SensitiveTaxonomies(job, base)):
                yield key, part


def _wrapped(
    job: Job, wrapping: list[int], joined: Conjunction, providers: Providers, problems: Problems
) -> Requirement:
    """Wrap the requirement against colluding providers; return it unchanged if the m-privacy entry is invalid."""
    from masquerade.privacy import MPrivacy, MPrivateGroups  # few jobs have colluders

    first, *more = wrapping
    entry = job.privacy[first]
    for position in more:
        problems.add(("privacy", position, "model"), f'"{M_PRIVACY}" wraps all other entries; give it once')
    key = ("privacy", first)
    table = _own_keys(key, MPrivateGroups, ({} if entry.qid is None else {"qid": entry.qid}) | entry.given(), problems)
    m: int | None = None
    if "m" not in table:
        problems.add((*key, "m"), f"missing; {M_PRIVACY} needs it")
    else:
        with problems.collecting(key):
            m = checked(MPrivateGroups, "m", parameters_of(MPrivateGroups)[0].rule, table["m"])
    if len(job.privacy) == len(wrapping):
        problems.add(("privacy", first), f"{M_PRIVACY} wraps the other entries; give at least one of them")
    provider = providers.column
    if provider is None and not problems.about(("roles", "provider")):
        if not job.parties:
            problems.add(("roles", "provider"), f"missing; {M_PRIVACY} needs the column of each record's provider")
        elif providers.missing is not None:
            problems.add(("privacy", first), providers.missing)
    taken = {*joined.qid_attributes, *joined.special_columns}
    if m is not None and provider is not None and provider not in taken and joined.parts:
        with problems.collecting(("privacy", first)):
            return Conjunction([MPrivacy(m, joined, provider, providers.verification)])
    return joined


def _parts(
    key: Key, entry: PrivacyEntry, sensitive: list[str], problems: Problems, trees: SensitiveTaxonomies
) -> Iterator[GroupRequirement]:
    """Yield one requirement for each sensitive attribute that the entry applies to."""
    try:
        model = requirement_named(entry.model)
    except ParameterError as error:
        problems.collect(error, (*key, "model"))
        return
    table = _own_keys(key, model, entry.given(), problems)
    if entry.qid is not None:
        table["qid"] = entry.qid
    for names in _sensitive(key, model, table, sensitive, problems):
        given = {**table, **names}
        if trees.wanted(model, given):
            try:
                given["taxonomy"] = trees.tree_of(given["sensitive"])
            except BadInput as error:
                problems.collect(error, key)
                continue
        made, wrong = read_declared(model, given)
        for problem in wrong:
            if problem.allowed:
                problems.broken((*key, *problem.key), problem)
            elif problem.key != ("sensitive",):  # a missing one was reported above
                problems.add((*key, *problem.key), problem)
        if made is not None and entry.given().keys() <= table.keys():
            yield made


def _own_keys(key: Key, model: type[GroupRequirement], given: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """Return the keys that the model declares; report any other, naming the model that has it."""
    own = words_of(model)
    for name in (name for name in given if name not in own):
        whose = [other for other, each in REQUIREMENTS.items() if name in words_of(each)]
        others = f" ({' and '.join(whose)} {'has' if len(whose) == 1 else 'have'})" if len(whose) < 3 else ""
        meant = nearest(name, own) if not whose else None
        text = f"{model.model} has no such parameter{others if whose else hint(name, own)}"
        takes = ", ".join(each.name for each in parameters_of(model))
        problems.broken((*key, name), f"{text}; it takes {takes}", meant=(*key, meant) if meant else None)
    return {name: value for name, value in given.items() if name in own}


def _sensitive(
    key: Key, model: type[GroupRequirement], table: dict[str, Any], sensitive: list[str], problems: Problems
) -> list[dict[str, str]]:
    """Return the keys to add to an entry, one dict per requirement: the sensitive attributes of the roles, if unset."""
    if "sensitive" not in words_of(model) or "sensitive" in table:
        return [{}]
    if not sensitive:
        if not problems.about(("roles", "sensitive")):
            needed = f"missing; {model.model} needs a sensitive attribute, here or in roles.sensitive"
            problems.add((*key, "sensitive"), needed)
        return [{}]
    inside = set(table.get("qid", ()))
    return [{"sensitive": name} for name in sensitive if inside.isdisjoint(columns_of(name))]


# --- roles --------------------------------------------------------------------------------------------------
# Check the columns' roles: report undeclared names, and columns with incompatible roles.


def check_roles(job: Job, problems: Problems, *, needs_provider: bool) -> None:
    """Check that every name in a QID is an attribute, and that the roles of every column are compatible.

    With `needs_provider`, only roles.provider can name the column of the providers.
    """
    roles = job.roles
    for position, entry in enumerate(job.privacy):
        here: Key = ("privacy", position, "qid")
        published: list[tuple[Key, str]] = [(("roles", "sensitive"), name) for name in roles.sensitive]
        published += [(("roles", "class"), roles.class_)] if roles.class_ is not None else []
        published += [((*here[:2], "sensitive"), entry.sensitive)] if entry.sensitive is not None else []
        for key, name in published:
            if name in (entry.qid or ()):
                problems.add(key, f'"{name}" is inside {written(here)}; it is published as it is: take it out of one')
        for name in entry.qid or ():
            if name not in job.attributes and not problems.about(("attributes", name)):
                problems.add(here, f'"{name}" is not among [attributes]{hint(name, job.attributes)}')
    parts = _named_in_roles(job)
    for name in dict.fromkeys(roles.identifiers):
        for other in parts.get(name, ()):
            problems.add(
                ("roles", "identifiers"), f'"{name}" is never released, but {other} asks for it; drop one of them'
            )
    if roles.provider is not None:
        others = [*parts.get(roles.provider, ())]
        others += ["roles.identifiers"] if roles.provider in roles.identifiers else []
        for other in others:
            problems.add(
                ("roles", "provider"), f'"{roles.provider}" is the provider, but {other} names it too; drop one of them'
            )
    elif job.output.keep_provider and needs_provider and not problems.about(("roles", "provider")):
        problems.add(("output", "keep_provider"), "true, but roles.provider names no column")
    for party, section in job.parties.items():
        known = {*job.attributes, *parts, *roles.identifiers}
        for name in section.attributes or ():
            if name not in known and not problems.about(("attributes", name)):
                problems.add(("parties", party, "attributes"), f'"{name}" is not among [attributes]{hint(name, known)}')


def _named_in_roles(job: Job) -> dict[str, dict[str, None]]:
    """Return the columns that the job releases, each with the keys that name it."""
    named = [(name, written(("attributes", name))) for name in job.attributes]
    named += [(job.roles.class_, "roles.class")] if job.roles.class_ is not None else []
    named += [(name, "roles.sensitive") for name in job.roles.sensitive]
    for position, entry in enumerate(job.privacy):
        for name in entry.qid or ():
            named.append((name, written(("privacy", position, "qid"))))
        if entry.sensitive is not None:
            named.append((entry.sensitive, written(("privacy", position, "sensitive"))))
    keys: dict[str, dict[str, None]] = {}
    for name, key in named:
        keys.setdefault(name, {})[key] = None
    return keys


# --- plan ---------------------------------------------------------------------------------------------------

FOR_MODELS = "belongs to jobs of masquerade learn"


def known_method(name: str) -> str:
    """Return the name of a method on one table as it is written; ParameterError if there is none."""
    available = methods.table_methods()
    if methods.full_name(name)[0] not in available:
        raise ParameterError(f"--method: {methods.no_method(name, available)}")
    return name


@dataclass(frozen=True)
class Changes:
    """What is said beside a job file, in place of what it says."""

    method: str | None = None
    k: int | None = None
    output: Path | None = None  # as seen from here; the report goes beside it

    def of(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of a job file with the changes made."""
        changed = dict(table)
        if self.method is not None:
            name, _ = methods.full_name(known_method(self.method))
            known = {*words_of(methods.table_methods()[name]), *words_of(methods.CommonKeys)}
            given = table.get("algorithm")
            kept = {key: value for key, value in given.items() if key in known} if isinstance(given, dict) else {}
            changed["algorithm"] = {**kept, "name": self.method}  # with the keys that this method has, too
        if self.k is not None:
            changed["privacy"] = self._with_k(table.get("privacy"))
        if self.output is not None:
            files, section = outputs_beside(self.output.absolute()), table.get("output", {})
            section = dict(section) if isinstance(section, dict) else {}
            report = False if section.get("report") is False else str(files.report)
            changed["output"] = {**section, "table": str(files.table), "report": report}
        return changed

    def _with_k(self, entries: object) -> object:
        """Return the requirements, each that has a k with this one."""
        if not isinstance(entries, list):
            return entries
        found = [dict(entry) if isinstance(entry, dict) else entry for entry in entries]
        having = [entry for entry in found if isinstance(entry, dict) and "k" in entry]
        if not having:
            raise ParameterError("--k: no requirement of the job has a k; give it in [[privacy]]")
        for entry in having:
            entry["k"] = self.k
        return found


class Plan:
    """A job and its parts.

    Request the parts that a command needs, then call `settle`: until then they may be unusable.
    """

    arrangement: Arrangement | None = None  # how the parties hold their data; None: there is one table

    def __init__(self, path: Path, changes: Changes | None = None, drafted: Draft | None = None) -> None:
        """Read the job file at `path`, or take the one that was drafted for there and is not written.

        `changes` are made to what it says.
        """
        self.path = path
        self.base = path.parent
        self.taxonomies = {} if drafted is None else drafted.taxonomies
        self.problems = Problems(str(path) if drafted is None else "the drafted job")
        table = read_toml(path) if drafted is None else tomllib.loads(drafted.text)
        self.job = fill(Job, table if changes is None else changes.of(table), self.problems)
        self.method = self._method()  # None if it is invalid: checks that depend on it are skipped
        self.requirement = self._requirement()
        self._check_engine()
        check_roles(self.job, self.problems, needs_provider=self.method is not None and not self.is_collaboration)
        self._check_command()

    def settle(self) -> None:
        """Raise one error with all problems found so far, if any."""
        self.problems.settle()

    def _requirement(self) -> Requirement:
        """Return what must hold of the release."""
        missing = FOR_PROVIDERS if self.method is not None else None
        providers = Providers(self.provider, self.common.verification, missing)
        return requirement_of(self.job, self.problems, providers, self.base)

    def _check_engine(self) -> None:
        """Report an engine beside parties whose method does not count there, and a key that no engine reads by."""
        data = self.job.data
        if data is not None and data.partition is not None:
            if database_scheme(data.source) is None:
                self.problems.add(("data", "partition"), "belongs to a database, which source names by its URL")
            elif self.job.engine is None:
                text = "belongs to jobs with an [engine], which reads ranges of it; leave it out, or name one"
                self.problems.add(("data", "partition"), text)
        if self.job.engine is None or not self.job.parties or self.method is None:
            return
        from masquerade.protocol import AskedMethod

        if isinstance(self.method, AskedMethod):
            reason = self.method.off_engine(without_redundant(self.requirement.parts))
            if reason is not None:
                self.problems.add(("engine",), f"{reason}: name another method in [algorithm], or leave [engine] out")

    def _check_command(self) -> None:
        """Report keys that belong to jobs for models."""
        for key in ("duration", "event"):
            if getattr(self.job.roles, key) is not None:
                self.problems.add(("roles", key), FOR_MODELS)
        if self.job.output.model is not None:
            self.problems.add(("output", "model"), FOR_MODELS)
        tables: list[tuple[Key, TableSection | None]] = [
            (("data",), self.job.data),
            *((("parties", name), each) for name, each in self.job.parties.items()),
        ]
        for where, section in tables:
            if section is not None and section.missing == "mean":
                self.problems.add((*where, "missing"), f'"mean" {FOR_MODELS}; use "drop", "error" or "keep"')

    def _method(self) -> Method | None:
        """Return the method that `[algorithm]` names, for one table or for the parties; None if it is invalid."""
        table, target = self.job.algorithm, self.job.roles.class_
        method: Method | None
        if self.job.parties and self.job.data is None:
            self.arrangement = self._arrangement()
            unnamed = methods.unnamed_method(self.arrangement)
            available = methods.askable_methods(self.arrangement)
            method, self.common, wrong = methods.read_method(available, table, unnamed.name, base=self.base)
            method = unnamed if method is not None and method.name == methods.DEFAULT else method
        else:
            method, self.common, wrong = methods.read_method(
                methods.table_methods(), table, base=self.base, target=target
            )
        for problem in wrong:
            # An invalid class is reported already; a score that needs it must not report it again.
            if problem.key != ("score",) or not self.problems.about(("roles", "class")):
                self.problems.broken(("algorithm", *problem.key), problem)
        return None if self.problems.about(("algorithm", "name")) else method

    def _arrangement(self) -> Arrangement:
        """Return how the parties hold their data: as the method needs it, or else by whether they identify people."""
        name, _ = methods.full_name(self.job.algorithm.get("name", methods.DEFAULT))
        possible = {each for each in ARRANGEMENTS if isinstance(name, str) and name in methods.session_methods(each)}
        if len(possible) == 1:
            return possible.pop()
        parties = self.job.parties.values()
        if possible:
            return "vertical" if all(party.id for party in parties) else "horizontal"
        return "vertical" if any(party.id or party.attributes for party in parties) else "horizontal"

    @property
    def is_collaboration(self) -> bool:
        """Whether the job's parties hold the same columns about different people."""
        return self.method is not None and self.arrangement == "horizontal"

    @property
    def provider(self) -> str | None:
        """The column of each record's provider; a collaboration's parties need none."""
        return self.job.roles.provider or (PROVIDER if self.is_collaboration else None)

    def refuse(self, problem: Problem) -> None:
        """Record what a method refuses; its own keys are reported below `algorithm`."""
        if problem.key[:1] != ("attributes",):
            self.problems.add(("algorithm", *problem.key), problem)
        elif not any(other.key[:2] == problem.key[:2] for other in self.problems.found):
            self.problems.add(problem.key, problem)  # unless the attribute is invalid anyway

    def data(self) -> DataSection:
        """Return the section of the table to read."""
        section = self.job.data
        if section is None:
            kind = "[parties] belongs to mashup; one table needs [data]" if self.job.parties else "give [data]"
            self.problems.add(("data",), f'missing; {kind} with source = "table.csv"')
        elif not section.source:
            self.problems.add(("data", "source"), "missing; name a file or a database URL")
        return section or DataSection()

    def schema(self) -> Schema:
        """Return the attributes with their taxonomies."""
        qid = {name for entry in self.job.privacy for name in entry.qid or ()}
        if not self.job.attributes:
            text = "missing; give an [attributes.NAME] table for each column to release"
            self.problems.add(("attributes",), text)
        schema = schema_of(self.job, qid, self.base, self.problems, self.taxonomies)
        for part in self.requirement.parts:
            bounded = any(name in schema and schema[name].is_bounded for name in part.qid)
            if part.within_boundaries and not bounded and not self.problems.found:
                key = entry_of(self.job, part, self.base)
                text = f"{part.model} needs boundaries: give an attribute of its qid max_generalization or max_width"
                self.problems.add(key, text)
        return schema

    def boundaries(self) -> Schema | None:
        """Return the schema for counting cells beyond boundaries in a release; None where there are none.

        A release can be verified without the taxonomies. Where the job itself speaks of boundaries, they are needed.
        """
        named = any(
            each.max_generalization or each.max_width or each.min_generalization or each.min_width
            for each in self.job.attributes.values()
        )
        if named or any(part.within_boundaries for part in self.requirement.parts):
            return self.schema()
        found = schema_of(self.job, (), self.base, Problems(""))
        return found if any(attribute.is_bounded for attribute in found) else None

    def algorithm(self, schema: Schema) -> TableMethod:
        """Return the method for one table, configured for the requirements."""
        parts = without_redundant(self.requirement.parts)
        if not isinstance(self.method, TableMethod):
            return methods.table_methods()[methods.DEFAULT]()
        method = self.method.seeded(self.common.seed)
        with self.problems.collecting(("algorithm",)):
            method = method.fitted(parts)
        if parts:
            for problem in method.refusals(parts, schema):
                self.refuse(problem)
        return method

    def outputs(self) -> Outputs:
        """The files to write."""
        return outputs_of(self.job, self.path, self.problems, folder=self.on_engine)

    @property
    def on_engine(self) -> bool:
        """Whether an engine is to run the job on chunks: it names one, or its table is in many files.

        Without an engine, methods that need the whole table, or would lose something, get it if it is not too large.
        """
        if self.job.engine is not None:
            return not self.job.parties
        method = self.method
        if not self.is_in_parts or not isinstance(method, TableMethod) or method.needs_whole_table:
            return False
        parts = without_redundant(self.requirement.parts)
        with suppress(ParameterError):  # which `algorithm` reports
            method = method.fitted(parts)
        with suppress(ParameterError):
            return method.in_chunks() == method
        return False

    @property
    def is_in_parts(self) -> bool:
        """Whether the table is a folder or pattern of Parquet files."""
        source = self.job.data.source if self.job.data is not None else ""
        return bool(source) and is_partitioned(source, self.base)

    @property
    def published(self) -> tuple[str, ...]:
        """The columns released besides the attributes: class, sensitive, and the provider if it is kept."""
        roles = self.job.roles
        provider = roles.provider if self.job.output.keep_provider else None
        special = self.requirement.special_columns
        looked_at = [name for name in special if name not in self.requirement.provider_columns]
        names = [roles.class_, *roles.sensitive, *looked_at, provider]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def settings(self) -> dict[str, Any]:
        """Return the job as interpreted, for the report.

        Of a database URL, which may hold a password, only the kind is shown.
        """
        settings = self.job.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        for section in (settings.get("data", {}), *settings.get("parties", {}).values()):
            if "source" in section:
                section["source"] = bare_source(section["source"])
        return settings


def bare_source(source: str) -> str:
    """Return a source's file name, or the kind of its database."""
    return f"{source.partition('://')[0]} database" if "://" in source else Path(source).name
