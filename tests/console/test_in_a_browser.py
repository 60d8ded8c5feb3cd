"""What people do in the console, in a real Chromium."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Dialog, Locator, Page, expect

from console.conftest import PATIENCE, Site, Visit, sign_in
from console.world import PASSWORD
from masquerade.service import Status

expect.set_options(timeout=PATIENCE)


def press_to(page: Page, name: str, role: str = "") -> None:
    """Press Tab until the focus is on what has this name."""
    for _ in range(120):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => {
                const e = document.activeElement;
                const label = e.labels && e.labels.length ? e.labels[0].textContent : "";
                return [e.getAttribute("aria-label") || label || e.textContent, e.tagName.toLowerCase()];
            }"""
        )
        if found[0].strip() == name and role in ("", found[1]):
            return
    raise AssertionError(f"the Tab key never comes to {name}")


def pressed_surely(page: Page, button: Locator, asked: str = "?", *, sure: bool = True) -> None:
    """Press a button that asks whether one is sure, and answer."""
    told: list[str] = []

    def answer(dialog: Dialog) -> None:
        told.append(dialog.message)
        (dialog.accept if sure else dialog.dismiss)()

    page.once("dialog", answer)
    button.click()
    assert asked in told[0]


def test_signing_in_and_out(site: Site, visit: Visit) -> None:
    with visit(None, "/providers") as page:
        expect(page).to_have_url(re.compile("/console/sign-in"))
        sign_in(page, "ana", "a wrong password")
        expect(page.get_by_role("alert")).to_contain_text("wrong, the account is disabled, or")
        sign_in(page, "ana")
        expect(page.get_by_role("heading", name="Providers")).to_be_visible()  # where she wanted to go
        kept = page.context.cookies()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_text("You are signed out.")).to_be_visible()
        page.context.add_cookies(kept)  # somebody kept the cookie: it opens nothing any more
        page.goto(site.console("/providers"))
        expect(page).to_have_url(re.compile("/console/sign-in"))


def test_whoever_guesses_has_to_wait_and_an_admin_forgets_the_guesses(site: Site, visit: Visit) -> None:
    site.world.accounts.create("eve", PASSWORD)
    with visit(None, "/sign-in") as page:
        for guess in range(6):
            sign_in(page, "eve", PASSWORD if guess == 5 else f"wrong guess {guess}")
            expect(page.get_by_role("alert")).to_contain_text("wrong guesses came from here")
        with visit("root", "/users") as admin:
            row = admin.get_by_role("row").filter(has_text="eve")
            expect(row).to_contain_text("5 wrong guesses in a day")
            admin.get_by_role("button", name="Forget guesses: eve").click()
            expect(row).to_contain_text("active")
        sign_in(page, "eve")
        expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


def test_a_whole_request_with_the_keyboard_alone(site: Site, visit: Visit) -> None:
    with visit(None, "/request") as page:
        page.get_by_role("heading", name="Sign in").wait_for()
        press_to(page, "Name")
        page.keyboard.type("ana")
        press_to(page, "Password")
        page.keyboard.type(PASSWORD)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="New request").wait_for()
        press_to(page, "Skip to content")
        page.keyboard.press("Enter")
        press_to(page, "job")
        page.keyboard.press("Space")
        press_to(page, "age")
        page.keyboard.press("Space")
        press_to(page, "Purpose")
        page.keyboard.type("keyboard research")
        press_to(page, "Class")
        page.keyboard.type("income")
        press_to(page, "k")
        page.keyboard.press("Control+a")
        page.keyboard.type("7")
        press_to(page, "Budget")
        page.keyboard.type("25.50")
        preview = page.get_by_role("complementary", name="Preview")
        expect(preview).to_contain_text("k-anonymity (k = 7) over age, job")
        expect(preview).to_contain_text("This can be sent.")
        expect(preview).to_contain_text("income: bank, clinic")
        press_to(page, "Send the request")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")  # the impatient send it once all the same
        expect(page.get_by_role("heading", name=re.compile("Session "))).to_be_visible()
    (made,) = [each for each in site.world.store.sessions.recent("ana") if each.purpose == "keyboard research"]
    assert made.request["attributes"] == ["job", "age"]
    assert made.request["class"] == "income"
    assert made.request["budget"] == 2550
    assert made.request["privacy"] == [{"model": "k-anonymity", "qid": ["job", "age"], "k": 7}]


