"""Pages about files that people write, tried by what reads them: the job reference, policies, publishing together."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from pydantic import BaseModel

from docs.test_howtos import N
from docs.test_keys import SECTIONS, section
from docs.walkthrough import DOCS, Block, Reader, blocks
from masquerade.data import Attribute, Schema, Taxonomy
from masquerade.privacy import GroupRequirement, TCloseness
from masquerade.protocol.providers.method import Collaboration
from masquerade.service import ColumnCard, Ledger, NodeSettings, Request, Status, read_request
from masquerade.service.agree.answering import answer
from masquerade.service.agree.policy import Policy, check_policy, read_policy
from masquerade.service.agree.terms import Refusal
from masquerade.service.ledger import record_of
from masquerade.service.node.admission import unknown_past
from people_job import write_people
from service.parties import CLINIC, NOW, K, L, dealt, policy, reasons, refused, request
from service.test_policy import question
from service_hospitals import Hospitals

POLICY = DOCS / "howto" / "policy.md"


def toml(page: Path) -> list[str]:
    return [block.text for block in blocks(page) if block.language == "toml"]


def spoken_out(text: str) -> str:
    """A TOML text with the keys that stand in comments."""
    return re.sub(r"^# (?=[\w.]+ = )", "", text, flags=re.MULTILINE)


# --- docs/reference/job.md ---


def test_the_example_of_the_job_reference_is_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_run(reader: Reader, block: Block) -> None:
        reader.write("job.toml", block.text)
        assert reader.run("masquerade anonymize job.toml") == 0, reader.said
        assert reader.run("masquerade verify release.csv --job job.toml") == 0, reader.said

    write_people(tmp_path, N)
    monkeypatch.chdir(tmp_path)
    Reader(tmp_path, capsys, {"## Example": is_run}).follow(DOCS / "reference" / "job.md")
    header = (tmp_path / "release.csv").read_text().partition("\n")[0]
    assert header == "birth_date,sex,town,salary,approved,disease"
    assert (tmp_path / "report.html").exists()


DEFAULTS_IN_WORDS = {"separator": "of the header", "min, max": "−inf, inf"}


@pytest.mark.parametrize("name", [name for name in SECTIONS if name != "[roles]"])
def test_the_defaults_of_the_job_reference_are_those_of_the_reader(name: str) -> None:
    form: type[BaseModel] = SECTIONS[name][0]
    rows = re.findall(r"^\| (`.+?`) \| (.*?) ?\| ", section("reference/job.md", f"`{name}`"), re.MULTILINE)
    assert rows
    for keys, told in rows:
        for key in re.findall(r"`(\w+)`", keys):
            default = form.model_fields[key].get_default(call_default_factory=True)
            if told.startswith("`"):
                assert tomllib.loads(f"it = {told.strip('`')}")["it"] == default, key
            else:
                assert told == DEFAULTS_IN_WORDS.get(keys.replace("`", ""), ""), key
                assert default in (None, ""), key


# --- docs/howto/policy.md ---


def test_the_policy_of_the_page_is_one() -> None:
    [text] = toml(POLICY)
    read = read_policy(tomllib.loads(text))
    check_policy(read, CLINIC)
    usual = read_policy({"least_k": 10})
    differs = {name for name in Policy.model_fields if getattr(read, name) != getattr(usual, name)}
    told = POLICY.read_text("utf-8").partition("```")[0].rpartition("except for")[2]
    named = set(re.findall(r"`(\w+)`", told)) | ({"price"} if "prices" in told else set())
    named |= {line.split()[0] for line in text.splitlines() if line.endswith("default: nothing")}
    assert differs == named | {"users", "purposes"}


def test_the_words_of_the_policys_comments_are_allowed() -> None:
    """What a comment offers instead: `"public": everybody`, `true: …`."""
    [text] = toml(POLICY)
    content = tomllib.loads(text)
    offered = re.findall(r'^(\w+) = \S+ .*?(\["\*"\]|"\w+"|true): ', text.partition("[learn]")[0], re.MULTILINE)
    assert len(offered) > 5
    for key, value in offered:
        changed = {**content, key: tomllib.loads(f"it = {value}")["it"]}
        if key == "access":
            changed.pop("users")
        read_policy(changed)


def test_the_methods_that_the_page_names_can_be_allowed() -> None:
    spans = re.findall(r"`((?:[\w-]+) = \{[^`]*\})`", POLICY.read_text("utf-8").replace("\n", " "))
    assert len(spans) == 4
    for span in spans:
        read_policy({"least_k": 2, "methods": tomllib.loads(span)})


T = {"model": "t-closeness", "qid": ["age", "job"], "t": 0.3, "sensitive": "disease"}
HORIZONTAL = {
    "kind": "horizontal",
    "m": 1,
    "attributes": ["age", "town"],
    "class": None,
    "privacy": [{"model": K, "qid": ["age"], "k": 3}],
}
ASKED = policy(least_k=1, joint_qid="asked")


def refusals(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Refusals of every kind, by policies and requests that ask for them."""
    yield from reasons(policy(access="private"), request(recipients=["ben"]))
    yield from reasons(policy(purposes=["care"]), request())
    yield from reasons(policy(methods={"dka": {}}), request())
    limited = policy(methods={"tds": {"adversary": ["malicious"], "argmax": ["secure"]}})
    yield from reasons(limited, request(algorithm={"argmax": "plain"}))
    learn = request(privacy=[], algorithm={"name": "id3"})
    yield from reasons(policy(), learn)
    followed = replace(CLINIC, columns=(*CLINIC.columns, ColumnCard("months", "continuous", "duration")))
    yield from reasons(policy(), request(attributes=["age", "job", "months"]), followed)
    survival = {"attributes": ["age"], "class": None, "duration": "town", "event": "income", "kind": "horizontal"}
    cox = request(**survival, privacy=[], algorithm={"name": "cox"})
    yield from reasons(policy(learn={"methods": ["*"]}, least_m=0), cox)
    tree = {"privacy": [], "algorithm": {"name": "id3"}}
    few = policy(learn={"methods": ["id3"], "columns": ["town"], "models": 0})
    yield from reasons(few, request(**tree, **{"class": "disease", "attributes": ["age", "job"]}))
    grants = policy(learn={"methods": ["id3"], "class": ["disease"]})
    diverse = {"model": L, "qid": ["age", "town"], "sensitive": "disease", "l": 3}
    table = request(attributes=["age", "town", "job", "disease"], privacy=[diverse], **{"class": None})
    model = request(**tree, **{"class": "disease", "attributes": ["age", "job"]})
    for asked, before in ((model, table), (table, model)):
        ledger = Ledger((record_of(dealt(before, bank=grants, clinic=grants), "clinic", NOW),))
        yield from reasons(grants, asked, ledger=ledger)
    never = policy(alignments={"per_week": 0}), policy(alignments={"identifiers_per_week": 0})
    for each in never:
        yield from reasons(each, request(providers={"job": "bank"}))
    yield from reasons(policy(tables=False), request())
    yield from reasons(policy(), question())
    granted = policy(joint_keys={"ratios": 1, "columns": ["age"]})
    yield from reasons(granted, question(precision=None, least_records=1))
    yield from reasons(policy(joint_keys={"ratios": 1}), question(sets=[["disease", "job"]]))
    yield from reasons(policy(), request(**HORIZONTAL))
    yield from reasons(policy(least_m=1), request(**HORIZONTAL, algorithm={"third_party": "trusted"}))
    flat = Schema([Attribute("age", "continuous", lower=0, upper=128), Attribute("town", taxonomy="flat")])
    together = answer(policy(least_m=1), request(**HORIZONTAL), CLINIC, Ledger(), NOW, flat)
    assert isinstance(together, Refusal)
    yield from together.reasons
    yield "1 sessions are running, and no more are allowed"  # service/node/session.py
    diverse = policy(privacy=[{"model": L, "l": 2, "qid": ["town"], "sensitive": "disease"}])
    yield from reasons(diverse, request(attributes=["age", "job", "disease"]))
    yield from reasons(policy(), request(privacy=[{"model": K, "qid": ["age", "disease"], "k": 3}]))
    yield from reasons(policy(), request(**{"class": "town", "attributes": ["age", "job"]}))
    ledger = Ledger((record_of(dealt(request()), "clinic", NOW - 100),))
    yield from reasons(policy(), request(normalize="casefold"), ledger=ledger)
    yield from reasons(policy(), request(), replace(CLINIC, snapshot="dd" * 32), ledger=ledger)
    yield unknown_past("patients")
    yield from between(request(privacy=[T]), bank=ASKED, clinic=ASKED)
    yield from between(request(privacy=[{"model": K, "qid": ["age"], "k": 6000}]))
    yield from between(request(budget=1), bank=policy(price={"per_attribute": 30}))
    monkeypatch.setattr(TCloseness, "circuit", GroupRequirement.circuit)  # as a model of another package
    yield from between(request(privacy=[T]), bank=ASKED, clinic=ASKED)


