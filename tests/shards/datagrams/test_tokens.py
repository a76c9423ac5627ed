"""Tokens: what proves an address, for how long, and nothing else does."""

import pytest

from borzoi.shards.datagrams.tokens import TOKEN_AGE_MAX_S, ResetTokens, RetryTokens, Validated

HERE = ("10.0.0.1", 4000)
IDS = Validated(b"original", b"retry-id")
NOW = 1000.0


def token(tokens: RetryTokens, original: bytes = IDS.original) -> bytes:
    return tokens.make(HERE, original, IDS.retry, NOW)


@pytest.mark.parametrize("original", [b"", b"o" * 8, b"o" * 20])
def test_what_comes_back_is_what_went_out(original: bytes) -> None:
    tokens = RetryTokens()
    assert tokens.check(HERE, token(tokens, original), NOW) == Validated(original, IDS.retry)


@pytest.mark.parametrize("there", [("10.0.0.2", 4000), ("10.0.0.1", 4001), ("::1", 4000)])
def test_another_address_has_proved_nothing(there: tuple[str, int]) -> None:
    tokens = RetryTokens()
    assert tokens.check(there, token(tokens), NOW) is None


def test_a_token_grows_old() -> None:
    tokens = RetryTokens()
    made = token(tokens)
    assert tokens.check(HERE, made, NOW + TOKEN_AGE_MAX_S) == IDS
    assert tokens.check(HERE, made, NOW + TOKEN_AGE_MAX_S + 1) is None
    assert tokens.check(HERE, made, NOW - 2) is None


def test_a_changed_token_is_none() -> None:
    tokens = RetryTokens()
    made = token(tokens)
    for number in range(len(made)):
        changed = bytearray(made)
        changed[number] ^= 1
        assert tokens.check(HERE, bytes(changed), NOW) is None
    for size in range(len(made)):
        assert tokens.check(HERE, made[:size], NOW) is None


def test_the_token_of_another_process_is_none() -> None:
    assert RetryTokens().check(HERE, token(RetryTokens()), NOW) is None


def test_a_successor_makes_the_same_reset_tokens() -> None:
    one, again, other = ResetTokens(b"key"), ResetTokens(b"key"), ResetTokens(b"other")
    assert one.of(b"c" * 8) == again.of(b"c" * 8)
    assert len({one.of(b"c" * 8), one.of(b"d" * 8), other.of(b"c" * 8)}) == 3
    assert len(one.of(b"c" * 8)) == 16