def test_a_refused_request_is_changed_and_asked_again(site: Site, visit: Visit) -> None:
    world = site.world
    wishes = [{"model": "k-anonymity", "qid": ["age"], "k": 5}]
    session = world.negotiating(world.asked(attributes=["age", "salary"], budget=100, privacy=wishes))
    lines = ["the request: costs up to 700 cents (bank 700, clinic 0); the budget is 100"]
    session = world.store.sessions.advance(session, Status.REFUSED, lines[0], {"reasons": lines})
    with visit("ana", f"/sessions/{session.id}") as page:
        expect(page.get_by_role("heading", name="What would be accepted")).to_be_visible()
        expect(page.get_by_text("A budget of 7.00 EUR or more.")).to_be_visible()
        page.get_by_role("link", name="Change and ask again").click()
        page.get_by_role("heading", name="New request").wait_for()
        expect(page.get_by_role("group", name="bank: customers").get_by_label("salary")).to_be_checked()
        expect(page.get_by_label("Purpose")).to_have_value("research")
        expect(page.get_by_label("Class", exact=True)).to_have_value("income")
        expect(page.get_by_label("k", exact=True)).to_have_value("5")
        preview = page.get_by_role("complementary", name="Preview")
        expect(preview).to_contain_text("It may cost 7.00 EUR, and the budget is 1.00 EUR.")
        expect(preview).to_contain_text("Each party notes the columns")
        page.get_by_label("Budget").fill("10")
        expect(preview).to_contain_text("This can be sent.")
        expect(preview).to_contain_text("7.00 EUR, of a budget of 10.00 EUR")
    with visit("root") as page:  # who did not ask
        page.goto(site.console(f"/sessions/{session.id}"))
        expect(page.get_by_role("heading", name=re.compile("Session "))).to_be_visible()
        expect(page.get_by_role("link", name="Change and ask again")).to_have_count(0)


def test_the_preview_says_what_is_wrong_and_nothing_is_sent(site: Site, visit: Visit) -> None:
    before = len(site.world.store.sessions.recent("ana"))
    with visit("ana", "/request") as page:
        preview = page.get_by_role("complementary", name="Preview")
        page.get_by_role("checkbox", name="salary").check()
        expect(preview).to_contain_text("purpose: missing")
        page.get_by_role("button", name="Add a requirement").click()
        second = page.get_by_role("group", name="Requirement 2")
        expect(second.get_by_label("Model")).to_be_focused()
        second.get_by_label("Model").select_option("t-closeness")
        expect(second.get_by_label("Model")).to_be_focused()
        second.get_by_label("t", exact=True).fill("2")
        expect(preview).to_contain_text("privacy[2].t")
        expect(page.get_by_role("button", name="Send the request")).to_be_disabled()
        page.get_by_role("button", name="Remove requirement 2").click()
        expect(second).to_have_count(0)
        expect(preview).not_to_contain_text("privacy[2]")
        page.get_by_text("As TOML").click()
        expect(page.get_by_role("region", name="TOML")).to_contain_text('attributes = ["salary"]')
    assert len(site.world.store.sessions.recent("ana")) == before


def test_boundaries_and_weights_go_into_the_request(site: Site, visit: Visit) -> None:
    with visit("ana", "/request") as page:
        page.get_by_role("group", name="bank: customers").get_by_label("salary").check()
        page.get_by_text("Boundaries and weights").click()
        page.get_by_label("salary: never coarser than").fill("500")
        page.get_by_label("salary: weight").fill("2,5")
        page.get_by_text("As JSON, for the HTTP API").click()
        told = page.get_by_role("region", name="JSON")
        expect(told).to_contain_text('"max_width": 500')
        expect(told).to_contain_text('"weight": 2.5')
        page.get_by_label("salary: never coarser than").fill("0")
        expect(page.get_by_label("Preview")).to_contain_text("boundaries.salary.max_width: must be a number above 0")


