"""A coordinator that changes what a client asked for, asks in its name, or asks again: parties ask the signature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from masquerade.errors import MasqueradeError
from masquerade.net import Identity, self_signed
from masquerade.service import Request
from masquerade.service.agree.request import LIFETIME
from masquerade.service.agree.terms import Deal, Offer, Refusal
from service.party_nodes import Coordinator, Folder, now, run, wish, world

ANA, EVE = self_signed("ana"), self_signed("eve")
OPEN = {"purposes": ["research", "marketing"]}


def signed(identity: Identity = ANA, *, time: int | None = None, **changes: Any) -> Request:
    """Ana's request, signed."""
    return wish(**changes).signed_by(identity, now() if time is None else time)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Two parties that know ana's certificate, and whose policies allow eve and marketing as well."""
    made = Folder(tmp_path)
    for name in ("bank", "clinic"):
        made.write_conf(name, **OPEN)
        clients = made.conf(name).parent / "clients"
        clients.mkdir()
        (clients / "ana.pem").write_bytes(ANA.certificate)
    return made


def reasons(answer: object) -> str:
    assert isinstance(answer, Refusal), answer
    return "; ".join(answer.reasons)


FORGED = {
    "user": {"user": "eve"},
    "purpose": {"purpose": "marketing"},
    "recipients": {"recipients": ("ana", "eve")},
    "attributes": {"attributes": ("age", "job", "salary", "town")},
    "order": {"attributes": ("disease", "town", "salary", "job", "age")},
    "privacy": {"privacy": ()},
    "budget": {"budget": 1_000_000},
    "show_progress": {"show_progress": True},
}


@pytest.mark.parametrize("key", [key for key in FORGED if key != "user"])
def test_no_party_offers_anything_for_a_request_that_was_changed(folder: Folder, key: str) -> None:
    async def part() -> None:
        async with world(folder) as here:
            assert isinstance(await here.coordinator.offer("bank", signed()), Offer)
            forged = signed().model_copy(update=FORGED[key])
            assert f'{next(iter(FORGED[key]))}: not what "ana" has signed' in reasons(
                await here.coordinator.offer("bank", forged)
            )

    run(part())


def test_no_party_signs_a_deal_that_was_changed(folder: Folder) -> None:
    """The offers were for what ana asked; the contract is for eve, for marketing, or shows it to eve, too."""

    async def part() -> None:
        async with world(folder) as here:
            deal = await here.coordinator.deal(signed())
            changes: list[dict[str, Any]] = [
                {"recipients": ("eve",)},
                {"recipients": ("ana", "eve")},
                {"purpose": "marketing"},
                {"budget": deal.budget + 1},
                {"terms": msgspec.structs.replace(deal.terms, columns=deal.terms.columns[::-1])},
                {"signed": None},
            ]
            for change in changes:
                forged = here.coordinator.draw_up(msgspec.structs.replace(deal, **change))
                refused = reasons(await here.coordinator.ask_signature("bank", forged))
                assert 'not what "ana" has signed' in refused or "is not signed" in refused
            assert await here.coordinator.sign(here.coordinator.draw_up(deal))

    run(part())


def test_a_signature_cannot_be_stripped_of_a_user_whose_key_is_known(folder: Folder) -> None:
    async def part() -> None:
        async with world(folder) as here:
            assert "is not signed" in reasons(await here.coordinator.offer("bank", wish()))
            by_eve = signed(EVE)
            assert "not one over this request" in reasons(await here.coordinator.offer("bank", by_eve))

    run(part())


def test_a_policy_that_insists_takes_no_other_users_on_the_coordinators_word(folder: Folder) -> None:
    """Ana's request is passed off as eve's, whose key nobody knows."""
    folder.write_conf("bank", **OPEN, signed_requests=True)

    async def part() -> None:
        async with world(folder) as here:
            for request in (wish().asked_by("eve"), signed().asked_by("eve"), signed(EVE).asked_by("eve")):
                refused = reasons(await here.coordinator.offer("bank", request))
                assert "signed" in refused
            assert isinstance(await here.coordinator.offer("clinic", wish().asked_by("eve")), Offer)

    run(part())


@pytest.mark.parametrize(("age", "said"), [(LIFETIME, "days ago"), (-3600, "in the future")])
def test_a_signature_is_good_for_some_days(folder: Folder, age: int, said: str) -> None:
    async def part() -> None:
        async with world(folder) as here:
            assert said in reasons(await here.coordinator.offer("bank", signed(time=now() - age)))

    run(part())


def test_a_signed_request_is_carried_out_once(folder: Folder) -> None:
    async def part() -> None:
        async with world(folder) as here:
            request = signed()
            first = await here.coordinator.deal(request)
            # Two deals for one request may be signed, because negotiations begin anew; one of them runs.
            second = await here.coordinator.deal(request.model_copy(update={"privacy": stricter(request)}))
            contracts = [await here.coordinator.sign(here.coordinator.draw_up(each)) for each in (first, second)]
            await here.coordinator.release(contracts[0])
            with pytest.raises(MasqueradeError, match="used before"):
                await replayed(here.coordinator, second)
            assert "used before" in reasons(await here.coordinator.offer("bank", request))
            assert "used before" in reasons(await here.coordinator.prepare("bank", contracts[1]))

    run(part())


def test_nor_is_it_carried_out_more_often_than_its_client_allows(folder: Folder) -> None:
    """The same deal in ever new contracts: each begins, and breaks off."""

    async def part() -> None:
        async with world(folder) as here:
            deal = await here.coordinator.deal(signed(attempts=2))
            for attempt in range(3):
                contract = await here.coordinator.sign(here.coordinator.draw_up(deal))
                addresses = await here.coordinator.prepare_all(contract)
                addresses["coordinator"] = "127.0.0.1:1"
                if attempt < 2:
                    await here.coordinator.start("bank", contract, addresses)
                    await here.coordinator.cancel("bank", contract)
                else:
                    with pytest.raises(MasqueradeError, match="used before"):
                        await here.coordinator.start("bank", contract, addresses)

    run(part())


def test_the_audit_log_names_the_certificate_that_was_verified(folder: Folder) -> None:
    async def part() -> None:
        async with world(folder) as here:
            await here.coordinator.signed(signed())

    run(part())
    (entry,) = folder.audited("bank", "contract")
    assert entry["requester"] == ANA.fingerprint


def stricter(request: Request) -> tuple[Any, ...]:
    return tuple(type(part)(part.qid, part.k + 1) if hasattr(part, "k") else part for part in request.privacy)


async def replayed(coordinator: Coordinator, deal: Deal) -> None:
    """Have another contract for the same signed request signed."""
    answer = await coordinator.ask_signature("bank", coordinator.draw_up(deal))
    if isinstance(answer, Refusal):
        raise MasqueradeError(*answer.reasons)
