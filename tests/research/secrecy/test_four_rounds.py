"""A secure sum is exact, whoever drops out; and the server sees nothing but the sum."""

import itertools
import re

import numpy as np
import pytest
import scipy  # its stats when they are used: they take a second to import
import torch
from core.federated.small import network, workers

from experiments.secrecy.dropouts import RandomDropouts
from fltoolkit import Channel, fedavg
from fltoolkit.codecs import Pipeline
from fltoolkit.federated import Arrivals, Local, Polynomial, Scripted, Server
from fltoolkit_research.federated import ddp, diloco
from fltoolkit_research.leakage import Listener
from fltoolkit_research.secrecy import ROUNDS, Grid, PlainSum, SecureSum, SharedRotation, secure_sum
from fltoolkit_research.secrecy.graph import complete, random_regular
from fltoolkit_research.secrecy.keys import NBYTES_KEY, KeyPair, random_source, stream
from fltoolkit_research.secrecy.parties import Member, pack_bits, unpack_bits
from fltoolkit_research.secrecy.shamir import (
    NBYTES_SHARE,
    PRIME,
    WrongShare,
    from_shares,
    into_shares,
)

NAMES = [f"client {k}" for k in range(6)]
CODEC = Pipeline(SharedRotation(), Grid(4, top=1.0))


def vectors(bits, n=40, names=NAMES, seed=0):
    random = np.random.default_rng(seed)
    top = (2**bits - 1) // len(names)
    return {name: random.integers(top, size=n, dtype=np.uint64, endpoint=True) for name in names}


# --------------------------------------------------------------------------------- shares, keys
def test_each_set_of_threshold_shares_opens_the_secret_and_no_smaller_one_does():
    secret = bytes(range(32))
    shares = into_shares(secret, range(5), 3, random_source(0))
    for size, opens in ((2, False), (3, True), (4, True), (5, True)):
        for holders in itertools.combinations(range(5), size):
            try:
                found = from_shares({h: shares[h] for h in holders})
            except ValueError:
                found = None
            assert (found == secret) == opens


@pytest.mark.parametrize("wrong", [(), (1,), (0, 4), (2, 3)])
@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_a_share_that_does_not_fit_is_noticed_and_named_if_it_is_the_only_one(threshold, wrong):
    secret = bytes(range(32))
    shares = into_shares(secret, range(6), threshold, random_source(0))
    for holder in wrong:
        shares[holder] = (int.from_bytes(shares[holder], "big") ^ 1).to_bytes(33, "big")
    if not wrong:
        assert from_shares(shares, threshold) == secret
        return
    with pytest.raises(WrongShare) as caught:
        from_shares(shares, threshold)
    assert caught.value.holder == (wrong[0] if len(wrong) == 1 else None)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({}, "holders="),
        ({-1: bytes(33), 0: bytes(33)}, "holders="),
        ({PRIME - 1: bytes(33)}, "holders="),
        ({0: bytes(33), 1: bytes(32)}, "holder 1 is no share of 33 bytes"),
        ({0: b"", 1: bytes(33)}, "holder 0 is no share"),
        ({0: bytes(33), 1: b"\xff" * 33}, "holder 1 is no share"),
    ],
)
def test_what_are_no_shares_is_refused(shares, words):
    with pytest.raises(ValueError, match=words):
        from_shares(shares, 2)
    with pytest.raises(ValueError, match="holders="):
        into_shares(bytes(32), [0, PRIME - 1], 2, random_source(0))