def test_progress_and_the_cut_appear_without_a_reload(site: Site, visit: Visit) -> None:
    session = site.world.running()
    with visit("ana", f"/sessions/{session.id}") as page:
        page.evaluate("() => { window.untouched = true; }")
        expect(page.get_by_role("heading", name="Progress")).to_be_hidden()
        site.world.progress(session, 3)
        bank = page.get_by_role("table", name="Progress by party").get_by_role("row").filter(has_text="bank")
        expect(bank).to_contain_text("12.3 kB")
        site.world.progress(session, 4, 99_000)
        expect(bank).to_contain_text("99.0 kB")
        cut = page.locator(".tree .cut .node-name")
        site.world.steps(session, 1)
        expect(cut).to_have_text(["Blue-collar", "White-collar"])
        site.world.tell(
            session, "step", party="bank", attribute="job", value="White-collar", children=["Clerk", "Lawyer"]
        )
        expect(cut).to_have_text(["Blue-collar", "Clerk", "Lawyer"])
        site.world.store.sessions.advance(session, Status.ASSEMBLING)
        expect(page.locator(".stepper [aria-current=step]")).to_have_text("assembling")
        expect(page.get_by_role("status").first).to_have_text("The session is assembling")
        assert page.evaluate("() => window.untouched") is True


def test_a_new_session_appears_in_the_list_without_a_reload(site: Site, visit: Visit) -> None:
    with visit("ben", "/") as page:
        page.get_by_role("heading", name="Sessions").wait_for()
        session = site.world.asked("ben", purpose="billing of ben")
        row = page.get_by_role("row").filter(has_text="billing of ben")
        expect(row).to_contain_text("requested")
        site.world.store.sessions.advance(session, Status.NEGOTIATING)
        expect(row).to_contain_text("negotiating")
        box = row.get_by_role("link").bounding_box()
        assert box is not None
        assert box["height"] >= 24  # large enough for a finger
        page.get_by_label("Status").select_option("published")
        expect(row).to_have_count(0)


def test_every_reason_of_a_refusal_is_told(site: Site, visit: Visit) -> None:
    session = site.world.refused()
    with visit("ana", f"/sessions/{session.id}") as page:
        expect(page).to_have_title(f"Session {session.id[:8]} · Masquerade")
        told = page.locator(".problems")
        expect(told).to_contain_text('clinic: user "ana" may not ask')
        expect(told).to_contain_text('clinic: purpose "research" is not allowed; allowed: billing')
        answers = page.get_by_role("table", name="Answers in round 1")
        expect(answers.get_by_role("row").filter(has_text="clinic")).to_contain_text("refuses")
        expect(answers.get_by_role("row").filter(has_text="bank")).to_contain_text("k-anonymity (k = 5) over age, job")
        expect(page.get_by_role("button", name="Cancel the session")).to_have_count(0)


def test_offers_counter_offers_and_the_contract_are_shown(site: Site, visit: Visit) -> None:
    session = site.world.agreed()
    with visit("ana", f"/sessions/{session.id}") as page:
        expect(page.get_by_text("Counter-offer to all, at most 10.00 EUR:")).to_be_visible()
        expect(page.get_by_role("table", name="Answers in round 2")).to_be_visible()
        page.get_by_text("The contract that all parties signed").click()
        expect(page.get_by_role("region", name="Contract")).to_contain_text('"purpose": "research"')


@pytest.mark.parametrize("place", ["", "/release"])
def test_a_strangers_session_is_not_found_as_if_there_were_none(site: Site, visit: Visit, place: str) -> None:
    session = site.world.published()
    with visit("ben", complaints=("404",)) as page:
        texts = []
        for identifier in (session.id, "0" * 32):
            answer = page.goto(site.console(f"/sessions/{identifier}{place}"))
            assert answer is not None
            assert answer.status == 404
            expect(page.get_by_role("heading", name="Not found")).to_be_visible()
            texts.append(page.locator("main").inner_text().replace(identifier, "…"))
            for file in ("table.csv", "table.parquet", "report.html"):
                assert page.request.get(site.console(f"/sessions/{identifier}/{file}")).status == 404
        assert texts[0] == texts[1]


def test_admins_see_the_course_of_a_session_and_not_its_release(site: Site, visit: Visit) -> None:
    session = site.world.published()
    with visit("root", f"/sessions/{session.id}", complaints=("404",)) as page:
        expect(page.get_by_role("heading", name=f"Session {session.id[:8]}")).to_be_visible()
        expect(page.get_by_role("link", name="Release and report")).to_have_count(0)
        page.goto(site.console(f"/sessions/{session.id}/release"))
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        assert page.request.get(site.console(f"/sessions/{session.id}/table.csv")).status == 404


