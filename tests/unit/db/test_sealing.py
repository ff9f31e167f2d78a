"""Secrets at rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.sealing import NoSecretKey, SealedElsewhere, Seals, is_sealed, new_key
from settings import Settings, WrongSetting, get_settings

OLD, NEW, OTHER = new_key(), new_key(), new_key()


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=300))
def test_what_is_sealed_is_opened_and_does_not_show_through(secret: str) -> None:
    sealed = Seals([OLD]).seal(secret)
    assert is_sealed(sealed) and (len(secret) < 6 or secret not in sealed)
    assert Seals([NEW, OLD]).open(sealed).get_secret_value() == secret
    assert secret not in repr(Seals([OLD]).open(sealed)) or len(secret) < 12


def test_the_first_key_seals_and_all_of_them_open() -> None:
    both = Seals([NEW, OLD])
    old, new = Seals([OLD]).seal("x"), both.seal("x")
    assert both.is_current(new) and not both.is_current(old) and not both.is_current("x")
    assert Seals([NEW]).open(new).get_secret_value() == both.open(old).get_secret_value() == "x"


def test_without_the_key_it_stays_shut_and_the_error_says_which_setting() -> None:
    sealed = Seals([OLD]).seal("a secret")
    for seals in (Seals(), Seals([OTHER])):
        with pytest.raises(SealedElsewhere, match="RAJADA_SECRET_KEYS") as refused:
            seals.open(sealed)
        assert "a secret" not in str(refused.value) and sealed[8:40] not in str(refused.value)
    with pytest.raises(SealedElsewhere):
        Seals([OLD]).open(sealed[:-4] + "AAA=")
    with pytest.raises(NoSecretKey, match="rajada whatsapp key"):
        Seals().seal("a secret")


def test_what_was_stored_in_plain_text_is_read_as_it_is() -> None:
    assert Seals().open("EAAG").get_secret_value() == "EAAG"


def test_keys_come_from_the_settings_and_a_wrong_one_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not Seals.of(Settings()).can_seal
    monkeypatch.setenv("RAJADA_SECRET_KEYS", f" {NEW}, {OLD} ,")
    assert Settings().secret_key_list() == [NEW, OLD]
    assert NEW not in repr(Settings())
    monkeypatch.setenv("RAJADA_SECRET_KEYS", "my-own-key")
    get_settings.cache_clear()
    with pytest.raises(WrongSetting, match="RAJADA_SECRET_KEYS") as refused:
        get_settings()
    assert "my-own-key" not in str(refused.value)
    get_settings.cache_clear()
