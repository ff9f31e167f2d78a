"""Who gets into the live page, and out of it again."""

from __future__ import annotations

import time

from ops.pages import tokens
from tests.live_page import Page, Stage, Tenant, csrf_of, eventually, served
from web.pages.sessions import COOKIE
from web.pages.viewers import TRIES_A_MINUTE

GET = [
    *("/live", "/live/jobs", "/live/alerts", "/live/windows", "/live/delays", "/live/instances"),
    *("/live/letters", "/live/letters/dead/0/0", "/live/search?q=x"),
]


def test_who_has_not_logged_in_is_shown_the_form_and_nothing_else(page: Page, ana: Tenant) -> None:
    browser = page.browser()
    for path in [*GET, f"/live/jobs/{ana.held}/cancel"]:
        answer = browser.get(path)
        assert answer.status_code == 303 and answer.headers["location"].startswith("/live/login?next="), path
    assert browser.get("/live/stream").status_code == 401
    assert browser.client.post(f"/live/alerts/{ana.alert}", data={"status": "ack"}).status_code == 401
    assert browser.get("/live/static/live.css").status_code == 200
    assert browser.get("/live/static/..%2fapp.py").status_code == 404
    assert browser.get("/live/nothing").status_code == 404


def test_a_login_leads_to_where_one_wanted_to_go_and_nowhere_else(page: Page) -> None:
    token = page.token()
    wanted = page.browser().log_in(token, "/live/jobs?status=held")
    assert wanted.status_code == 303 and wanted.headers["location"] == "/live/jobs?status=held"
    for elsewhere in (
        "//evil.example",
        "https://evil.example",
        "/live/../x\r\nSet-Cookie: a=b",
        "/livex",
        "/live//x\\",
    ):
        assert page.browser().log_in(token, elsewhere).headers["location"].startswith("/live"), elsewhere
        assert "evil" not in page.browser().log_in(token, elsewhere).headers["location"]


def test_the_cookie_is_for_this_site_alone(page: Page) -> None:
    browser = page.browser()
    csrf = csrf_of(browser.get("/live/login").text)
    form = {"csrf": csrf, "token": page.token()}
    cookies = browser.client.post("/live/login", data=form, headers={"X-Forwarded-Proto": "https"}).headers
    session = next(one for one in cookies.get_list("set-cookie") if one.startswith(f"{COOKIE}="))
    for word in ("HttpOnly", "SameSite=strict", "Secure", "Path=/live"):
        assert word in session
    plain = page.browser().log_in(page.token()).headers["set-cookie"]
    assert "Secure" not in plain and "HttpOnly" in plain


def test_a_wrong_token_and_another_ones_cookie_open_nothing(page: Page) -> None:
    token = page.token()
    for wrong in ("", "x", token[:-1] + ("a" if token[-1] != "a" else "b")):
        assert page.browser().log_in(wrong).status_code in (401, 429)
    browser = page.browser(token)
    good = browser.client.cookies[COOKIE]
    for cookie in (good[:-1] + ("0" if good[-1] != "0" else "1"), "x", ""):
        other = page.browser()
        other.client.cookies.set(COOKIE, cookie, path="/live")
        assert other.get("/live").status_code == 303


def test_every_answer_has_the_headers(page: Page) -> None:
    browser = page.browser(page.token())
    for path in [*GET, "/live/login", "/live/static/live.js", "/live/nothing", "/live/search?q=x"]:
        headers = browser.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"


def test_a_form_of_nobody_or_of_another_session_does_nothing(page: Page, bia: Tenant) -> None:
    browser, other = page.browser(page.token(operator=True)), page.browser(page.token(operator=True))
    path, foreign = f"/live/alerts/{bia.alert}", csrf_of(other.get("/live/alerts").text)
    for csrf in ("", "x", foreign, "é"):
        answer = browser.client.post(path, data={"csrf": csrf, "status": "resolved"})
        assert answer.status_code == 403, csrf
    own = csrf_of(browser.get("/live/alerts").text)
    for header in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = browser.client.post(path, data={"csrf": own, "status": "resolved"}, headers=header)
        assert answer.status_code == 403, header
    assert browser.client.post(path, json={"csrf": own}).status_code == 415
    assert browser.client.get(path).status_code == 405


def test_logging_out_forgets_the_session(page: Page) -> None:
    browser = page.browser(page.token())
    assert browser.post("/live/logout", form_of="/live").status_code == 303
    assert browser.get("/live").status_code == 303


def test_a_revoked_token_ends_its_sessions_within_5_s(page: Page) -> None:
    token = page.token()
    browser = page.browser(token)
    assert browser.get("/live/alerts").status_code == 200
    tokens.revoke(page.stage.connection, token.split("_")[1])
    begun = time.monotonic()

    def ended() -> None:
        assert browser.get("/live/alerts").status_code == 303

    eventually(ended, within_s=5)
    assert time.monotonic() - begun < 5
    assert page.browser().log_in(token).status_code == 401


def test_the_api_asks_for_its_own_tokens(page: Page) -> None:
    browser = page.browser(page.token(operator=True))
    assert browser.get("/jobs/00000000-0000-0000-0000-000000000000").status_code == 401
    bearer = {"Authorization": f"Bearer {page.token(operator=True)}"}
    assert browser.client.get("/jobs/00000000-0000-0000-0000-000000000000", headers=bearer).status_code == 401


def test_readers_change_nothing(page: Page, bia: Tenant) -> None:
    browser = page.browser(page.token())
    acts = [f"/live/alerts/{bia.alert}", f"/live/jobs/{bia.held}/cancel", f"/live/letters/{bia.place}/drop"]
    for path in acts:
        assert browser.post(path, form_of="/live", status="ack", reason="x").status_code == 403
        assert browser.get(path).status_code in (403, 405)
    for path in ("/live/alerts", "/live/jobs", f"/live/letters/{bia.place}", f"/live/search?q={bia.held}"):
        told = browser.get(path).text
        assert "Acknowledge" not in told and "/cancel" not in told and "/drop" not in told, path


def test_who_guesses_waits(stage: Stage) -> None:
    with served(stage) as page:
        browser = page.browser()
        told = [browser.log_in("x").status_code for _ in range(TRIES_A_MINUTE + 2)]
        assert told[:TRIES_A_MINUTE] == [401] * TRIES_A_MINUTE and told[-1] == 429
        assert "Retry-After" in browser.log_in("x").headers
