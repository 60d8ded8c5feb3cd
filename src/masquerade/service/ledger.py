"""What a party has released from which snapshot: a chained file beside the dataset, and the queries a policy makes.

A line is written **before** the columns are handed in: what is not in the ledger has not left. A line without its end
was not finished, so its release never started: it does not count. The chain and the head beside it (`ledger.head`)
reveal accidental damage, an edited line, or an old copy put back. Anyone who may write the folder can forge both: the
sealed audit log is the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import msgspec

from masquerade.audit.chain import ChainCheck, LineError, Record, read_line
from masquerade.audit.chained_file import RECOVERED, ChainedFile, reading
from masquerade.audit.head import head_path, read_head
from masquerade.errors import DataError, ParameterError, Problem, one_line
from masquerade.forms.declared import parameters_of
from masquerade.methods import session_methods
from masquerade.privacy.requirement import GroupRequirement
from masquerade.service.request import Kind
from masquerade.service.terms import Deal, covering, read_parts

_RELEASE = "release"


class Released(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One release that a party has taken part in."""

    dataset: str
    snapshot: str
    terms: str  # the terms' hash
    parties: tuple[str, ...]
    columns: tuple[str, ...]  # of the whole release, from all parties
    requirements: tuple[dict[str, Any], ...]
    class_name: str | None
    method: dict[str, Any]
    recipients: tuple[str, ...]
    time: int
    schema: str  # the digest of how the columns were generalised
    kind: Kind = "vertical"
    m: int = 0

    @property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """The requirements that the release satisfies."""
        return read_parts(self.requirements, "ledger", self.kind)


@dataclass(frozen=True)
class Ledger:
    """All releases of a party, earliest first."""

    records: tuple[Released, ...] = ()

    def of_snapshot(self, dataset: str, snapshot: str) -> tuple[Released, ...]:
        """Return the releases from this snapshot."""
        return tuple(each for each in self.records if (each.dataset, each.snapshot) == (dataset, snapshot))

    def last_of_others(self, dataset: str, snapshot: str) -> Released | None:
        """Return the latest release from another snapshot of the dataset."""
        others = [each for each in self.records if each.dataset == dataset and each.snapshot != snapshot]
        return max(others, key=lambda each: each.time, default=None)

    def releases(self, dataset: str) -> int:
        """Count the releases of a dataset, from any snapshot."""
        return sum(each.dataset == dataset for each in self.records)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a ledger (empty if the file does not exist yet); DataError names the first invalid line."""
        if not path.exists() and read_head(path) is None:
            return cls()
        found: list[Released | None] = []
        with reading(path) as (lines, head):
            check = ChainCheck(head)
            try:
                for line in lines:
                    if line.endswith(b"\n"):  # the last one may be unfinished
                        record, released = _read(line[:-1])
                        check.take(record)
                        found.append(released)
                check.end()
            except LineError as error:
                raise DataError(Problem(str(error), source=str(path), line=check.last.number + 1)) from None
        if found and not head_path(path).exists():
            text = "is missing: nobody can tell whether the ledger's last lines are"
            raise DataError(Problem(text, source=str(head_path(path))))
        return cls(tuple(each for each in found if each is not None))


def append(path: Path, record: Released) -> None:
    """Append one line to an intact ledger; return once it is on disk."""
    Ledger.load(path)
    with ChainedFile(path, "ledger") as file:
        file.append((_RELEASE, msgspec.to_builtins(record)))


def record_of(deal: Deal, party: str, time: int) -> Released:
    """Make the record that a party writes before it hands its columns in."""
    terms = deal.terms
    provision = terms.provision(party)
    assert provision is not None  # only parties hand columns in
    return Released(
        dataset=provision.dataset,
        snapshot=provision.snapshot,
        terms=terms.hash.hex(),
        parties=terms.parties,
        columns=tuple(column.name for column in terms.columns),
        requirements=terms.requirements,
        class_name=terms.class_name,
        method=terms.method,
        recipients=deal.recipients,
        time=time,
        schema=provision.schema,
        kind=terms.kind,
        m=terms.m,
    )


def objections(
    earlier: Iterable[Released],
    *,
    parts: Sequence[GroupRequirement],
    columns: Sequence[str],
    class_name: str | None,
    method: Mapping[str, Any],
    schema: str,
    kind: Kind = "vertical",
    m: int = 0,
    parties: Sequence[str] | None = None,
    final: bool = False,
) -> list[str]:
    """List why a release beside earlier ones of the same snapshot could break them, each reason once.

    Anyone who holds two releases can intersect their groups. The same columns, generalised for the same QIDs at least
    as strictly, are let through; everything that makes other groups of the same people is reported. In a horizontal
    release another column order, requirement or table of any party makes other groups: beside it only the same is let
    through. `final`: everything has been agreed, and the terms equal none of the earlier ones.
    """
    reasons: dict[str, None] = {}
    for each in earlier:
        differences = []
        if set(columns) != set(each.columns):
            differences.append(f"other columns ({_names(each.columns)} before, {_names(columns)} now)")
        if _qids(parts) != _qids(each.parts):
            differences.append(f"other QIDs ({_shown(each.parts)} before, {_shown(parts)} now)")
        covers = covering(each.kind)
        weaker = [old for old in each.parts if not any(covers(new, old) for new in parts)]
        if weaker and _qids(parts) == _qids(each.parts):
            differences.append(f"a weaker requirement than {_conjunction(weaker)}")
        if class_name != each.class_name:
            differences.append(
                f"another class ({each.class_name or 'none'} before, {class_name or 'none'} now)"
            )
        if each.schema != schema:
            differences.append("other taxonomies or bounds")
        if kind != each.kind:
            differences.append(f"another kind ({each.kind} before, {kind} now)")
        else:
            differences += _other_method(each.method, method)
            if kind == "horizontal":
                differences += _about_providers(m, parts, columns, each)
        if parties is not None and set(parties) != set(each.parties):
            differences.append(f"other parties ({_names(each.parties)} before, {_names(parties)} now)")
        if final and kind == "horizontal" and not differences:
            differences.append("another table of another party")
        for difference in differences:
            reasons[f"a second release with {difference} can break the first"] = None
    return list(reasons)


def _other_method(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List the differences between two methods that can make other groups."""
    if before.get("name") != now.get("name"):
        return [f"another method ({before.get('name')} before, {now.get('name')} now)"]
    known = session_methods().get(str(now.get("name")))
    harmless = {each.name for each in parameters_of(known) if not each.shapes_release} if known else set()
    return [
        f"another {word} ({before.get(word)} before, {now.get(word)} now)"
        for word in sorted({*before, *now} - harmless)
        if before.get(word) != now.get(word)
    ]