def test_a_proposal_fills_in_the_form_and_says_why(site: Site, visit: Visit) -> None:
    with visit("ana", "/request") as page:
        page.get_by_text("A proposal to begin with").first.click()
        page.get_by_role("link", name="Fill in this proposal").first.click()
        expect(page.get_by_role("heading", name="Proposed, and why")).to_be_visible()
        roles = page.get_by_role("table", name="Proposed roles of the columns")
        expect(roles.get_by_role("row", name="job")).to_contain_text("others know this of a person")
        expect(page.get_by_role("checkbox", name="job").first).to_be_checked()
        expect(page.get_by_label("k", exact=True).first).to_have_value("5")
        expect(page.get_by_label("Class", exact=True)).to_have_value("income")


def test_joint_keys_are_asked_for_in_the_form_and_shown_with_their_meaning(site: Site, visit: Visit) -> None:
    with visit("ana", "/request") as page:
        page.get_by_role("checkbox", name="job").first.check()
        page.get_by_role("checkbox", name="age").first.check()
        page.get_by_label("Purpose").fill("research")
        page.get_by_label("Method").select_option("joint-keys")
        page.get_by_label("Sets").fill("age, job")
        expect(page.get_by_role("group", name="Requirement 1")).to_be_hidden()
        preview = page.get_by_role("complementary", name="Preview")
        expect(preview).to_contain_text("This can be sent.")
        page.get_by_text("As JSON, for the HTTP API").click()
        expect(page.get_by_role("region", name="JSON")).to_contain_text('"joint-keys"')
        session = site.world.answered()
        page.goto(site.console(f"/sessions/{session.id}/release"))
        expect(page.get_by_role("heading", name=f"Joint keys of session {session.id[:8]}")).to_be_visible()
        ratios = page.get_by_role("table", name="Each set of columns, its ratio and what it means")
        told = "at least 92 % of the common records would be left, if of those alike in age, job only one were kept"
        expect(ratios.get_by_role("row", name="age, job")).to_contain_text(told)
        with page.expect_download() as coming:
            page.get_by_role("link", name="Download the ratios").click()
        assert b'"ratio": 0.92' in coming.value.path().read_bytes()


def test_a_release_is_shown_and_downloaded(site: Site, visit: Visit) -> None:
    session = site.world.published()
    kept = site.world.coordinator.table(site.world.user("ana"), session.id, "csv")
    warnings = site.world.coordinator.summary(site.world.user("ana"), session.id)["warnings"]
    assert warnings
    with visit("ana", f"/sessions/{session.id}") as page:
        for warning in warnings:  # before anybody goes on to the release
            expect(page.get_by_text(warning)).to_be_visible()
        page.get_by_role("link", name="Release and report").click()
        expect(page.get_by_text("Every requirement was checked again")).to_be_visible()
        worst = page.get_by_role("table", name="Requirements and the worst group of each")
        expect(worst.get_by_role("row").nth(1)).to_contain_text("yes")
        expect(page.get_by_text("15.50 EUR")).to_be_visible()
        expect(page.get_by_role("heading", name="What could still go wrong")).to_be_visible()
        attacks = page.get_by_role("table", name="Attacks on the release")
        expect(attacks.get_by_role("row").nth(1)).to_contain_text("prosecutor")
        expect(attacks.get_by_role("row").nth(1)).to_contain_text("the least protected record is found")
        with page.expect_download() as coming:
            page.get_by_role("link", name="Download as CSV").click()
        assert coming.value.suggested_filename == f"release-{session.id[:8]}.csv"
        assert coming.value.path().read_bytes() == kept.read_bytes()
        with page.expect_download() as coming:
            page.get_by_role("link", name="Download as Parquet").click()
        assert coming.value.path().read_bytes() == kept.with_suffix(".parquet").read_bytes()
        with page.expect_popup() as opening:
            page.get_by_role("link", name="Open the report").click()
        report = opening.value  # a page of its own, which may not run a script
        expect(report.get_by_text("Both requirements hold").first).to_be_visible()
        expect(report.get_by_role("heading", name="What could still go wrong")).to_be_visible()


