"""A client's commands, and the clients in Python, when hospitals publish together: all of them in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

import masquerade as mq
from cli.command import Answer, answered, here, refused
from masquerade.cli.client import Teller
from masquerade.cli.output import ProgressDisplay
from masquerade.service import Accounts, Event
from service_hospitals import Hospitals
from service_house import toml_value, wait_until

Capture = pytest.CaptureFixture[str]


def k_of(k: int, *qid: str) -> dict[str, Any]:
    return {"model": "k-anonymity", "qid": list(qid or ("age", "ward")), "k": k}


@dataclass(frozen=True)
class Served:
    """A running house, its address, and a token."""

    house: Hospitals
    url: str
    token: str = field(repr=False)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    learn = {"learn": {"methods": ["logistic"]}}
    policies = {
        "north": learn,
        "south": learn,
        "west": {"least_m": 2, "methods": {"mondrian": {"third_party": ["secure"]}}, **learn},
    }
    folder = tmp_path_factory.mktemp("hospitals")
    with Hospitals(folder, people=60, policies=policies) as house, house.serving() as url:
        house.start_nodes()
        user = house.user("ana")
        with house.store() as store:
            token = Accounts(store).create_token(user, "tests")[0]
        with mq.Client(url, token) as client:
            wait_until(lambda: len(client.providers()) == 3, "all hospitals have published")
        yield Served(house, url, token)


@pytest.fixture
def folder(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MASQUERADE_URL", "MASQUERADE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(served.token)
    return tmp_path


def written(served: Served, **changes: Any) -> Path:
    """client.toml in this folder with a request."""
    wish = {key: each for key, each in served.house.request(**changes).items() if each is not None}
    lines = [f'coordinator = "{served.url}"', 'token_file = "token"', "[request]"]
    lines += [f"{key} = {toml_value(value)}" for key, value in wish.items() if key != "privacy"]
    for entry in wish["privacy"]:
        lines += ["[[request.privacy]]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    path = Path("client.toml")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.usefixtures("folder")
def test_a_table_of_all_hospitals_is_asked_for_and_comes(served: Served, capsys: Capture) -> None:
    conf = written(served)
    answer = answered(capsys, "request", conf, "--output", "release.csv", "--report", "report.html", "--json")
    told = answer.json
    assert (told["status"], told["rows"], told["providers"]) == ("published", 150, ["north", "south", "west"])
    assert (told["kind"], told["m"], told["third_party"]) == ("horizontal", 2, "secure")  # west's m
    assert told["request"]["m"] == 1
    frame = pyarrow.csv.read_csv("release.csv")
    assert (frame.num_rows, frame.column_names) == (150, ["age", "ward", "disease", "survived"])
    report = Path("report.html").read_text()
    assert "m-privacy" in report
    assert "common record" not in report


@pytest.mark.usefixtures("folder")
def test_a_person_is_told_of_it_in_words_that_fit(served: Served, capsys: Capture) -> None:
    conf = written(served, privacy=[k_of(9)])
    asked = said(capsys, "request", conf, "--output", "release.csv").out.splitlines()
    session = asked[0].split()[1].rstrip(":")
    together = "published together: against any 2 colluding providers, third party secure"
    assert asked == [f"session {session}: published, 150 rows", together, "table: release.csv"]
    assert said(capsys, "sessions", session).out.splitlines() == [
        f"session {session}: published",
        "  purpose: research",
        "  asked by ana of north, south, west",
        "  to be published together, at least against any 1 colluding provider, third party secure",
        "  agreed: k-anonymity (k = 9) over age, ward; all of it against any 2 colluding providers",
        "  method: mondrian: third party secure, choose public, strict no, provider aware yes",
        "  attempt 1 of 3",
        "  150 rows",
    ]
    assert session in said(capsys, "sessions").out
    taken = said(capsys, "download", session, "--output", "again.csv").out.splitlines()
    assert taken == [f"session {session}: published, 150 rows", together, "table: again.csv"]
    assert Path("again.csv").read_bytes() == Path("release.csv").read_bytes()


@pytest.mark.usefixtures("folder")
def test_without_m_one_provider_may_collude(served: Served, capsys: Capture) -> None:
    conf = written(served, m=None, parties=["south", "north"], privacy=[k_of(6)])
    told = here(capsys, "request", conf, "--json").json
    assert (told["status"], told["rows"], told["m"]) == ("published", 120, 1)
    assert "at least against any 1 colluding provider," in said(capsys, "sessions", told["id"]).out


@pytest.mark.usefixtures("folder")
def test_the_steward_sees_what_was_published_together(served: Served, capsys: Capture) -> None:
    assert here(capsys, "request", written(served, privacy=[k_of(7)])).code == 0
    conf = served.house.folder / "west.toml"
    lines = here(capsys, "party", "ledger", conf).out.splitlines()
    assert lines[-3:] == [
        "  k-anonymity (k = 7) over age, ward",
        "  all of it against any 2 colluding providers",
        "  published together by mondrian: choose public, provider aware yes, strict no, third party secure",
    ]
    card = here(capsys, "party", "card", conf).out.splitlines()
    assert "  may be published together with others that have the same columns" in card


@pytest.mark.usefixtures("folder")
def test_the_doctor_says_whether_it_could_be_asked(served: Served, capsys: Capture) -> None:
    well = answered(capsys, "doctor", written(served))
    assert "request: can be asked of north, south, west" in well.out
    ill = here(capsys, "doctor", written(served, parties=["north", "nord"]))
    assert ill.code != 0
    assert 'client.toml: request.parties: there is no provider "nord" (did you mean "north"?)' in ill.out


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({"algorithm": {"third_party": "trusted"}}, ['third_party "trusted" is not allowed; allowed: secure (west)']),
        (
            {"class": "ward", "attributes": ["age", "disease"], "privacy": [k_of(5, "age")]},
            [
                '"ward" is an attribute and generalised; it cannot be the class, which is released as it is '
                "(north, south, west)"
            ],
        ),
        (
            {"algorithm": {"argmax": "plain", "score": "discernibility"}},
            [
                "client.toml: request.algorithm.argmax: belongs to tds; mondrian does without it",
                "client.toml: request.algorithm.score: belongs to tds; mondrian does without it",
            ],
        ),
        (
            {"kind": "vertical", "m": None, "attributes": ["age"], "class": None, "privacy": [k_of(5, "age")]},
            [
                'client.toml: request.attributes: "age" is held by north and south and west; name one of them in '
                'providers, or ask for the people of all with kind = "horizontal"'
            ],
        ),
        (
            {"privacy": [{"model": "t-closeness", "qid": ["age", "ward"], "sensitive": "disease", "t": 0.3}]},
            [
                "client.toml: request.privacy: t-closeness cannot be tested where nobody sees all counts; use one of "
                "k-anonymity, l-diversity, recursive-l-diversity, alpha-k-anonymity, confidence-bounding, "
                "p-sensitive-k-anonymity, constrained-k-anonymity, or m = 0, which leaves no coalition to be found, or "
                'third_party = "trusted" with choose = "certainty"'
            ],
        ),
    ],
    ids=["third party", "class", "other kind", "held by all", "model"],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_is_told_in_one_line_a_reason(
    served: Served, capsys: Capture, changes: dict[str, Any], problems: list[str]
) -> None:
    answer = here(capsys, "request", written(served, **changes))
    assert answer.code != 0
    # A slow machine is told of progress, too.
    errors = [line for line in answer.err.splitlines() if line.startswith("error: ")]
    assert errors == [f"error: {problem}" for problem in problems]


def test_progress_counts_cuts_and_not_rounds() -> None:
    shown = Lines()
    teller = Teller(shown)
    parties = {
        "north": {"doing": "cutting: 386 cuts tried", "round": 386},
        "south": {"doing": "handing in", "round": 386},
        "west": {"doing": "specialising: round 3", "round": 3},
    }
    teller(Event(session="s", number=1, time=datetime.now(UTC), kind="progress", data={"parties": parties}))
    assert shown.told == ["north: cutting: 386 cuts tried", "south: handing in", "west: specialising: round 3"]


def test_clients_in_python_ask_for_it_too(served: Served) -> None:
    wish = served.house.request(privacy=[k_of(8)])
    with mq.Client(served.url, served.token) as client:
        assert all(dataset.horizontal for each in client.providers() for dataset in each.datasets)
        preview = client.preview(wish)
        assert (preview.parties, preview.problems) == (("north", "south", "west"), ())
        assert preview.requirement[-1] == "all of it against any 1 colluding provider"
        session = client.wait(client.request(wish).id)
        assert (session.published, session.horizontal, session.cause) == (True, True, None)
        assert client.table(session.id).num_rows == session.rows == 150
        summary = client.release(session.id).summary
        assert (summary["kind"], summary["m"], summary["third_party"]) == ("horizontal", 2, "secure")
        assert "common_records" not in summary
        terms = client.contract(session.id)["deal"]["terms"]
        assert {column["holder"] for column in terms["columns"]} == {"*"}
        offers = client.offers(session.id)
        assert {each.party for each in offers} == {"north", "south", "west"}
        with pytest.raises(mq.errors.ParameterError, match="m: must be a whole number from 0"):
            client.request(wish | {"m": -1})

    async def asked() -> list[str]:
        async with mq.AsyncClient(served.url, served.token) as client:
            session = await client.request(wish | {"parties": ["north", "south"]})
            kinds = [event.kind async for event in client.watch(session.id)]
            done = await client.session(session.id)
            assert (done.published, done.horizontal, done.rows) == (True, True, 120)
            assert (await client.release(session.id)).summary["m"] == 1
            return kinds

    assert {"offer", "contract", "progress", "status"} <= set(asyncio.run(asked()))


class Lines(ProgressDisplay):
    """Keeps what is told of the parties."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def party(self, name: str, stage: str) -> None:
        self.told.append(f"{name}: {stage}")


def said(capsys: Capture, *words: str | Path) -> Answer:
    """What a command says, in which nothing of a vertical session may be."""
    answer = answered(capsys, *words)
    assert not any(word in answer.out + answer.err for word in ("common", "mashup"))
    return answer


def test_a_model_is_asked_for_and_taken_home(served: Served, folder: Path, capsys: Capture) -> None:
    wish = {"attributes": ["age", "cost"], "privacy": [], "m": None, "algorithm": {"name": "logistic"}}
    conf = written(served, **wish)
    done = answered(capsys, "request", conf, "--output", "model.json", "--report", "model.html", "--json")
    model = json.loads(Path("model.json").read_text())
    assert set(model["coefficients"]) == {"age", "cost"}
    assert "Coefficients" in Path("model.html").read_text()
    session = done.json["id"]
    answered(capsys, "download", session, "--output", "again.json", "--conf", conf)
    assert Path("again.json").read_bytes() == Path("model.json").read_bytes()
    problems = refused(capsys, "download", session, "--output", "model.csv", "--conf", conf, code=1)
    assert problems == ["the session made a model, which is there as json"]
    assert not Path("model.csv").exists()
