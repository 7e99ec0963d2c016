"""Attacks on tokens where the answer is known, and with nothing to learn from."""

import pytest
import torch
from torch import nn

from fltoolkit.testing import normal
from fltoolkit_research.leakage import nearest_tokens, train_token_decoder, unigram_guess

TOKENS, WIDTH, PLACES = 7, 12, 9
TABLE = normal(TOKENS, WIDTH, seed=9)
HOW = {"num_tokens": TOKENS, "seed": 0, "max_epochs": 120}


def windows(n=60, seed=0):
    """Token 0 in about half of the places."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(2 * TOKENS, (n, PLACES), generator=generator)
    return torch.where(drawn < TOKENS, drawn, 0)


def share(guess, tokens):
    return float((guess == tokens).double().mean())


def test_the_nearest_embedding_is_found_with_and_without_positions():
    tokens, positions = windows(), 5 * normal(PLACES, WIDTH)
    h = TABLE[tokens] + positions
    assert share(nearest_tokens(h, TABLE, positions=positions), tokens) == 1
    assert share(nearest_tokens(h, TABLE), tokens) < 0.6


@pytest.mark.later
@pytest.mark.parametrize(("hidden", "reach"), [(0, 0), (32, 0), (0, 1), (32, 1)])
def test_a_probe_finds_tokens_through_an_unknown_linear_layer(hidden, reach):
    mixing, known, victims = normal(WIDTH, WIDTH), windows(), windows(30, seed=1)
    decoder = train_token_decoder(TABLE[known] @ mixing, known, hidden=hidden, reach=reach, **HOW)
    guess = decoder(TABLE[victims] @ mixing)
    assert guess.shape == victims.shape
    assert share(guess, victims) == 1 == decoder.validation


@pytest.mark.later
def test_only_reach_finds_what_stands_at_the_neighbour():
    known, victims = windows(200), windows(50, seed=1)

    def moved(tokens):
        return TABLE[tokens.roll(1, dims=1)]  # each place tells of the one before it

    found = {}
    for reach in (0, 1):
        decoder = train_token_decoder(moved(known), known, reach=reach, **HOW)
        found[reach] = share(decoder(moved(victims))[:, :-1], victims[:, :-1])
    assert found[0] < 0.6 < 0.99 < found[1]


def test_who_hears_only_noise_guesses_the_most_frequent_token():
    known, victims = windows(), windows(30, seed=1)
    decoder = train_token_decoder(
        normal(60, PLACES, WIDTH), known, num_tokens=TOKENS, seed=0, hidden=32
    )
    null = unigram_guess(victims, known, num_tokens=TOKENS)
    assert 0.4 < null < 0.7
    assert abs(share(decoder(normal(30, PLACES, WIDTH, seed=4)), victims) - null) < 0.1


def test_the_same_seed_gives_the_same_decoder_and_leaves_the_global_generator():
    known = windows()
    h, state = TABLE[known], torch.get_rng_state()
    one, two = (train_token_decoder(h, known, num_tokens=TOKENS, seed=3) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    for a, b in zip(one.network.parameters(), two.network.parameters(), strict=True):
        assert torch.equal(a, b)
    assert isinstance(one.network, nn.Sequential)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"h": torch.full((60, PLACES, WIDTH), torch.nan)}, "NaN or infinite"),
        ({"h": torch.zeros(60, PLACES - 1, WIDTH)}, "need .samples, places, width. and"),
        ({"h": torch.zeros(60, PLACES, WIDTH)[:5], "tokens": windows()[:5]}, "10 samples or more"),
    ],
)
def test_mistakes_are_told(change, message):
    how = {"h": torch.zeros(60, PLACES, WIDTH), "tokens": windows(), "num_tokens": TOKENS}
    how = {**how, "seed": 0, **change}
    with pytest.raises(ValueError, match=message):
        train_token_decoder(how.pop("h"), how.pop("tokens"), **how)