def test_the_client_decides_when_quality_was_missed(site: Site, visit: Visit) -> None:
    world = site.world
    with visit("ana") as page:
        session = world.awaiting()
        page.goto(site.console(f"/sessions/{session.id}"))
        expect(page.get_by_text("The classification error is 0.31, and at most 0.2 was wished.")).to_be_visible()
        pressed_surely(page, page.get_by_role("button", name="Decline it"))
        expect(page.locator(".stepper [aria-current=step]")).to_have_text("cancelled")
        assert world.store.sessions.get(session.id).status is Status.CANCELLED

        session = world.awaiting()
        page.goto(site.console(f"/sessions/{session.id}"))
        relaxed = page.get_by_label("Or relax: largest classification error")
        relaxed.fill("7")
        page.get_by_role("button", name="Relax").click()
        expect(page.get_by_role("alert")).to_contain_text("most_error: must be a number of at least 0 and at most 1")
        relaxed.fill("0.3")
        page.get_by_role("button", name="Relax").click()
        expect(page.get_by_role("alert")).to_contain_text("the table that is held is 0.31, so 0.3 is missed too")
        asked_again = world.store.sessions.relax(session, {**session.request, "budget": 1})
        world.store.releases.hold_on(asked_again, "bank: too cheap", ["bank: too cheap"])
        expect(page.get_by_text("bank: too cheap", exact=True)).to_be_visible()
        cancel = page.get_by_role("button", name="Cancel the session")
        pressed_surely(page, cancel, "cannot be resumed", sure=False)
        expect(page.get_by_role("button", name="Accept it as it is")).to_be_visible()
        assert world.store.sessions.get(session.id).status is Status.AWAITING_CLIENT
        pressed_surely(page, cancel)
        expect(page.locator(".stepper [aria-current=step]")).to_have_text("cancelled")


def test_the_client_decides_when_a_column_would_be_lost(site: Site, visit: Visit) -> None:
    losses = {"age": 0.97, "job": 0.25}
    told = {"lost": {"age": 0.97}, "losses": losses, "rows": 4, "cost": 1550, "declines": 3}
    with visit("ana") as page:
        session = site.world.awaiting(**told)
        page.goto(site.console(f"/sessions/{session.id}"))
        expect(page.get_by_role("heading", name="The release is made, and waits for you")).to_be_visible()
        question = page.locator("section.asked")
        for text in ("age lost 97%", "15.50 EUR", "2 more may be declined after that"):
            expect(question).to_contain_text(text)
        lost = page.get_by_role("table", name="What each column lost")
        expect(lost.get_by_role("row").nth(1)).to_contain_text("97%")
        expect(page.get_by_role("button", name="Relax")).to_have_count(0)
        pressed_surely(page, page.get_by_role("button", name="Decline it"), "nobody is given it")
        expect(page.locator(".stepper [aria-current=step]")).to_have_text("cancelled")
        assert site.world.store.releases.held(session.id) is None


def test_a_token_is_shown_once_and_opens_the_api_until_it_is_revoked(site: Site, visit: Visit) -> None:
    with visit("ana") as page, httpx.Client(timeout=900) as api:
        page.goto(site.console("/account"))
        page.get_by_role("button", name="Make a token").click()
        expect(page.get_by_role("alert")).to_contain_text("needs a name")
        page.get_by_label("Name of the new token").fill("laptop")
        page.get_by_role("button", name="Make a token").click()
        token = page.locator("code.secret").inner_text()
        headers = {"Authorization": f"Bearer {token}"}
        assert api.get(f"{site.address}/api/v1/me", headers=headers).json()["name"] == "ana"
        page.reload()
        expect(page.get_by_role("row").filter(has_text="laptop")).to_be_visible()
        expect(page.locator("code.secret")).to_have_count(0)
        revoke = page.get_by_role("button", name=re.compile("Revoke laptop"))
        pressed_surely(page, revoke, "Revoke the token laptop?", sure=False)
        assert api.get(f"{site.address}/api/v1/me", headers=headers).status_code == 200
        pressed_surely(page, revoke)
        expect(page.get_by_role("row").filter(has_text="laptop")).to_have_count(0)
        assert api.get(f"{site.address}/api/v1/me", headers=headers).status_code == 401


