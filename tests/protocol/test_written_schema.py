"""How attributes are generalised, written and read: nothing is lost on the way, and nonsense is named."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.data import Branch, Taxonomy
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.net.script import decode, encode
from masquerade.protocol.providers.messages import (
    ProviderRecords,
    WrittenAttribute,
    WrittenTaxonomy,
    difference,
    digest_of,
    read_schema,
    write_schema,
)
from strategies import branches

words = st.text(max_size=8)  # any characters, also "", "/" and signs beyond the basic plane; no halves
numbers = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)


def renamed(branch: Branch, names: list[str]) -> Branch:
    children = tuple(renamed(child, names) for child in branch.children)
    return Branch(names.pop(), children)


@st.composite
def trees(draw: st.DrawFn) -> Taxonomy:
    outline = draw(branches(1, 8, chains=True))
    n = 1 + str(outline).count("Branch(")
    names = draw(st.lists(words, min_size=n, max_size=n, unique=True))
    return Taxonomy(renamed(outline, names), draw(words))


@st.composite
def intervals(draw: st.DrawFn, edge: st.SearchStrategy[Any]) -> Taxonomy:
    inner = sorted(draw(st.lists(edge, min_size=2, max_size=6, unique=True)))
    if draw(st.booleans()):
        inner = [-math.inf, *inner, math.inf]
    leaves = tuple(Branch(f"leaf {at}") for at in range(len(inner) - 1))
    return Taxonomy(Branch("all", leaves), "some/folder/ages.csv", tuple(inner))


@st.composite
def bounded(draw: st.DrawFn, name: str, kind: Any, bound: st.SearchStrategy[Any]) -> mq.Attribute:
    ends: list[Any] = sorted(draw(st.lists(bound, min_size=2, max_size=2, unique=True)))
    lower, upper = (draw(st.sampled_from([None, end])) for end in ends)
    taxonomy = draw(st.none() | st.just("flat") | intervals(bound))
    return mq.Attribute(name, kind, taxonomy, lower, upper, draw(st.sampled_from([1.0, 3.0])))


@st.composite
def attributes(draw: st.DrawFn, name: str) -> mq.Attribute:
    kind = draw(st.sampled_from(["categorical", "continuous", "date"]))
    if kind == "categorical":
        return mq.Attribute(name, taxonomy=draw(st.none() | st.just("flat") | trees()))
    return draw(bounded(name, kind, numbers if kind == "continuous" else st.integers(-700_000, 2_900_000)))


def sent(written: tuple[WrittenAttribute, ...]) -> tuple[WrittenAttribute, ...]:
    """As it arrives."""
    message = decode(encode(ProviderRecords(b"", (), written)), [ProviderRecords])
    assert isinstance(message, ProviderRecords)
    return message.schema


def nodes_of(attribute: mq.Attribute) -> Any:
    taxonomy = attribute.taxonomy
    return (taxonomy.nodes, taxonomy.edges) if isinstance(taxonomy, Taxonomy) else taxonomy


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(words, min_size=1, max_size=3, unique=True), st.data())
def test_any_schema_survives(names: list[str], data: st.DataObject) -> None:
    schema = mq.Schema([data.draw(attributes(name)) for name in names])
    written = write_schema(schema, names)
    for was, now in zip(schema, read_schema(sent(written), "abbey", names), strict=True):
        assert (now.name, now.kind) == (was.name, was.kind)
        assert (now.lower, now.upper) == (was.lower, was.upper)
        assert nodes_of(now) == nodes_of(was)
        if isinstance(was.taxonomy, Taxonomy):
            assert isinstance(now.taxonomy, Taxonomy)
            assert was.taxonomy.source.endswith(now.taxonomy.source)
            assert not set(now.taxonomy.source) & set("/\\")
        assert now.weight == 1
    again = write_schema(mq.Schema(read_schema(written, "abbey", names)), names)
    assert again == written  # one form


@settings(max_examples=examples(100), deadline=None)
@given(attributes("age"), attributes("age"))
def test_the_same_is_written_the_same_and_nothing_else_is(one: mq.Attribute, other: mq.Attribute) -> None:
    (first,), (second,) = (write_schema(mq.Schema([each]), ["age"]) for each in (one, other))
    alike = (one.kind, nodes_of(one), one.lower, one.upper) == (other.kind, nodes_of(other), other.lower, other.upper)
    assert (difference(first, second) is None) == alike
    assert (digest_of(first, b"key") == digest_of(second, b"key")) == alike
    assert digest_of(first, b"key") != digest_of(first, b"another key")


def test_sources_and_the_way_of_writing_numbers_make_no_difference() -> None:
    def attribute(source: str, two: float) -> WrittenAttribute:
        tree = Taxonomy(Branch("all", (Branch("low"), Branch("high"))), source, (0, two, 5))
        (written,) = write_schema(mq.Schema([mq.Attribute("age", "continuous", tree, lower=0, upper=two)]), ["age"])
        return written

    one, other = attribute("/home/abbey/ages.csv", 2), attribute("C:\\burgh\\age.csv", 2.0)
    assert isinstance(one.taxonomy, WrittenTaxonomy)
    assert isinstance(other.taxonomy, WrittenTaxonomy)
    assert (one.taxonomy.source, other.taxonomy.source) == ("ages.csv", "age.csv")
    assert difference(one, other) is None
    assert digest_of(one, b"") == digest_of(other, b"")


def test_what_differs_is_named() -> None:
    plain = WrittenAttribute("age", "continuous")
    tree = WrittenTaxonomy((("all", -1),))
    assert difference(plain, WrittenAttribute("age", "date")) == "its kind differs"
    assert difference(plain, WrittenAttribute("age", "continuous", tree)) == "its taxonomy differs"
    assert difference(plain, WrittenAttribute("age", "continuous", "flat")) == "its taxonomy differs"
    assert difference(plain, WrittenAttribute("age", "continuous", lower="0")) == "its bounds differ"


SPLIT = (("all", -1), ("low", 0), ("high", 0))


def tree(nodes: tuple[tuple[str, int], ...]) -> WrittenAttribute:
    return WrittenAttribute("age", "categorical", WrittenTaxonomy(nodes))


def cut_at(edges: tuple[str, ...]) -> WrittenAttribute:
    return WrittenAttribute("age", "continuous", WrittenTaxonomy(SPLIT, edges))


NONSENSE: dict[str, tuple[WrittenAttribute, str]] = {
    "a cycle": (tree((("a", 1), ("b", 0))), "no tree"),
    "its own parent": (tree((("a", 0),)), "no tree"),
    "a later parent": (tree((("a", -1), ("b", 2), ("c", 0))), "no tree"),
    "a parent beyond": (tree((("a", -1), ("b", 2**62))), "no tree"),
    "a parent below": (tree((("a", -1), ("b", 0), ("c", -2))), "no tree"),
    "two roots": (tree((("a", -1), ("b", -1))), "no tree"),
    "no node": (tree(()), "empty"),
    "one name twice": (tree((("a", -1), ("b", 0), ("b", 0))), "two nodes alike"),
    "not in preorder": (tree((("a", -1), ("b", 0), ("c", 0), ("d", 1), ("e", 1))), "preorder"),
    "an only child": (tree((("a", -1), ("b", 0))), "preorder"),
    "endless": (tree(tuple((str(at), at - 1) for at in range(100_000))), "more than 100 levels"),
    "endless with two children each": (
        tree(tuple((str(at), (at - 1) // 2 * 2 if at else -1) for at in range(100_001))),
        "more than 100 levels",
    ),
    "no number": (cut_at(("0", "nan", "2")), "no number"),
    "disorder": (cut_at(("0", "3", "2")), "in order"),
    "equal ends": (cut_at(("0", "2", "2")), "in order"),
    "ends missing": (cut_at(("0", "2")), "in order"),
    "no end": (cut_at(()), "in order"),
    "infinity in the middle": (cut_at(("0", "inf", "inf")), "in order"),
    "a bound that is none": (WrittenAttribute("age", "continuous", lower="nan"), "no number"),
    "text": (WrittenAttribute("age", "continuous", upper="0x10"), "no number"),
    "another form": (WrittenAttribute("age", "continuous", upper="2.0"), "no number"),
    "digits of another script": (WrittenAttribute("age", "continuous", upper="\u0663"), "no number"),
    "too many digits": (WrittenAttribute("age", "continuous", upper="9" * 10_000), "no number"),
    "beyond all decimals": (WrittenAttribute("age", "continuous", upper="1e999"), "no number"),
    "the wrong way round": (WrittenAttribute("age", "continuous", lower="3", upper="2"), "bounds"),
    "bounds of categories": (WrittenAttribute("age", "categorical", lower="3"), "bounds"),
    "a day of no calendar": (WrittenAttribute("age", "date", lower="1000000000"), "no number"),
    "half a day": (WrittenAttribute("age", "date", lower="0.5"), "no number"),
    "an endless day": (WrittenAttribute("age", "date", lower="9" * 400), "no number"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_told_as_the_senders_fault(name: str) -> None:
    written, reason = NONSENSE[name]
    with pytest.raises(PeerBrokeProtocol, match=reason) as caught:
        read_schema(sent((written,)), "burgh", ["age"])
    assert caught.value.peer == "burgh"
    assert "attribute age" in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("told", [[], ["age", "age"], ["job"], ["age", "job"]])
def test_other_attributes_than_agreed_are_refused(told: list[str]) -> None:
    written = tuple(WrittenAttribute(name, "continuous") for name in told)
    with pytest.raises(PeerBrokeProtocol, match="which are agreed") as caught:
        read_schema(written, "burgh", ["age"])
    assert caught.value.peer == "burgh"


def test_half_characters_never_arrive_and_never_leave() -> None:
    """A lone surrogate is no UTF-8: a message with one is malformed, and our own is refused at home."""
    good = encode(ProviderRecords(b"", (), (WrittenAttribute("age", "categorical", WrittenTaxonomy((("@@@", -1),))),)))
    assert good.count(b"@@@") == 1
    with pytest.raises(ValueError, match="not a well-formed collaborate-records message"):
        decode(good.replace(b"@@@", "\ud800".encode("utf-8", "surrogatepass")), [ProviderRecords])
    for attribute in (
        mq.Attribute("age", taxonomy=Taxonomy(Branch("all", (Branch("\ud800"), Branch("b"))))),
        mq.Attribute("age", taxonomy=Taxonomy(Branch("all"), "\ud800")),
    ):
        with pytest.raises(ParameterError, match="attribute age: a name holds half a character"):
            write_schema(mq.Schema([attribute]), ["age"])


def test_what_nobody_could_read_is_told_at_home() -> None:
    deep = Branch("leaf")
    for at in range(150):
        deep = Branch(f"{at}", (deep, Branch(f"beside {at}")))
    with pytest.raises(ParameterError, match="attribute job: its taxonomy has more than 100 levels"):
        write_schema(mq.Schema([mq.Attribute("job", taxonomy=Taxonomy(deep))]), ["job"])
    with pytest.raises(ParameterError, match="attribute age: a bound"):
        write_schema(mq.Schema([mq.Attribute("age", "continuous", lower=math.nan)]), ["age"])
    with pytest.raises(ParameterError, match='no attribute "agee"'):
        write_schema(mq.Schema([mq.Attribute("age", "continuous")]), ["agee"])


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(words, st.integers(-3, 8)), max_size=6),
    st.none() | st.lists(words | st.sampled_from(["0", "1", "2.5", "-inf", "inf", "nan"]), max_size=4),
    st.sampled_from(["categorical", "continuous", "date"]),
    st.none() | words | st.sampled_from(["0", "-3", "inf"]),
)
def test_whatever_arrives_is_read_or_refused(
    nodes: list[tuple[str, int]], edges: list[str] | None, kind: Any, bound: str | None
) -> None:
    tree = WrittenTaxonomy(tuple(nodes), None if edges is None else tuple(edges), "a file")
    written = WrittenAttribute("age", kind, tree, bound)
    try:
        read = read_schema(sent((written,)), "burgh", ["age"])
    except PeerBrokeProtocol:
        return
    assert write_schema(mq.Schema(read), ["age"]) == (written,)


def test_other_shapes_are_no_message() -> None:
    for schema in ([{"name": "age"}], [{"name": "age", "kind": "colour"}], [["age", "date"]], "age"):
        data = msgspec.msgpack.encode({"kind": "collaborate-records", "table": b"", "left_out": [], "schema": schema})
        with pytest.raises(ValueError, match="not a well-formed"):
            decode(data, [ProviderRecords])
