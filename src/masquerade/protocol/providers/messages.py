"""Messages between providers and the third party, other than shares, and how to read their tables."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Annotated, Literal

import msgspec
import pyarrow as pa

from masquerade.data import (
    MAX_LEVELS,
    NUMBER,
    Attribute,
    AttributeKind,
    Branch,
    Number,
    Schema,
    Taxonomy,
    texts,
    write_number,
)
from masquerade.errors import BadInput, ParameterError, PeerBrokeProtocol
from masquerade.net import Message
from masquerade.protocol.contract import MOST_RECORDS
from masquerade.protocol.hand_in import MOST_COLUMNS, ColumnNames, Columns, HoldersError, Losses, Seconds, read_columns

# --- written schema -----------------------------------------------------------------------------------------
# How the attributes of a quasi-identifier are generalised, in a form that can be sent: kind, tree, bounds.
#
# A trusted third party without a schema of its own gets it from the providers, who must all send the same; without a
# third party they compare digests of the same form. A tree is its nodes in preorder, each with its name and the place
# of its parent; a number is its text in a release, so that 2 and 2.0 are one. There is one canonical form: a reader
# refuses every other. Of a taxonomy's source only the last path component is sent, as file paths are private.

_ROOT = -1  # the place of the root's parent
_WHOLE, _DECIMAL = re.compile("-?[0-9]+"), re.compile(NUMBER)


class WrittenTaxonomy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tree; `edges` are the ends of its leaves where they are intervals."""

    nodes: tuple[tuple[str, int], ...]  # name, place of the parent
    edges: tuple[str, ...] | None = None
    source: str = ""