def test_shares_of_two_secrets_look_alike():
    """Two of three needed shares are uniform: the secret of all zeros has the same ones."""
    for secret in (bytes(32), b"\xff" * 32):
        drawn = [
            into_shares(secret, [0, 1], 2, random_source(0, secret, k))[1] for k in range(2000)
        ]
        first = [int.from_bytes(share, "big") * 16 // PRIME for share in drawn]
        assert scipy.stats.chisquare(np.bincount(first, minlength=16)).pvalue > 1e-4


def test_keys_without_a_seed_are_the_operating_systems():
    one, two = random_source(None), random_source(None)
    assert one(32) != two(32)


@pytest.mark.parametrize("bits", [1, 2, 7, 8, 9, 16, 25, 31, 40, 64])
def test_packed_numbers_come_back(bits):
    numbers = np.random.default_rng(0).integers(0, 2**bits - 1, 13, np.uint64, endpoint=True)
    packed = pack_bits(numbers, bits)
    assert len(packed) == -(-13 * bits // 8)
    assert unpack_bits(packed, bits, 13).tolist() == numbers.tolist()
    with pytest.raises(ValueError, match="were expected"):
        unpack_bits(packed[1:], bits, 13)


# ------------------------------------------------------------------------------- the sum is exact
@pytest.mark.parametrize("bits", [4, 8, 9, 16, 31, 40])
def test_the_sum_is_exact(bits):
    own = vectors(bits)
    total, clients = secure_sum(Channel(), "server", own, bits=bits)
    assert clients == NAMES
    assert total.tolist() == sum(own.values()).tolist()


def test_sums_are_modulo_two_to_the_bits():
    own = {name: np.full(3, 200) for name in NAMES}
    assert secure_sum(Channel(), "server", own, bits=9).total.tolist() == [1200 % 512] * 3


@pytest.mark.slow
def test_any_set_of_dropouts_up_to_the_threshold():
    """Six clients of which four are needed: every pair drops out in every two rounds."""
    own = vectors(9)
    for gone in itertools.combinations(NAMES, 2):
        for rounds in itertools.product(ROUNDS, repeat=2):
            silent = dict(zip(gone, rounds, strict=True))
            total, clients = secure_sum(
                Channel(), "server", own, bits=9, threshold=0.6, silent=silent
            )
            left = [n for n in NAMES if silent.get(n, "unmasking") == "unmasking"]
            assert clients == left
            assert total.tolist() == sum(own[n] for n in left).tolist(), silent


@pytest.mark.slow
def test_beyond_the_threshold_the_sum_is_lost_and_the_error_says_why():
    own = vectors(9)
    for gone in itertools.combinations(NAMES, 3):
        for round_ in ROUNDS:
            silent = dict.fromkeys(gone, round_)
            text = f"round '{round_}': 3 of the 6 clients .* and 4 are needed.*lower the threshold"
            with pytest.raises(RuntimeError, match=text):
                secure_sum(Channel(), "server", own, bits=9, threshold=0.6, silent=silent)


def test_a_sparse_graph_gives_the_same_sum_with_fewer_keys():
    names = [f"client {k}" for k in range(20)]
    own, sizes = vectors(12, names=names), {}
    for name, graph in (("all", complete(20)), ("some", random_regular(20, 8, seed=3))):
        channel = Channel()
        silent = {names[4]: "masked", names[9]: "unmasking", names[13]: "shares"}
        total, left = secure_sum(
            channel, "server", own, bits=12, threshold=0.5, graph=graph, silent=silent
        )
        assert total.tolist() == sum(own[n] for n in left).tolist()
        sizes[name] = {kind: channel.nbytes(kind=kind) for kind in ROUNDS}
    assert sizes["all"]["masked"] == sizes["some"]["masked"]
    assert all(sizes["all"][k] > 1.8 * sizes["some"][k] for k in ("keys", "shares", "unmasking"))


def test_in_a_sparse_graph_the_neighbours_of_one_client_can_be_too_few():
    graph = random_regular(20, 4, seed=0)
    names = [f"client {k}" for k in range(20)]
    gone = sorted(graph[0])[:3]
    with pytest.raises(RuntimeError, match=r"2 of the 5 clients that hold shares.*'client 0'"):
        secure_sum(
            Channel(),
            "server",
            vectors(12, names=names),
            bits=12,
            graph=graph,
            silent={names[u]: "unmasking" for u in gone},
        )


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"threshold": 1.0}, "threshold=1.0"),
        ({"threshold": 0.0}, "threshold=0.0"),
        ({"silent": {"client 0": "lunch"}}, re.escape("rounds ['lunch']: must be of keys")),
        ({"graph": complete(4)}, "a graph of 4"),
        ({"bits": 65}, "bits=65"),
    ],
)
def test_settings_out_of_range(changed, text):
    with pytest.raises(ValueError, match=text):
        secure_sum(Channel(), "server", vectors(8), **{"bits": 8, **changed})