def between(wish: Request, **policies: Policy) -> list[str]:
    return [line for lines in refused(wish, **policies).values() for line in lines]


def test_every_refusal_of_the_page_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list(refusals(monkeypatch))
    listed = re.findall(r"^- \*(.+?)\*: ", section("howto/policy.md", "Why it refuses"), re.MULTILINE | re.DOTALL)
    choices = [f"{word} … is not allowed" for word in ("adversary", "argmax", "third_party")]
    assert "adversary …, argmax …, third_party … is not allowed" in listed
    listed.remove("adversary …, argmax …, third_party … is not allowed")
    patterns = [part for each in listed for part in each.split("; ")] + choices
    if "its steward can see why" in patterns:  # the second half of one sentence
        patterns.remove("its steward can see why")
    for pattern in patterns:
        expression = re.escape(" ".join(pattern.split())).replace("…", ".+")
        assert any(re.search(expression, line) for line in told), (pattern, told)
    for line in told:
        assert any(re.search(re.escape(" ".join(each.split())).replace("…", ".+"), line) for each in patterns), (
            f"the page does not explain: {line}"
        )


def test_no_circuit_measures_a_distance_along_a_taxonomy() -> None:
    """What the page says of `distance = "hierarchical"`."""
    tree = Taxonomy.flat(["flu", "ulcer"])
    known = TCloseness(["age"], 0.3, "disease", distance="hierarchical", taxonomy=tree)
    assert not known.has_circuit
    assert TCloseness(["age"], 0.3, "disease").has_circuit


