"""What a node answers over real TLS: health, datasets, offers, signatures; who may ask, and what is audited."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

import masquerade
from masquerade.audit import verify
from masquerade.errors import NotAllowed, NotFound, ParameterError, PeerError
from masquerade.net import self_signed
from masquerade.service import Approvals, Health, StateFolder
from masquerade.service.agree.signing import refusals
from masquerade.service.agree.terms import Offer, Provision, Refusal
from masquerade.service.node.admission import deal_id
from masquerade.service.wire.control import AskOffer, Pending, Published, Signature
from masquerade.service.wire.peers import MOST_BYTES
from service.party_nodes import DISEASES, JOBS, PEOPLE, TOWNS, Folder, now, refused, trust_of, wish, world


async def test_health(folder: Folder) -> None:
    async with world(folder, "bank") as here:
        for who in ("coordinator", "clinic"):  # every pinned peer may ask
            async with here.http(who, "bank") as peer:
                health: Health = await peer.call("GET", "/v1/health", answer=Health)
                assert (health.name, health.version) == ("bank", masquerade.__version__)
                assert abs(health.now - now()) < 60
                assert health.certificate_until > now() + 86_400


async def test_no_value_is_published(folder: Folder) -> None:
    async with world(folder) as here:
        said = {}
        for name, peer in here.coordinator.https.items():
            said[name] = await peer.call("GET", "/v1/datasets", answer=msgspec.Raw)
        bank: Published = msgspec.json.decode(said["bank"], type=Published)
        (dataset,) = bank.datasets
        assert (bank.party, dataset.card.dataset, dataset.card.identifier) == ("bank", "customers", "ssn")
        assert dataset.card.names == ("job", "salary", "income")
        assert (dataset.card.records, dataset.public, dataset.purposes) == (100, True, ("research",))
        assert len(dataset.card.snapshot or "") == 64
        whole = re.sub(r"[0-9a-f]{64}", "…", b"".join(map(bytes, said.values())).decode())  # digests
        for value in (*JOBS, *TOWNS, *DISEASES, "Manual", "high", "low", "4711", "remark", "note", "1000"):
            assert value not in whole


async def test_an_offer_and_its_refusal(folder: Folder) -> None:
    async with world(folder) as here:
        offer = await here.coordinator.offer("clinic", wish())
        assert isinstance(offer, Offer)
        assert [column.name for column in offer.columns] == ["age", "town", "disease"]
        assert "k-anonymity (k = 3) over age, town" in map(str, offer.parts)
        refusal = await here.coordinator.offer(
            "clinic", wish(purpose="marketing", algorithm={"adversary": "malicious"})
        )
        assert isinstance(refusal, Refusal)
        assert refusal.reasons == ('purpose "marketing" is not allowed; allowed: research',)
        ask = AskOffer("s9", "patient", wish().content())
        strange = await here.coordinator.https["clinic"].call("POST", "/v1/offers", ask, answer=Offer | Refusal)
        assert strange.reasons == ('there is no dataset "patient"; there are patients',)
    assert folder.audited("clinic", "refusal") == [
        {"asker": "ana", "reasons": ['purpose "marketing" is not allowed; allowed: research'], "session": "s1"},
        {"asker": "ana", "reasons": ['there is no dataset "patient"; there are patients'], "session": "s9"},
    ]
    log = folder.state("clinic") / "audit.jsonl"
    verify(log, certificates=[PEOPLE["clinic"].certificate]).insist()


async def test_a_changed_table_has_another_snapshot(folder: Folder) -> None:
    async with world(folder, "bank") as here:
        first = await here.coordinator.offer("bank", wish())
        again = await here.coordinator.offer("bank", wish())
        folder.write_tables(salary=40)
        changed = await here.coordinator.offer("bank", wish())
        folder.write_tables(salary=30)
        back = await here.coordinator.offer("bank", wish())
        assert isinstance(first, Offer)
        assert isinstance(changed, Offer)
        assert isinstance(back, Offer)
        assert first == again
        assert first.provision.snapshot != changed.provision.snapshot
        assert first.provision.snapshot == back.provision.snapshot  # the same table, the same commitment
        (folder.path / "bank" / "customers.csv").unlink()
        gone = refused(await here.coordinator.offer("bank", wish()))
        assert gone.reasons == ("customers cannot be read now; its steward can see why",)


async def test_a_cell_that_went_wrong_is_not_told(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    async with world(folder) as here:
        contract = await here.coordinator.signed()
        table = folder.path / "bank" / "customers.csv"
        table.write_text(table.read_text() + "7777,Qzpilot,30,high,x\n")
        refusal = refused(await here.coordinator.prepare("bank", contract))
        assert "Qzpilot" not in str(refusal)
    shown = capsys.readouterr()
    assert "Qzpilot" not in shown.out + shown.err
    assert "Qzpilot" not in (folder.state("bank") / "audit.jsonl").read_text()


async def test_a_contract_is_signed_and_audited(folder: Folder) -> None:
    async with world(folder) as here:
        contract = here.coordinator.draw_up(await here.coordinator.deal())
        first = await here.coordinator.ask_signature("bank", contract)
        again = await here.coordinator.ask_signature("bank", contract)
        assert isinstance(first, Signature)
        assert first == again  # asked twice, signed once
        signed = await here.coordinator.sign(contract)
        assert not list(refusals(signed, trust_of("coordinator")))
    (entry,) = folder.audited("bank", "contract")
    assert json.loads(entry["contract"])["deal"]["purpose"] == "research"


async def test_a_value_that_the_table_does_not_have_is_told_once_a_person_has_agreed(folder: Folder) -> None:
    folder.write_conf("clinic", needs_approval=True)
    bounded = {"model": "confidence-bounding", "qid": ["age"], "confidence": 0.9, "sensitive": "disease"}
    typo = wish(privacy=[*wish().content()["privacy"], {**bounded, "values": ["Qzflu", "Qzfluu"]}])
    async with world(folder) as here:
        contract = here.coordinator.draw_up(await here.coordinator.deal(typo))
        assert isinstance(await here.coordinator.ask_signature("bank", contract), Signature)
        # Before that it would tell, to whoever asks, which values the table has.
        assert isinstance(await here.coordinator.ask_signature("clinic", contract), Pending)
        Approvals(StateFolder(folder.state("clinic"))).approve(deal_id(contract.deal), now())
        refusal = refused(await here.coordinator.ask_signature("clinic", contract))
        (reason,) = refusal.reasons
        assert 'clinic has no record with disease = "Qzfluu"; ' in reason
        assert not any(value in reason for value in DISEASES[1:])
    (entry,) = folder.audited("clinic", "refusal")
    assert "Qzfluu" in entry["reasons"][0]
    assert folder.audited("clinic", "contract") == []


async def test_a_deal_that_was_twisted_is_not_signed(folder: Folder) -> None:
    async with world(folder) as here:
        deal = await here.coordinator.deal()
        terms = deal.terms
        change = msgspec.structs.replace
        weaker = change(terms, requirements=({**terms.requirements[0], "qid": ["age", "job"]},))
        older = change(
            terms,
            provisions=(Provision("bank", "customers", "0" * 64, terms.provisions[0].schema), *terms.provisions[1:]),
        )
        for twisted, reason in (
            (change(deal, terms=weaker), "the deal lacks k-anonymity (k = 3) over age, job, salary, town"),
            (change(deal, terms=older), "customers has changed: the contract is about another snapshot"),
            (change(deal, purpose="marketing"), 'purpose "marketing" is not allowed'),
            (change(deal, show_progress=True), "the deal shows the coordinator the progress"),
            (change(deal, terms=change(terms, version=9)), "version 9 of the protocol"),
        ):
            answer = await here.coordinator.ask_signature("bank", here.coordinator.draw_up(twisted))
            assert isinstance(answer, Refusal), reason
            assert any(reason in line for line in answer.reasons), (reason, answer)
        contract = here.coordinator.draw_up(deal)
        stranger = self_signed("clinic").fingerprint
        for broken, reason in (
            (change(contract, keys={**contract.keys, "clinic": stranger}), "party clinic has another key"),
            (change(contract, expiry=now() - 1), "the contract has expired"),
            (change(contract, attempt=9), "attempt 9; the deal allows 1 to 3"),
        ):
            answer = refused(await here.coordinator.ask_signature("bank", broken))
            assert any(reason in line for line in answer.reasons), (reason, answer)
    assert folder.audited("bank", "contract") == []
    assert len(folder.audited("bank", "refusal")) == 8


async def test_a_person_approves(folder: Folder) -> None:
    folder.write_conf("bank", needs_approval=True)
    approvals = Approvals(StateFolder(folder.state("bank")))
    async with world(folder) as here:
        contract = here.coordinator.draw_up(await here.coordinator.deal())
        deal = deal_id(contract.deal)
        for _ in range(2):
            answer = await here.coordinator.ask_signature("bank", contract)
            assert isinstance(answer, Pending)
            assert deal[:12] in answer.reason
        (waiting,) = approvals.waiting()
        assert (waiting.deal, waiting.contract) == (deal, contract)
        assert approvals.find(deal[:6]) == waiting
        approvals.approve(deal, now())
        assert approvals.waiting() == ()
        await here.coordinator.sign(contract)
        retry = here.coordinator.draw_up(contract.deal, attempt=2)  # the same deal: no approval anew
        assert isinstance(await here.coordinator.ask_signature("bank", retry), Signature)
        other = here.coordinator.draw_up(await here.coordinator.deal(wish(attempts=1)))
        assert isinstance(await here.coordinator.ask_signature("bank", other), Pending)
        approvals.refuse(deal_id(other.deal), now(), "not this month")
        refusal = refused(await here.coordinator.ask_signature("bank", other))
        assert refusal.reasons == ("a person has refused it: not this month",)
    with pytest.raises(NotFound, match="there are: none"):
        approvals.find("abcdef")
    with pytest.raises(ParameterError, match="at least 4 characters"):
        approvals.find("abc")


async def test_only_the_coordinator_may_ask(folder: Folder) -> None:
    async with world(folder, "bank") as here:
        address = here.nodes["bank"].address
        async with here.http("clinic", "bank") as clinic:
            for method, path in (
                ("GET", "/v1/datasets"),
                ("POST", "/v1/offers"),
                ("POST", "/v1/sessions"),
                ("DELETE", "/v1/sessions/abc"),
            ):
                with pytest.raises(NotAllowed, match="only coordinator may ask for this"):
                    await clinic.call(method, path, {} if method == "POST" else None, answer=Published)
        known = self_signed("coordinator"), trust_of("coordinator")
        async with folder.network.link("bank", address, *known) as forged:
            with pytest.raises(PeerError):
                await forged.call("GET", "/v1/health", answer=Health)
    assert [entry["asker"] for entry in folder.audited("bank", "refusal")] == ["clinic"] * 4


async def test_what_cannot_be_understood(folder: Folder) -> None:
    async with world(folder, "bank") as here:
        bank = here.coordinator.https["bank"]
        with pytest.raises(ParameterError, match="missing required field `session`"):
            await bank.call("POST", "/v1/offers", {"dataset": "customers"})
        with pytest.raises(ParameterError, match="purpose: missing"):
            await bank.call("POST", "/v1/offers", AskOffer("s1", "customers", {}))
        with pytest.raises(ParameterError, match="at most"):
            await bank.call("POST", "/v1/offers", {"session": "x" * (MOST_BYTES + 1)})
        with pytest.raises(NotFound, match="no such session"):
            await bank.call("GET", f"/v1/sessions/{'0' * 64}")
        with pytest.raises(NotFound):
            await bank.call("GET", "/v1/sessions/..%2F..%2Fsecrets")