# ----------------------------------------------------------- what the server can and cannot see
@pytest.mark.parametrize("bits", [4, 9, 16])
def test_each_masked_vector_is_uniform_and_independent_of_the_update(bits):
    """Every message that the server gets: 6 clients, 20,000 values each, all updates the same."""
    n = 20_000
    own = {name: np.arange(n, dtype=np.uint64) % 3 for name in NAMES}
    listener = Listener(kinds=["masked"])
    secure_sum(listener, "server", own, bits=bits, seed=0)
    seen = {m.sender: unpack_bits(m.tree["y"].numpy(), bits, n) for m in listener.heard}
    assert {*seen} == {*NAMES}
    for name, y in seen.items():
        cells = np.bincount(y.astype(np.int64) >> max(0, bits - 6), minlength=min(64, 2**bits))
        assert scipy.stats.chisquare(cells).pvalue > 1e-4, name
        for value in range(3):  # given each value of the update, too
            given = np.bincount(y[own[name] == value].astype(np.int64) >> (bits - 2), minlength=4)
            assert scipy.stats.chisquare(given).pvalue > 1e-4, name
        assert (
            abs(scipy.stats.pearsonr(y.astype(float), own[name].astype(float)).statistic)
            < 5 / n**0.5
        )
    # two clients' masked vectors tell nothing about each other either
    a, b = (seen[name].astype(float) for name in NAMES[:2])
    assert abs(scipy.stats.pearsonr(a, b).statistic) < 5 / n**0.5


def test_messages_hold_what_the_protocol_says_and_no_more():
    """Two keys; an envelope per neighbour; the vector; one share per neighbour and of itself."""
    listener = Listener(kinds=ROUNDS)
    secure_sum(listener, "server", vectors(9), bits=9, silent={NAMES[5]: "masked"})
    seen = {(kind, up): set() for kind in ROUNDS for up in (True, False)}
    for message in listener.heard:
        shapes = tuple((name, tuple(t.shape)) for name, t in message.tree.items())
        seen[message.kind, message.receiver == "server"].add(shapes)
    envelope = 2 * NBYTES_SHARE + 16
    assert seen == {
        ("keys", True): {(("keys", (1, 64)),)},
        ("keys", False): {(("who", (5,)), ("keys", (5, 64)))},
        ("shares", True): {(("sealed", (5, envelope)),)},
        ("shares", False): {(("who", (5,)), ("sealed", (5, envelope)))},
        ("masked", True): {(("y", (45,)),)},
        ("masked", False): set(),
        ("unmasking", True): {(("shares", (6, NBYTES_SHARE)),)},
        ("unmasking", False): {(("left", (5,)), ("gone", (1,)))},
    }


def members(count=5, threshold=3, bits=8):
    """Clients after two rounds, and what the server has seen so far."""
    all_of_them = [Member(u, threshold, bits, random_source(0, u)) for u in range(count)]
    keys = {u: m.advertise() for u, m in enumerate(all_of_them)}
    others = [{v: k for v, k in keys.items() if v != u} for u in range(count)]
    sealed = [m.share(others[u]) for u, m in enumerate(all_of_them)]
    arriving = [{v: sealed[v][u] for v in range(count) if v != u} for u in range(count)]
    return all_of_them, keys, arriving


def test_a_client_gives_no_second_share_of_one_client():
    """A server that calls client 1 gone after it was a survivor would uncover its vector."""
    all_of_them, _, arriving = members()
    member = all_of_them[0]
    member.mask(np.zeros(4, np.uint64), arriving[0])
    with pytest.raises(ValueError, match="both secrets"):
        member.unmask([0, 1], [1])
    assert {*member.unmask([0, 1], [2])} == {0, 1, 2}
    with pytest.raises(ValueError, match="both secrets"):
        member.unmask([], [1])


def test_an_envelope_for_another_client_does_not_open():
    all_of_them, _, arriving = members()
    swapped = {**arriving[0], 1: arriving[2][1]}
    with pytest.raises(ValueError, match="does not open"):
        all_of_them[0].mask(np.zeros(4, np.uint64), swapped)


def uncovered(all_of_them, keys, hidden, colluding):
    """What the server and these clients read of client 0's vector with all that they hold."""
    try:
        key = KeyPair(from_shares({v: all_of_them[v]._shares[0][0] for v in colluding}))
        seed = from_shares({v: all_of_them[v]._shares[0][1] for v in colluding})
    except ValueError:  # no secret has these shares
        return None
    x = hidden - stream(seed, len(hidden), hidden.dtype)
    for v in range(1, len(all_of_them)):  # 0 is the smaller number: it has added the masks
        x = x - stream(key.agree(keys[v][NBYTES_KEY:], b"mask"), len(x), x.dtype)
    return x.tolist()


def test_colluding_clients_open_a_vector_from_the_threshold_on_and_not_before():
    all_of_them, keys, arriving = members(count=5, threshold=3)
    secret = [7, 0, 255, 3]
    hidden = [m.mask(np.array(secret, np.uint64), arriving[m.number]) for m in all_of_them]
    for count in range(1, 5):
        for colluding in itertools.combinations(range(1, 5), count):
            found = uncovered(all_of_them, keys, hidden[0], colluding)
            assert (found == secret) == (count >= 3)