def test_an_admin_adds_a_user_and_one_who_is_disabled_is_out_at_the_next_action(site: Site, visit: Visit) -> None:
    with visit("root", "/users") as admin:
        admin.get_by_label("Name", exact=True).fill("dora")
        admin.get_by_label("Password", exact=True).fill("too short")
        admin.get_by_role("button", name="Add the account").click()
        expect(admin.get_by_role("alert")).to_contain_text("from 12 to 1024 characters")
        admin.get_by_label("Password", exact=True).fill(PASSWORD)
        admin.get_by_role("button", name="Add the account").click()
        row = admin.get_by_role("row").filter(has_text="dora")
        expect(row).to_contain_text("analyst")
        with visit("dora", "/account") as page:
            page.get_by_label("Name of the new token").fill("late")
            pressed_surely(admin, admin.get_by_role("button", name="Disable: dora"))
            expect(row).to_contain_text("disabled")
            page.get_by_role("button", name="Make a token").click()
            expect(page).to_have_url(re.compile("/console/sign-in"))
        assert "late" not in [each.name for each in site.world.accounts.tokens(site.world.user("dora"))]
        admin.get_by_role("button", name="Enable: dora").click()
        admin.get_by_role("button", name="Make admin: dora").click()
        expect(row).to_contain_text("admin")


def test_a_password_changes_and_signs_out(site: Site, visit: Visit) -> None:
    site.world.accounts.create("finn", PASSWORD)
    with visit("finn", "/account") as page:
        page.get_by_label("Current password").fill("not this one")
        page.get_by_label("New password").fill("another long one")
        page.get_by_role("button", name="Change the password").click()
        expect(page.get_by_role("alert")).to_contain_text("the current password is wrong")
        page.get_by_label("Current password").fill(PASSWORD)
        page.get_by_role("button", name="Change the password").click()
        expect(page).to_have_url(re.compile("/console/sign-in"))
        sign_in(page, "finn", "another long one")
        expect(page.get_by_role("heading", name="Sessions")).to_be_visible()


def test_pages_for_admins_are_for_admins(site: Site, visit: Visit) -> None:
    site.world.published()
    with visit("root", "/ledger") as page:
        expect(
            page.get_by_role("table", name="What users owe").get_by_role("row").filter(has_text="ana")
        ).to_be_visible()
        expect(page.get_by_role("table", name="Lines of the ledger").get_by_role("row").nth(1)).to_contain_text("bank")
        page.goto(site.console("/audit"))
        records = page.get_by_role("table", name="Records, the newest first").get_by_role("row")
        refusal = records.filter(has_text="a reason")
        line = refusal.get_by_role("group").locator("summary")
        expect(line).to_contain_text("reasons: ")
        expect(refusal.get_by_role("listitem").first).to_be_hidden()  # until the line is unfolded
        expect(refusal).to_contain_text(re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"))
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        refusal.get_by_role("button", name=re.compile("Copy the hash of record")).click()
        expect(refusal.get_by_role("button", name=re.compile("Copy the hash"))).to_have_text("Copied")
        (whole_hash,) = (
            each["hash"]
            for each in site.world.coordinator.audit_tail(site.world.user("root"))
            if each["event"] == "refusal"
        )
        assert page.evaluate("() => navigator.clipboard.readText()") == whole_hash
        expect(refusal).not_to_contain_text(whole_hash)  # its beginning is enough to look at
        page.get_by_label("Event").select_option("refusal")
        expect(records).to_have_count(2)  # with the heading
        page.get_by_label("Contains").fill("no such word")
        expect(page.get_by_text("0 of 0 that fit")).to_be_visible()
        page.get_by_role("button", name="Verify the whole log").click()
        expect(page.get_by_text("The log is whole.")).to_be_visible()
        log = site.world.coordinator.settings.audit
        whole = log.read_bytes()
        log.write_bytes(whole.replace(b"a reason", b"no reason"))
        page.get_by_role("button", name="Verify the whole log").click()
        expect(page.get_by_text("Line 3: wrong hash")).to_be_visible()
        log.write_bytes(whole)
    with visit("ana", complaints=("404",)) as page:
        for path in ("/users", "/ledger", "/audit"):
            answer = page.goto(site.console(path))
            assert answer is not None
            assert answer.status == 404
            expect(page.get_by_role("heading", name="Not found")).to_be_visible()


def test_providers_are_searched(site: Site, visit: Visit) -> None:
    with visit("ana", "/providers") as page:
        parties = page.get_by_role("heading", level=2)
        expect(parties).to_have_text([re.compile("bank"), re.compile("clinic")])
        page.get_by_label("Search").fill("anywhere categorical")
        expect(parties).to_have_text([re.compile("clinic")])
        page.get_by_label("Search").fill("no such thing")
        expect(page.get_by_text("Nothing matches.")).to_be_visible()
