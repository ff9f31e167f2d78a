"""Sessions of the live page, without servers."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from web.pages.sessions import LASTS_S, new_session, read_session, same
from web.pages.viewers import TRIES_A_MINUTE, Tries

DIGEST = hashlib.sha256(b"secret").digest()
OTHER = hashlib.sha256(b"other").digest()
ID = "0123456789abcdef"


def test_a_session_is_good_until_it_ends() -> None:
    session = read_session(new_session(ID, DIGEST, 1_000).cookie)
    assert session is not None and session.token_id == ID
    assert session.is_good(DIGEST, 1_000 + LASTS_S - 1)
    assert not session.is_good(DIGEST, 1_000 + LASTS_S)
    assert not session.is_good(OTHER, 1_000)


@given(st.data())
def test_a_cookie_that_was_changed_is_nobodys(data: st.DataObject) -> None:
    cookie = new_session(ID, DIGEST, 1_000).cookie
    index = data.draw(st.integers(0, len(cookie) - 1))
    letter = data.draw(st.sampled_from("0123456789abcdef.x"))
    changed = cookie[:index] + letter + cookie[index + 1 :]
    session = read_session(changed)
    assert changed == cookie or session is None or not session.is_good(DIGEST, 1_000)


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    session = read_session(text)
    assert session is None or session.cookie == text
    assert not same("", text) and same(text, text) is bool(text)


def test_forms_are_of_one_session() -> None:
    one, other = new_session(ID, DIGEST, 1_000), new_session(ID, DIGEST, 1_000)
    assert one.form_token(DIGEST) == one.form_token(DIGEST)
    assert len({one.form_token(DIGEST), other.form_token(DIGEST), one.form_token(OTHER), one.mac}) == 4


def test_a_session_is_not_shown_in_a_log() -> None:
    assert new_session(ID, DIGEST, 1_000).mac not in repr(new_session(ID, DIGEST, 1_000))


def test_who_fails_often_waits_and_others_do_not() -> None:
    now = [0.0]
    tries = Tries(monotonic=lambda: now[0])
    for _ in range(TRIES_A_MINUTE):
        assert tries.wait_s("a") == 0
        tries.failed("a")
    assert tries.wait_s("a") > 0 and tries.wait_s("b") == 0
    now[0] += tries.wait_s("a")
    assert tries.wait_s("a") == 0