def flipped(tree, name):
    """The first byte of an entry changed."""
    changed = tree[name].clone()
    changed.view(-1)[0] ^= 1
    return {name: changed}


class Dishonest(Channel):
    """``client 2`` sends another tree in one round than it should."""

    def __init__(self, round_, change):
        super().__init__()
        self.round_, self.change = round_, change

    def cross(self, link, tree):
        if (link.sender, link.kind) == ("client 2", self.round_):
            tree = self.change(tree)
        return super().cross(link, tree)


BEHAVIOURS = {
    "keys: nothing": ("keys", lambda tree: {}),
    "keys: too short": ("keys", lambda tree: {"keys": tree["keys"][:, :5]}),
    "keys: two rows": ("keys", lambda tree: {"keys": tree["keys"].repeat(2, 1)}),
    "keys: floats": ("keys", lambda tree: {"keys": tree["keys"].float()}),
    "shares: nothing": ("shares", lambda tree: {}),
    "shares: one too few": ("shares", lambda tree: {"sealed": tree["sealed"][1:]}),
    "shares: too short": ("shares", lambda tree: {"sealed": tree["sealed"][:, :9]}),
    "shares: of one dimension": ("shares", lambda tree: {"sealed": tree["sealed"][0]}),
    "shares: an envelope changed": ("shares", lambda tree: flipped(tree, "sealed")),
    "masked: nothing": ("masked", lambda tree: {}),
    "masked: too short": ("masked", lambda tree: {"y": tree["y"][:-1]}),
    "masked: too long": ("masked", lambda tree: {"y": tree["y"].repeat(2)}),
    "masked: other dtype": ("masked", lambda tree: {"y": tree["y"].float()}),
    "unmasking: nothing": ("unmasking", lambda tree: {}),
    "unmasking: one too few": ("unmasking", lambda tree: {"shares": tree["shares"][1:]}),
    "unmasking: too short": ("unmasking", lambda tree: {"shares": tree["shares"][:, :5]}),
    "unmasking: none of 33 bytes": ("unmasking", lambda t: {"shares": t["shares"] | 255}),
    "unmasking: a share changed": ("unmasking", lambda tree: flipped(tree, "shares")),
    "unmasking: shares swapped": ("unmasking", lambda t: {"shares": t["shares"].flip(0)}),
    "unmasking: zeros": ("unmasking", lambda tree: {"shares": 0 * tree["shares"]}),
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_what_a_dishonest_client_sends_is_noticed_and_its_name_said(behaviour):
    channel = Dishonest(*BEHAVIOURS[behaviour])
    with pytest.raises(ValueError, match=r"'client 2' has sent cannot be right"):
        secure_sum(channel, "server", vectors(8), bits=8, seed=0, threshold=0.5)


@pytest.mark.parametrize("silent", [{}, {"client 5": "masked"}])
def test_nobody_is_named_where_the_shares_are_too_few_to_show_who_it_is(silent):
    """Five of six shares are needed: the sixth shows that one is wrong, and not which."""
    channel = Dishonest("unmasking", lambda t: {"shares": t["shares"].roll(1, 0)})
    with pytest.raises(ValueError, match="what 'a client' has sent cannot be right") as caught:
        secure_sum(channel, "server", vectors(8), bits=8, silent=silent, seed=0)
    assert "do not fit" in str(caught.value) or "mask key give another key" in str(caught.value)


def test_a_wrong_vector_that_no_honest_clients_add_up_to_is_noticed():
    """A client that shares another seed than it masks with makes numbers of chance."""
    trees = {name: {"w": torch.zeros(50)} for name in NAMES}
    channel = Dishonest("masked", lambda tree: {"y": tree["y"].flip(0)})
    with pytest.raises(ValueError, match="add up to 18 at most, and the sum holds"):
        SecureSum(Pipeline(Grid(2, top=1.0)))(channel, trees)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([1, 2, 3], "all must be of one length"),
        ([[1, 2]], "all must be of one length"),
        ([300, 0], "uint64 from 0 to 300"),
        ([-1, 0], "int64 from -1 to 0"),
        ([1.7, 0.0], "float64 from"),
        ([np.nan, 0.0], "float64 from"),
        ([True, False], "bool from"),
    ],
)
def test_vectors_that_are_no_numbers_of_the_sum_are_refused(wrong, words):
    kind = np.uint64 if wrong == [300, 0] else None
    given = {"ann": np.array([1, 2]), "ben": np.array(wrong, dtype=kind)}
    channel = Channel()
    with pytest.raises(ValueError, match=words):
        secure_sum(channel, "server", given, bits=8)
    assert not channel.transfers