# --- docs/howto/horizontal.md ---


@pytest.mark.system
def test_hospitals_publish_together_as_the_page_says(tmp_path: Path) -> None:
    """Its dataset at each of three hospitals, its request, and what comes of it."""
    dataset, request = toml(DOCS / "howto" / "horizontal.md")
    with Hospitals(tmp_path, people=60) as house:
        for party in house.parties:
            source = f"{party}.parquet"
            pyarrow.parquet.write_table(pyarrow.csv.read_csv(tmp_path / f"{party}.csv"), tmp_path / source)
            configuration = tmp_path / f"{party}.toml"
            own = configuration.read_text().partition("[datasets.")[0]
            for text in (spoken_out(dataset), dataset):  # the keys in comments, too, can be read
                configuration.write_text(own + text.replace("patients.parquet", source))
                read = NodeSettings.load(configuration).datasets["patients"].policy
                trusted = "trusted" in read.methods.get("mondrian", {}).get("third_party", ())
                assert (read.least_m, trusted) == (1, text != dataset)
        house.start_nodes()
        wish = tomllib.loads(request)["request"]
        other = read_request(tomllib.loads(spoken_out(request))["request"])
        assert other.parties == ("north", "south")
        assert other.algorithm == Collaboration(third_party="trusted")
        with house.coordinator() as coordinator:
            ana = house.user("ana")
            house.known(coordinator, ana)
            done = house.finished(coordinator, coordinator.ask(ana, wish | {"budget": 0}).id)
            assert done.status is Status.PUBLISHED, (done.cause, done.reasons)
            release = coordinator.release(ana, done.id)
        assert release.rows == sum(len(house.records(party)) for party in house.parties)
