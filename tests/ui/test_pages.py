"""The pages for operators in a real browser: what they show, what acts do, and who may."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from conftest import SCREENSHOTS

PAGES = {
    "now": "/ui", "honesty": "/ui/honesty", "requests": "/ui/requests", "gates": "/ui/gates", "stages": "/ui/stages",
    "workers": "/ui/workers", "webhooks": "/ui/webhooks", "settings": "/ui/settings?name=direct", "doctor": "/ui/doctor",
}


def submit(fleet, *options):
    return json.loads(fleet.tidegate("submit", "direct", "--accepted", "--json", *options))["job_id"]


@pytest.fixture(scope="session")
def lived(fleet):
    """A fleet that has answered, failed and delayed some requests; the id of one that waits."""
    done = [submit(fleet) for _ in range(20)]
    waiting = [fleet.live_job() for _ in range(5)]
    fleet.tidegate("fail", waiting[0], "--reason", "<script>alert(1)</script> \u202e the rail is down")
    answered = lambda: "completed" in fleet.tidegate("get", done[-1], "--json")
    assert fleet.eventually(answered), "no request was answered"
    return waiting[1]


def test_every_page_is_accessible_and_quiet(fleet, view, lived):
    pages = {**PAGES, "request": f"/ui/requests/{lived}", "history": "/ui/history?queue=tx&hours=1"}
    wrong = []
    for scheme in ("light", "dark"):
        for width in (1280, 390):
            seen = view(width=width, color_scheme=scheme)
            for name, path in pages.items():
                answer = seen.go(path)
                assert answer.status == 200, path
                seen.page.wait_for_load_state("load")
                overflow = seen.page.evaluate("document.documentElement.scrollWidth - innerWidth")
                if overflow > 0:
                    wrong.append(f"{path} is {overflow} px too wide at {width}")
                found = Axe().run(seen.page).response["violations"]
                grave = [
                    (problem["id"], [node["html"] for node in problem["nodes"]][:3])
                    for problem in found
                    if problem["impact"] in ("serious", "critical")
                ]
                if grave:
                    wrong.append(f"{path}, {scheme}, {width}: {grave}")
                seen.page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{width}.png", full_page=True)
            wrong += seen.problems
    assert not wrong, wrong


def test_pages_are_whole_without_scripts_and_at_the_smallest_and_largest_width(fleet, view, lived):
    for width in (360, 3840):
        seen = view(width=width, java_script_enabled=False)
        for path in PAGES.values():
            seen.go(path)
            expect(seen.page.get_by_role("heading", level=1)).to_be_visible()
            assert seen.page.locator("#live").count() == 0 or seen.page.locator("#live").is_hidden()


def test_a_gate_closes_and_opens_before_the_viewers_eyes_unless_paused(fleet, view):
    seen = view()
    seen.go("/ui")
    card = seen.page.locator("#queues .card", has_text="tx").first
    expect(seen.page.locator("#live")).to_have_text("Live: pause")
    fleet.tidegate("gate", "close", "tx")
    expect(card).to_contain_text("gate closed")
    expect(seen.page.locator("#alarms")).to_contain_text("The gate of tx is closed by hand")
    seen.page.locator("#live").click()
    expect(seen.page.locator("#live")).to_have_attribute("aria-pressed", "true")
    fleet.tidegate("gate", "release", "tx")
    other = view()
    other.go("/ui")
    expect(other.page.locator("#queues .card", has_text="tx").first).to_contain_text("gate open")
    expect(card).to_contain_text("gate closed")
    seen.page.reload()
    expect(seen.page.locator("#live")).to_have_text("Paused: go on")
    fleet.tidegate("pause", "tx")
    seen.page.locator("#live").click()
    expect(card).to_contain_text("paused")
    fleet.tidegate("resume", "tx")
    assert not seen.problems, seen.problems


def test_acts_on_requests_have_their_effects(fleet, view):
    seen = view()
    ids = [fleet.live_job() for _ in range(4)]
    seen.go(f"/ui/requests/{ids[0]}")
    seen.page.get_by_role("button", name="Cancel").click()
    expect(seen.page.get_by_role("status")).to_have_text("It is cancelled.")
    assert "cancelled" in fleet.tidegate("get", ids[0], "--json")
    seen.page.get_by_role("button", name="Submit it again").click()
    expect(seen.page.get_by_role("status")).to_have_text("It was submitted again.")
    # Back and forth: a page that comes from the history does nothing again.
    seen.page.go_back()
    seen.page.go_forward()
    expect(seen.page.get_by_text("repeats")).to_be_visible()

    seen.go("/ui/requests?kind=direct&state=processing")
    for id in ids[1:3]:
        seen.page.get_by_label(f"Choose {id}").check()
    seen.page.get_by_role("button", name="Cancel the chosen").click()
    seen.page.get_by_role("button", name=re.compile("Cancel 2")).click()
    expect(seen.page.get_by_text("Ended.")).to_be_visible()
    for id in ids[1:3]:
        assert "cancelled" in fleet.tidegate("get", id, "--json")
    assert "processing" in fleet.tidegate("get", ids[3], "--json")
    seen.page.get_by_role("link", name="Back to the list").click()
    expect(seen.page).to_have_url(re.compile("kind=direct&state=processing"))
    assert not seen.problems, seen.problems


def test_settings_show_the_reason_of_a_refusal_and_the_change(fleet, view):
    seen = view()
    seen.go("/ui/settings?name=direct.tx")
    field = seen.page.get_by_label("direct.tx.attempts")
    usual = field.input_value()
    field.fill("1000")
    field.press("Enter")
    expect(seen.page.get_by_role("alert")).to_contain_text("W_retry ≤ deadline − margin does not hold")
    field = seen.page.get_by_label("direct.tx.attempts")
    field.fill("3")
    field.press("Enter")
    expect(seen.page.get_by_label("direct.tx.attempts")).to_have_value("3")
    assert fleet.settings()["direct.tx.attempts"] == 3
    fleet.tidegate("config", "set", "direct.tx.attempts", usual)


def test_gates_workers_and_the_doctor_can_be_used(fleet, view):
    seen = view()
    seen.go("/ui/gates")
    card = seen.page.locator(".card", has_text="tx").first
    card.get_by_role("button", name="Hold closed").click()
    expect(seen.page.locator(".card", has_text="tx").first).to_contain_text("held by hand")
    assert fleet.submits() in (202, 429)
    assert fleet.eventually(lambda: fleet.submits() == 429)
    seen.page.locator(".card", has_text="tx").first.get_by_role("button", name="Release").click()
    assert fleet.eventually(lambda: fleet.submits() == 202)

    seen.go("/ui/workers")
    row = seen.page.get_by_role("row", name=re.compile("queue tx"))
    row.get_by_role("button", name="Pause").click()
    assert fleet.settings()["tx.paused"] is True
    seen.page.get_by_role("row", name=re.compile("queue tx")).get_by_role("button", name="Resume").click()
    assert fleet.settings()["tx.paused"] is False

    seen.go("/ui/doctor")
    seen.page.get_by_role("button", name="Search for violations").click()
    expect(seen.page.get_by_text(re.compile("invariants hold|No violation was found"))).to_be_visible()
    seen.page.get_by_role("button", name="Recover: only count").click()
    expect(seen.page.get_by_text("Only counted")).to_be_visible()
    seen.page.get_by_role("button", name="Recover", exact=True).click()
    expect(seen.page.get_by_text(re.compile("^Recovered"))).to_be_visible()
    expect(seen.page.get_by_role("cell", name="anyone on this machine")).not_to_have_count(0)
    assert not seen.problems, seen.problems


def test_the_keyboard_reaches_the_page_and_its_acts(fleet, view):
    seen = view()
    seen.go("/ui/requests")
    seen.page.keyboard.press("Tab")
    expect(seen.page.get_by_role("link", name="Skip to the page")).to_be_focused()
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.press("Tab")
    focused = seen.page.evaluate("document.activeElement.closest('main') !== null")
    assert focused, "the first stop after the skip link is within the page"


def test_times_are_those_of_the_viewer(fleet, view, lived):
    shown = {}
    for zone in ("UTC", "Asia/Tokyo"):
        seen = view(timezone_id=zone, locale="en-GB")
        seen.go(f"/ui/requests/{lived}")
        time = seen.page.locator("time").first
        assert time.get_attribute("title").endswith(" UTC")
        shown[zone] = (time.text_content(), time.get_attribute("datetime"))
    assert shown["UTC"][1] == shown["Asia/Tokyo"][1] and shown["UTC"][0] != shown["Asia/Tokyo"][0]


# From here on there are keys.
def test_sessions_scopes_tabs_and_expiry(fleet, view, lived):
    fleet.use_admin_key()
    boss = fleet.key
    reader = json.loads(fleet.tidegate("key", "create", "desk", "--scope", "read", "--json"))["key"]

    seen = view()
    seen.go("/ui/gates")
    # A node learns within seconds that there are keys now.
    for _ in range(300):
        if "/ui/sign-in" in seen.page.url:
            break
        seen.page.wait_for_timeout(200)
        seen.go("/ui/gates")
    expect(seen.page).to_have_url(re.compile("/ui/sign-in"))
    seen.sign_in("tg_wrong")
    expect(seen.page.get_by_role("alert")).to_contain_text("this is no API key")
    seen.problems.clear()

    seen.sign_in(reader)
    expect(seen.page.get_by_text("read only")).to_be_visible()
    seen.go("/ui/gates")
    expect(seen.page.get_by_role("button", name="Hold closed")).to_have_count(0)
    seen.go(f"/ui/requests/{lived}")
    expect(seen.page.get_by_text("Only keys with the scope")).to_be_visible()
    seen.page.get_by_role("button", name="Sign out").click()
    expect(seen.page).to_have_url(re.compile("/ui/sign-in"))

    acting = view()
    acting.sign_in(boss)
    acting.go("/ui/gates")
    second = acting.page.context.new_page()
    second.goto(f"{fleet.api}/ui/workers")
    expect(second.get_by_role("button", name="Pause").first).to_be_visible()
    # Signed out in one tab, an act of the other goes to the sign-in.
    second.get_by_role("button", name="Sign out").click()
    acting.page.locator(".card", has_text="tx").first.get_by_role("button", name="Hold closed").click()
    expect(acting.page).to_have_url(re.compile("/ui/sign-in"))
    assert '"forced": true' not in fleet.tidegate("gate", "--json")
    acting.sign_in(boss)
    expect(acting.page.get_by_role("heading", level=1)).to_have_text("Now")
    cookies = acting.page.context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
    assert acting.page.evaluate("document.cookie") == ""