# ------------------------------------------------------------------------------------ in training
CLIENTS = workers(6, each=12)
LOCAL = Local(batch_size=4, lr=0.1, steps=2)
DROPOUTS = RandomDropouts(0.34, seed=5)
TRAININGS = {
    "fedavg": lambda model, channel, how: fedavg(
        model, CLIENTS, channel, rounds=4, cohort=5, local=LOCAL, server=Server(mean=how)
    ),
    "ddp": lambda model, channel, how: ddp(
        model, CLIENTS, channel, steps=4, local=Local(4, lr=0.1, steps=1), exchange=how
    ),
    "diloco": lambda model, channel, how: diloco(
        model, CLIENTS, channel, rounds=4, local=LOCAL, exchange=how
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", TRAININGS)
@pytest.mark.parametrize("dropouts", [None, DROPOUTS], ids=["all stay", "some drop out"])
def test_training_in_secret_gives_the_weights_of_training_in_the_clear(protocol, dropouts):
    """Bit by bit, for the same whole numbers are added; the wire costs more."""
    found = {}
    for how in (
        PlainSum(CODEC, dropouts=dropouts),
        SecureSum(CODEC, dropouts=dropouts, threshold=0.5),
        SecureSum(CODEC, dropouts=dropouts, threshold=0.5, neighbours=4),
    ):
        model, channel = network(), Channel()
        list(TRAININGS[protocol](model, channel, how))
        found[repr(how)] = [t.tolist() for t in model.state_dict().values()]
        ours = {*ROUNDS} if isinstance(how, SecureSum) else {"update"}
        assert {t.kind for t in channel.transfers} == ours | {"model"}
    first, *others = found.values()
    assert all(other == first for other in others)
    assert first != [t.tolist() for t in network().state_dict().values()]


def test_late_clients_of_fedavg_are_not_in_the_sum():
    """Who is late has shared keys: its masks are removed, its update never counts."""
    clock = Scripted({f"w{k}": [9.0 if k in (1, 4) else 1.0] for k in range(6)})
    arrivals = Arrivals(wait_for=4, clock=clock)
    weights = []
    for how in (PlainSum(CODEC), SecureSum(CODEC, threshold=0.5)):
        model, channel = network(), Channel()
        server = Server(arrivals=arrivals, mean=how)
        run = fedavg(model, CLIENTS, channel, rounds=1, cohort=6, local=LOCAL, server=server)
        records = list(run)
        assert (records[0]["num_arrived"], records[0]["num_late"]) == (4, 2)
        weights.append([t.tolist() for t in model.state_dict().values()])
    assert weights[0] == weights[1]
    assert channel.nbytes(sender="w1", kind="shares") > 0
    assert channel.nbytes(sender="w1", kind="masked") == 0


def test_a_secret_mean_needs_updates_that_count_once():
    late = Arrivals(staleness=Polynomial())
    run = {"rounds": 1, "local": LOCAL, "server": Server(mean=SecureSum(CODEC), arrivals=late)}
    with pytest.raises(ValueError, match="each update must count once"):
        fedavg(network(), CLIENTS, Channel(), cohort=3, **run)


def test_fewer_bits_than_the_largest_sum_wrap_around_the_middle():
    """Sums near the middle are right with 6 bits instead of 7; far from it they are wrong."""
    trees = {f"client {k}": {"w": torch.linspace(-0.1, 0.1, 50)} for k in range(6)}
    exact, narrow = (
        SecureSum(Pipeline(Grid(4, top=1.0)), bits=bits)(Channel(), trees)["w"]
        for bits in (None, 6)
    )
    assert torch.equal(exact, narrow)
    far = {name: {"w": torch.full((50,), 0.9)} for name in trees}
    wrapped = SecureSum(Pipeline(Grid(4, top=1.0)), bits=4)(Channel(), far)["w"]
    assert (wrapped - 0.9).abs().min() > 0.3


def test_whole_numbers_in_a_model_are_refused():
    tree = {"n": torch.tensor([3])}
    with pytest.raises(ValueError, match=r"entries \['n'\] are not floating-point"):
        SecureSum(CODEC)(Channel(), {"ann": tree, "ben": tree})


def test_without_the_package_the_error_holds_the_pip_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(ImportError, match=re.escape('pip install "fltoolkit[secrecy]"')):
        stream(bytes(32), 4, np.uint8)