def _about_providers(
    m: int, parts: Sequence[GroupRequirement], columns: Sequence[str], earlier: Released
) -> list[str]:
    found = []
    if set(columns) == set(earlier.columns) and tuple(columns) != earlier.columns:
        found.append(
            f"another order of the columns ({', '.join(earlier.columns)} before, {', '.join(columns)} now)"
        )
    covers = covering(earlier.kind)
    stricter = not all(any(covers(old, new) for old in earlier.parts) for new in parts)
    if stricter and _qids(parts) == _qids(earlier.parts):
        found.append(f"another requirement ({_conjunction(earlier.parts)} before, {_conjunction(parts)} now)")
    if m != earlier.m:
        found.append(f"another m ({earlier.m} before, {m} now)")
    return found


@lru_cache(maxsize=1 << 14)  # the ledger is read for every answer, and hardly changes
def _read(line: bytes) -> tuple[Record, Released | None]:
    """Decode a line; the release is None for the marker of a line that a crash cut short."""
    record = read_line(line)
    if record.event == RECOVERED:
        return record, None
    try:
        if record.event != _RELEASE:
            raise ParameterError(f"the event {record.event}")
        released = msgspec.convert(record.fields, Released)
        _ = released.parts  # raises now if the requirements are unreadable
    except (msgspec.MsgspecError, ParameterError) as error:
        raise LineError(f"not a ledger's record: {one_line(str(error))}") from None
    return record, released


def _qids(parts: Iterable[GroupRequirement]) -> set[frozenset[str]]:
    return {frozenset(part.qid) for part in parts}


def _shown(parts: Iterable[GroupRequirement]) -> str:
    return "; ".join(sorted(", ".join(sorted(qid)) for qid in _qids(parts)))


def _conjunction(parts: Iterable[GroupRequirement]) -> str:
    return " & ".join(map(str, parts))


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