class WrittenAttribute(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attribute. Its weight is not sent: the publisher chooses it."""

    name: str
    kind: AttributeKind
    taxonomy: WrittenTaxonomy | Literal["flat"] | None = None
    lower: str | None = None
    upper: str | None = None


def write_schema(schema: Schema, names: Sequence[str]) -> tuple[WrittenAttribute, ...]:
    """Write the attributes of these names; raise ParameterError for one that is missing or unreadable."""
    return tuple(_written(schema[name]) for name in names)


def read_schema(written: Sequence[WrittenAttribute], sender: str, names: Sequence[str]) -> tuple[Attribute, ...]:
    """Read the attributes that a provider sent, which must be those of the contract."""
    told = [each.name for each in written]
    if told != list(names):
        raise PeerBrokeProtocol(
            sender, f"told of {len(told)} attributes other than {', '.join(names)}, which are agreed"
        )
    attributes = []
    for each in written:
        try:
            attributes.append(_read(each))
        except _Nonsense as error:
            raise PeerBrokeProtocol(sender, f"told of attribute {each.name}: {error}") from None
    return tuple(attributes)


def difference(one: WrittenAttribute, other: WrittenAttribute) -> str | None:
    """Say how two providers' versions of an attribute differ; None when they do not."""
    one, other = _without_source(one), _without_source(other)
    if one.kind != other.kind:
        return "its kind differs"
    if one.taxonomy != other.taxonomy:
        return "its taxonomy differs"
    return "its bounds differ" if (one.lower, one.upper) != (other.lower, other.upper) else None


def digest_of(written: WrittenAttribute, key: bytes) -> bytes:
    """Return a digest, equal for equal attributes; `key` makes it different in every session."""
    return hmac.digest(key, msgspec.msgpack.encode(_without_source(written)), "sha256")


class _Nonsense(ValueError):
    """The reason why something is not a valid attribute, without any of its content."""


def _written(attribute: Attribute) -> WrittenAttribute:
    taxonomy = attribute.taxonomy
    tree: WrittenTaxonomy | Literal["flat"] | None
    if isinstance(taxonomy, Taxonomy):
        edges = None if taxonomy.edges is None else tuple(write_number(edge) for edge in taxonomy.edges)
        nodes = tuple((node.name, node.parent) for node in taxonomy.nodes)
        tree = WrittenTaxonomy(nodes, edges, re.split(r"[/\\]", taxonomy.source)[-1])
    else:
        tree = taxonomy
    written = WrittenAttribute(
        attribute.name,
        attribute.kind,
        tree,
        None if attribute.lower is None else write_number(attribute.lower),
        None if attribute.upper is None else write_number(attribute.upper),
    )
    try:
        _read(written)  # so that an unreadable attribute is reported here, and not by others as our fault
    except _Nonsense as error:
        raise ParameterError(f"attribute {attribute.name}: {error}") from None
    return written


def _without_source(written: WrittenAttribute) -> WrittenAttribute:
    if not isinstance(written.taxonomy, WrittenTaxonomy):
        return written
    return msgspec.structs.replace(written, taxonomy=msgspec.structs.replace(written.taxonomy, source=""))


def _read(written: WrittenAttribute) -> Attribute:
    _refuse_half_characters(written.name)
    taxonomy = written.taxonomy
    try:
        return Attribute(
            written.name,
            written.kind,
            _read_tree(taxonomy, written.kind) if isinstance(taxonomy, WrittenTaxonomy) else taxonomy,
            None if written.lower is None else _read_number(written.lower, written.kind),
            None if written.upper is None else _read_number(written.upper, written.kind),
        )
    except BadInput:  # bounds on categories, or reversed ones
        raise _Nonsense("its bounds are none") from None


def _read_tree(written: WrittenTaxonomy, kind: AttributeKind) -> Taxonomy:
    names = [name for name, _ in written.nodes]
    _refuse_half_characters(written.source, *names)
    if len(set(names)) < len(names):
        raise _Nonsense("its taxonomy names two nodes alike")
    children: list[list[int]] = [[] for _ in names]
    depths: list[int] = []
    for place, (_, parent) in enumerate(written.nodes):
        if (parent != _ROOT) if place == 0 else not 0 <= parent < place:
            raise _Nonsense("its taxonomy is no tree with one root, every node after its parent")
        depths.append(depths[parent] + 1 if place else 0)
        if depths[place] >= MAX_LEVELS:
            raise _Nonsense(f"its taxonomy has more than {MAX_LEVELS} levels")
        if place:
            children[parent].append(place)
    if not names:
        raise _Nonsense("its taxonomy is empty")
    branches: dict[int, Branch] = {}
    for place in reversed(range(len(names))):  # children before their parent
        branches[place] = Branch(names[place], tuple(branches.pop(child) for child in children[place]))
    edges = None if written.edges is None else tuple(_read_number(edge, kind) for edge in written.edges)
    taxonomy = Taxonomy(branches[0], written.source, edges)
    if tuple((node.name, node.parent) for node in taxonomy.nodes) != written.nodes:
        raise _Nonsense("its taxonomy is not in preorder, or a node has one child only")
    if edges is not None and (len(edges) != taxonomy.size + 1 or not all(lo < hi for lo, hi in pairwise(edges))):
        raise _Nonsense("the ends of its intervals are not in order, one more than there are intervals")
    return taxonomy


def _read_number(text: str, kind: AttributeKind) -> Number:
    """Parse a number; whole numbers are exact."""
    number: Number
    try:
        if text in ("-inf", "inf"):
            number = float(text)
        elif _WHOLE.fullmatch(text):
            number = int(text)  # ValueError: more digits than Python reads
        elif _DECIMAL.fullmatch(text):
            number = float(text)
        else:
            raise ValueError
        well_formed = write_number(number) == text
        if kind == "date" and isfinite(number):
            well_formed &= isinstance(number, int)
            write_number(number, "date")  # ValueError, OverflowError: an impossible date
    except (ValueError, OverflowError):
        well_formed = False
    if not well_formed:
        raise _Nonsense("a bound or an end of an interval is no number that it could have")
    return number


def _refuse_half_characters(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Nonsense("a name holds half a character") from None


# --- messages -----------------------------------------------------------------------------------------------


class ProviderRecords(Message, tag="collaborate-records", frozen=True):
    """A provider's records, for a trusted third party: an Arrow stream of the columns of the contract.

    With them goes the schema of the attributes to generalise, which must be the same at all providers.
    """

    table: bytes
    left_out: ColumnNames
    schema: Annotated[tuple[WrittenAttribute, ...], MOST_COLUMNS]


class Axes(Message, tag="collaborate-axes", frozen=True):
    """For each attribute, a digest of how the provider generalises it."""

    digests: Annotated[tuple[bytes, ...], MOST_COLUMNS]


class Values(Message, tag="collaborate-values", frozen=True):
    """The different values of each sensitive attribute: a provider's own, then those of all."""

    values: Annotated[tuple[tuple[tuple[str, ...], ...], ...], MOST_COLUMNS]


class Size(Message, tag="collaborate-size", frozen=True):
    """About how many records a provider has: the number of binary digits."""

    bits: int


class Rows(Message, tag="collaborate-rows", frozen=True):
    """A provider's rows of the release, in random order, and figures for the summary."""

    table: bytes
    losses: Losses
    left_out: ColumnNames
    seconds: Seconds
    query_error: HoldersError | None = None  # of queries about its own records
    suppressed: int = 0  # records of its own that no release within the boundaries can hold


def read_rows(
    data: bytes, sender: str, names: Sequence[str], most_records: int = MOST_RECORDS, *, may_be_none: bool = False
) -> pa.Table:
    """Read the rows that a provider hands in, with cells that can be written as text: at least one, unless said."""
    table = read_columns(Columns(data, (), {}, (), {}), sender, names, most_records)
    if not table.num_rows and not may_be_none:
        raise PeerBrokeProtocol(sender, "handed in no record")
    for name in names:
        column = table.column(name)
        try:
            texts(_without_dictionary(column.slice(0, 1)).combine_chunks())
        except (pa.ArrowException, ValueError):  # for example an unknown time zone
            raise PeerBrokeProtocol(sender, f"handed in a column {name} of a kind that no table here has") from None
        if column.null_count:
            raise PeerBrokeProtocol(sender, f"handed in column {name} with missing cells")
    return table


def stacked(tables: dict[str, pa.Table], provider: str) -> pa.Table:
    """Stack the rows of all providers, with a column that names each row's provider.

    A column of mixed types (numbers at one provider, text at another) becomes text.
    """
    parts = list(tables.values())
    columns = {}
    for name in parts[0].column_names:
        pieces = [_without_dictionary(part.column(name)) for part in parts]
        if len({piece.type for piece in pieces}) > 1:
            pieces = [pa.chunked_array([texts(piece.combine_chunks())]) for piece in pieces]
        columns[name] = pa.chunked_array([chunk for piece in pieces for chunk in piece.chunks], pieces[0].type)
    named = [name for name, part in tables.items() for _ in range(part.num_rows)]
    columns[provider] = pa.chunked_array([pa.array(named, pa.string())])
    return pa.table(columns)


def checked_length(what: str, got: int, expected: int, sender: str) -> None:
    """Raise PeerBrokeProtocol unless a list from a provider has as many entries as agreed."""
    if got != expected:
        raise PeerBrokeProtocol(sender, f"sent {got} {what}; {expected} were expected")


def plain_columns(columns: dict[str, pa.ChunkedArray | pa.Array], names: Sequence[str]) -> pa.Table:
    """Return the columns without dictionaries, which may name values of rows that are left out."""
    return pa.table({name: _without_dictionary(columns[name]) for name in names})


def _without_dictionary(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
