"""Contracts that services sign, one of each kind: their canonical bytes, their hashes, and the request they began with.

Each comes of a coordinator and its parties' nodes. What they draw afresh (nonces, fingerprints, signatures, times,
commitments) is written in the file once, and kept when the file is made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from golden.cases import CASES, MASHUP, deal
from masquerade.jobs.parties import contract_of
from masquerade.jobs.plan import Plan
from masquerade.jobs.session import party_headers
from masquerade.service import SignedContract, read_request
from service_hospitals import Hospitals
from service_house import House, wait_until

CONTRACTS = Path(__file__).parent / "contracts"
OF_JOBS = CONTRACTS / "of-jobs.json"
RATIOS = {"ratios": 4, "precision": 0, "least_records": 20}
DRAWN = {"nonce", "expiry", "keys", "signatures", "snapshot", "schema", "address", "fingerprint"}


def _vertical(folder: Path) -> tuple[House, dict[str, Any]]:
    prices = {"price": {"per_attribute": 10, "attributes": {"age": 7}}, "least_k": 3}
    house = House(folder, people=60, policies={"clinic": prices})
    return house, house.request(algorithm={"name": "tds"}, most_ncp=0.9, recipients=["ana"])


def _by_itself(folder: Path) -> tuple[House, dict[str, Any]]:
    """A request that leaves the method open, with boundaries and a column that is released unchanged."""
    house = House(folder, people=60, policies={"bank": {"price": {"per_record": 2}}})
    ages = {"age": {"max_width": 60, "weight": 2}}
    return house, house.request(attributes=["age", "job", "town", "disease"], boundaries=ages)


def _horizontal(folder: Path) -> tuple[House, dict[str, Any]]:
    house = Hospitals(folder, people=60)
    return house, house.request()


def _learning(folder: Path) -> tuple[House, dict[str, Any]]:
    house = Hospitals(
        folder, people=60, policies={name: {"learn": {"methods": ["*"]}} for name in ("north", "south", "west")}
    )
    request = house.request(attributes=["age", "cost", "ward"], algorithm={"name": "logistic"})
    return house, {key: each for key, each in request.items() if key not in ("privacy", "m")}


def _question(folder: Path) -> tuple[House, dict[str, Any]]:
    house = House(folder, people=60, policies={name: {"joint_keys": RATIOS} for name in ("bank", "clinic")})
    method = {"name": "joint-keys", "sets": [["job", "town"], ["salary", "town"]], "least_records": 20}
    asked = {"purpose": "research", "attributes": ["job", "town", "salary"], "budget": 100_000}
    return house, {**asked, "algorithm": method}


KINDS = {
    "vertical": _vertical,
    "method-left-open": _by_itself,
    "horizontal": _horizontal,
    "learning": _learning,
    "question": _question,
}


@contextmanager
def agreed(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """What a house comes to: the offers of the first round, and the contract that all have signed."""
    house, request = KINDS[name](folder)
    with house:
        house.start_nodes()
        with house.coordinator() as coordinator:
            ana = house.user("ana")
            house.known(coordinator, ana)
            session = coordinator.ask(ana, request).id
            contract = wait_until(lambda: coordinator.contract(ana, session), "all have signed")
            offers = [msgspec.to_builtins(each.terms) for each in coordinator.offers(ana, session)]
            house.finished(coordinator, session)
            yield {"request": request, "offers": offers, "contract": contract}


def without_drawn(said: Any) -> Any:
    """What is agreed, without what is drawn afresh in every house."""
    if isinstance(said, dict):
        return {key: "…" if key in DRAWN else without_drawn(each) for key, each in said.items()}
    return [without_drawn(each) for each in said] if isinstance(said, list | tuple) else said


def encoded(request: Any, contract: Any) -> dict[str, str]:
    """The canonical forms, and the hashes that name what is agreed: of a request and a contract as JSON has them."""
    signed = SignedContract.read(json.dumps(contract).encode())
    return {
        "request_canonical": read_request(request).asked_by("ana").canonical().decode(),
        "terms_hash": signed.deal.terms.hash.hex(),
        "contract_hash": signed.hash.hex(),
        "contract_canonical": signed.canonical().decode(),
        "session_canonical": signed.contract.canonical().decode(),  # by which the protocol runs
    }


def of_jobs(folder: Path) -> dict[str, str]:
    """The contracts by which the parties of mashups on one machine run, in canonical form, by case."""
    found = {}
    for name, case in CASES.items():
        if case.commands == MASHUP:
            deal(case, folder / name)
            plan = Plan(folder / name / "job.toml")
            contract = contract_of(plan, party_headers(plan))
            plan.settle()
            assert contract is not None
            found[name] = msgspec.structs.replace(contract, nonce="0f" * 16).canonical().decode()
    return found


def write(name: str, folder: Path) -> None:
    """Freeze what a house comes to; of an old file, all that is drawn is kept where nothing else has changed."""
    with agreed(name, folder) as found:
        path = CONTRACTS / f"{name}.json"
        old = json.loads(path.read_text()) if path.exists() else {}
        for key in ("offers", "contract"):
            if without_drawn(old.get(key)) == without_drawn(found[key]):
                found[key] = old[key]
        found |= encoded(found["request"], found["contract"])
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
