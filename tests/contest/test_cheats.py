"""What a cheat gains: nothing. Each test starts from something that would pay if it worked."""

import json
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import cup_cheats as hostile
import numpy as np
import pytest

from fltoolkit.data.datasets import DIGITS, WRITERS_END
from fltoolkit_contest import bound, read_card, referee
from fltoolkit_contest.entry import FREE_CONSTANTS, read_entry
from fltoolkit_contest.hosts import Hosts, checked
from fltoolkit_contest.party import Process
from fltoolkit_contest.pipes import parse, to_bytes
from fltoolkit_contest.referee import Play, rehearse, verify
from fltoolkit_contest.slots import CupError, Wire
from fltoolkit_contest.tracks import CONTEXT, TRACKS, places_of

RECORDS = Path(__file__).parents[2] / "cup" / "records"
LONGEST = (RECORDS / "shakespeare" / "folded" / "entry.py").read_text("utf-8")


def slow_and_fenced(test):
    linux = pytest.mark.skipif(sys.platform != "linux", reason="the fence needs Linux")
    return pytest.mark.slow(linux(test))


@pytest.fixture
def quick(monkeypatch):
    """Fewer hidden samples, of which each takes a process, and three owners in a process."""
    track = TRACKS["digits"]

    def draw(seed, league):
        drawn = track.draw(seed, league)
        return replace(drawn, hidden=tuple(each[:40] for each in drawn.hidden))

    monkeypatch.setitem(TRACKS, "digits", replace(track, draw=draw, per_process=3))
    monkeypatch.setattr(referee, "_ATTACKED", 20)


def rehearsed(text, league="open"):
    return list(rehearse(text, track="digits", league=league))


@pytest.mark.parametrize(
    ("league", "name"),
    [*product(["open"], hostile.REFUSED), *product(["sums"], hostile.REFUSED_IN_SUMS)],
)
def test_refused(league, name, monkeypatch):
    monkeypatch.setitem(TRACKS, "digits", replace(TRACKS["digits"], exchanges=5))
    honest, entries = {
        "open": (hostile.HONEST, hostile.REFUSED),
        "sums": (hostile.SUMS, hostile.REFUSED_IN_SUMS),
    }[league]
    text, why = entries[name]
    rehearsed(honest, league)
    with pytest.raises(CupError, match=why):
        rehearsed(text, league)


def test_silence_length_and_receivers_are_charged():
    wire = Wire("open", 3)
    wire.down({"kind": "model", "each": False}, [np.zeros(0, np.uint8)])
    assert wire.nbytes == 3  # an empty message to each of three
    wire.up([["update"]] * 3, [np.zeros(n, np.uint8) for n in (0, 127, 128)])
    assert wire.nbytes == 3 + (1 + 0) + (1 + 127) + (2 + 128)


def test_a_sum_is_all_that_arrives_and_every_owner_is_charged():
    wire = Wire("sums", 2)
    arrived = wire.up([["update", 3]] * 2, [np.array([7, 1, -1]), np.array([2, 1, 0])])
    assert [each.tolist() for each in arrived] == [[1, 2, 7]]  # modulo 8
    assert wire.ledger == {("up", "update"): 2 * (1 + 2)}  # 9 bits are two bytes


def test_neither_kind_nor_number_of_the_sender_arrives():
    """The kind is for the ledger; the server gets bytes."""
    text = hostile.HONEST.replace('"labels"', '["labels", "update"][int(me.y[0]) % 2]')
    text = text.replace("np.eye(10)[0]", "[float(type(labels[0]) is bytes)] + 9 * [0.5]")
    text = text.replace("bytes([me.number])", 'b""')
    assert rehearsed(text)[-1]["nbytes"] == 10


def test_probabilities_add_up_to_one_and_none_is_an_infinite_loss():
    """Else 277 for every class would gain, and the bound of five runs would be a raw error."""
    play = Play.of(TRACKS["shakespeare"], "open", read_entry("pass"), "salt", 0)
    assert play.losses(np.array([[277.0, 277.0]]), np.array([0])) == pytest.approx(np.log(2))
    scores = np.array([[1e308, -1e308, 0.0], [0.0, 1e308, 1e308]])
    nats = [play.score(scores, np.array([1, 0]))] * 4
    assert np.isfinite(bound([*nats, 2.0], higher_is_better=False))
    for wrong in (np.inf, np.nan):
        with pytest.raises(ValueError, match="finite numbers are wanted"):
            bound([wrong, *nats])


def test_fewer_runs_are_never_a_record():
    assert bound([0.99]) == -np.inf
    lucky = [0.99, 0.99, 0.99, 0.99, 0.80]
    assert np.mean(lucky) > 0.95 > bound(lucky)
    for num_runs in (0, 6):
        with pytest.raises(ValueError, match="1 to 5 runs are possible"):
            verify(hostile.HONEST, track="digits", league="open", num_runs=num_runs)


NUMBERS = ", ".join(map(str, range(1000)))
LETTERS = np.random.default_rng(0).integers(4, size=(20_000, 2)).tolist()
KNOWS = {  # what could stand for data, and the least that it costs
    "numbers": (f"W = [{NUMBERS}]", 2000),
    "a long number": (f"W = {'1' * 4000}", 4000 - FREE_CONSTANTS),
    "bits": (f"W = {[True, False] * 400}", 2000),
    "names": ("".join(f"a{n:05} = 0\n" for n in range(500)), 1000),
    "code": ("\n".join(f"x{'+-*/'[n]}={'xyzw'[m]}" for n, m in LETTERS), 1000),
    "brackets": (f"W = [{'[[]],[],' * 1500}]", 2500),
    "patterns": (f"match 0:\n  case [{'[[_], _], ' * 1000}]: pass", 2500),
    "singletons": (f"match 0:\n  case {'None|True|' * 1500}False: pass", 2500),
    "global names": (f"def f():\n  global {', '.join(['a', 'b', 'b'] * 1000)}", 2500),
    "dots": ("from " + "." * 3000 + "a import b", 2500),
    "aliases": (f"import {', '.join(['a as b', 'b as a'] * 1500)}", 2500),
    "signs": (f"W = {'-+~' * 60}1\n" * 20, 2500),
    "comparisons": (f"W = a {'< a > a ' * 800}", 2500),
}


@pytest.mark.parametrize("name", KNOWS)
def test_what_a_file_knows_is_charged(name):
    """Also beside the longest record, which uses most of what is free."""
    text, least = KNOWS[name]
    assert read_entry(f"{LONGEST}\n{text}\n").charge > least
    assert read_entry(LONGEST).charge == read_entry(hostile.HONEST).charge == 0


def test_a_text_is_charged_by_its_bytes_and_comments_do_not_reach_the_entry():
    assert read_entry(f"W = {chr(0x1F600) * 600!r}").charge == 2 + 4 * 600 - FREE_CONSTANTS
    spread = hostile.HONEST.replace("\n", "\n\n\n")
    assert read_entry(spread).source == read_entry(hostile.HONEST).source
    hidden = read_entry(f'{hostile.HONEST}\n# {NUMBERS}\ndef f():\n    """{NUMBERS}"""\n')
    assert hidden.charge == 0
    assert "999" not in hidden.source
    deep = "".join(" " * level + "if a:\n" for level in range(90)) + " " * 90 + "a;" * 9000
    with pytest.raises(ValueError, match=r"more than 200,000 characters"):
        read_entry(deep)  # it grows when it is written out


def test_seeds_depend_on_the_file_and_on_the_salt():
    """So a seed in the code, or a file that was tried until it was lucky, fits no other run."""
    text = hostile.HONEST
    track = TRACKS["digits"]
    of = [
        Play.of(track, "open", read_entry(text + more), salt, number)
        for more, salt, number in (("", "a", 0), (" ", "a", 0), ("", "b", 0), ("", "a", 1))
    ]
    assert len({play.seed for play in of}) == 4
    assert len({play.drawn.hidden[1].tobytes() for play in of}) == 4
    again = Play.of(track, "open", read_entry(text), "a", 0)
    assert (again.drawn.hidden[0] == of[0].drawn.hidden[0]).all()


def test_hidden_samples_are_nobody_s():
    play = Play.of(TRACKS["digits"], "open", read_entry(hostile.HONEST), "a", 0)
    theirs = {x.tobytes() for owner in play.drawn.owners for x in owner[0]}
    hidden = {x.tobytes() for x in play.drawn.hidden[0]}
    assert len(theirs & hidden) < 5  # some of the 1,797 images are twice in the data set
    (server, arrays), *owners = play.setups()
    assert len(arrays) == 1  # the entry's source
    assert server["seats"][0]["x"] is server["seats"][0]["y"] is False
    assert [len(arrays) for _, arrays in owners] == [1 + 2] * 5


def test_hidden_digits_are_all_images_of_three_people_whom_no_owner_has():
    """And other people in other runs. Images are turned: sorted pixels say whose one is."""
    with np.load(DIGITS) as file:
        keys = [image.tobytes() for image in np.sort(file["pixels"], axis=1)]
    writer = dict(zip(keys, np.searchsorted(WRITERS_END, range(len(keys)), "right"), strict=True))
    sizes, drawn = np.diff(WRITERS_END, prepend=0), []
    for seed in range(3):
        x = TRACKS["digits"].draw(seed, "open").hidden[0].reshape(-1, 64)
        rows = np.sort((16 * x).round().astype(np.uint8), axis=1)
        people = Counter(writer[row.tobytes()] for row in rows).most_common(3)
        assert sum(number for _, number in people) > len(x) - 5  # some images are there twice
        assert len(x) == sum(sizes[who] for who, _ in people)
        drawn.append(frozenset(who for who, _ in people))
    assert len({*drawn}) == 3


def test_a_knower_of_the_classes_fails():
    """A model that was trained before knows neither which class is which nor what is up."""
    draws = [TRACKS["digits"].draw(seed, "open") for seed in range(3)]
    means = [np.stack([d.hidden[0][d.hidden[1] == k].mean(0) for k in range(10)]) for d in draws]

    def accuracy(mean, drawn):
        x, y = drawn.hidden
        return (((x[:, None] - mean) ** 2).sum((2, 3)).argmin(1) == y).mean()

    assert accuracy(means[0], draws[0]) > 0.85
    assert max(accuracy(means[0], drawn) for drawn in draws[1:]) < 0.4


@slow_and_fenced
def test_no_party_finds_data_models_records_or_the_seed():
    """What else the fence keeps away from a party is tried in tests/grading/test_fence.py."""
    play = Play.of(TRACKS["digits"], "open", read_entry(hostile.PROBING), "a", 0)
    rng = np.random.default_rng([referee._drawn("a", play.entry.sha256, 0, "secret"), 0])
    rng.integers(4), rng.integers(2)
    about = {"probes": hostile.PROBES, "scope": {"NUMBERS": rng.permutation(10).tolist()}}

    def found(reply):
        _, arrays = checked(reply) if isinstance(reply, bytes) else reply
        return {name for name, value in json.loads(arrays[0].tobytes()).items() if value}

    request = ({"do": "answer"}, [np.frombuffer(json.dumps(about).encode(), np.uint8)])
    outside = Process(*parse(to_bytes(*play.setups()[1])[8:]))
    # outside they can find
    assert found(outside.reply(*request)) >= {*hostile.PROBES} - hostile.INSIDE_ONLY
    with Hosts(300.0) as hosts:
        hosts.start(play.setups()[1:2])
        assert found(hosts.ask([request])[0]) == set()


@slow_and_fenced
def test_a_party_that_writes_past_the_wire():
    play = Play.of(TRACKS["digits"], "open", read_entry(hostile.FORGING), "a", 0)
    play.groups = [[0]]
    for forged in hostile.FORGED.values():
        with Hosts(100.0) as hosts:
            hosts.start(play.setups()[1:2])
            message = np.frombuffer(forged.encode(), np.uint8)
            with pytest.raises(CupError, match="answer is malformed"):
                play.wire.up(*play._by_owner(hosts.ask([({"do": "answer"}, [message])], [0])))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[" * 10**6,
        b"[" + b"[]," * 2_000_000 + b"[]]",
        b'{"arrays": [["|u1", [9223372036854775808]]]}',
        b'{"arrays": [["<f8", [1, 4611686018427387904, 4611686018427387904]]]}',
        b'{"arrays": [["|u1", [1e999]]]}',
        b'{"arrays": [[[], {}]]}',
        b'{"arrays": 7}',
        b'{"heads": "\xff", "arrays": []}',
    ],
    ids=lambda header: header[:40].decode("latin-1"),
)
def test_a_forged_header_is_a_malformed_answer(header):
    body = len(header).to_bytes(4, "little") + header
    with pytest.raises(CupError, match="answer is malformed"):
        checked(len(body).to_bytes(8, "little") + body)


@pytest.mark.parametrize("kind", [None, 7, ["update"], {"update": 1}, "\x1b[2J"])
def test_a_forged_kind_is_refused(kind):
    for league, head, array in (("open", [kind], np.uint8), ("sums", [kind, 8], np.int64)):
        with pytest.raises(CupError, match="choose one of"):
            Wire(league, 2).up([head, head], [np.zeros(3, array)] * 2)


SPLIT = """
def features(me, message):
    return "control", b""
def encode(me, sample):
    return bytes(CODE)
def labels(me):
    yield "control", b""
    return lambda code: [1.0] + 9 * [0.0]
"""


def test_what_the_verifier_keeps_of_a_run_is_limited(monkeypatch):
    code = SPLIT.replace("CODE", str(referee.LARGEST_CODE + 1))
    with pytest.raises(CupError, match=r"1,025 bytes about a hidden sample: at most 1,024"):
        rehearsed(code, "split")
    monkeypatch.setattr(referee, "LARGEST_RUN", 2000)
    text = hostile.HONEST.replace("bytes([me.number])", "bytes(300)")
    text = text.replace("    return lambda", '    yield "control", bytes(501)\n    return lambda')
    with pytest.raises(CupError, match="messages of a run take more than 2,000 bytes"):
        rehearsed(text)
    rehearsed(hostile.HONEST)


@slow_and_fenced
@pytest.mark.parametrize("name", hostile.REPLAYED)
def test_the_replay_finds(name, quick):
    more = {"salt": "0", "num_runs": 1, "report": str}
    with pytest.raises(CupError, match=r"replayed alone|asked in another order"):
        verify(hostile.REPLAYED[name], track="digits", league="open", **more)


@slow_and_fenced
def test_of_the_hidden_samples_a_party_knows_one_at_a_time():
    """Neither memory nor frames hold another one: all answers are those of the first sample."""
    play = Play.of(TRACKS["digits"], "open", read_entry(hostile.REMEMBERING), "a", 0)
    with Hosts(300.0) as hosts:
        hosts.start(play.setups())
        for _ in play.exchanges(hosts):
            pass
        scores, _ = play.predict(hosts, play.drawn.hidden[0][:20])
    assert scores.argmax(1).tolist() == [0] * 20


@slow_and_fenced
def test_in_the_replay_no_two_parties_run_at_once(quick, monkeypatch):
    """So what all processes of a machine share carries nothing from one to another."""
    started, start = [], Hosts.start
    monkeypatch.setattr(Hosts, "start", lambda self, s: (started.append(len(s)), start(self, s)))
    verify(hostile.HONEST, track="digits", league="open", num_runs=1, report=str)
    assert started == [3, 1, 1, 1]


@slow_and_fenced
def test_codes_of_the_split_league_are_replayed(quick):
    text = "import os\n" + SPLIT.replace("bytes(CODE)", "os.urandom(1)")
    with pytest.raises(CupError, match="replayed alone, a party sent other bytes"):
        verify(text, track="digits", league="split", num_runs=1, report=str)


def test_no_two_hidden_windows_of_a_text_overlap():
    """Each takes its characters and the one after them."""
    for seed in range(100):
        places = np.sort(places_of(5000, np.random.default_rng(seed)))
        assert (np.diff(places) > CONTEXT).all()
        assert places.min() >= 0
        assert places.max() + CONTEXT < 5000
    assert len(places) > 70


@slow_and_fenced
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("while True: pass", "more than 2.5 s of processor time"),
        ("import time; time.sleep(1000)", "has lasted more than 2 s"),
        ("bytearray(5 << 30)", "MemoryError"),
        ("import os; os._exit(3)", "process has ended"),
    ],
)
def test_limits(body, why, monkeypatch):
    seconds = 2.5 if "while" in body else 4 if "sleep" in body else 400
    track = replace(TRACKS["digits"], cpu_seconds=seconds, per_process=5)
    monkeypatch.setitem(TRACKS, "digits", track)
    monkeypatch.setattr("fltoolkit_contest.hosts.PATIENCE", 0.5 if "sleep" in body else 100)
    text = hostile.HONEST.replace("def owner(me, message):", f"def owner(me, message):\n    {body}")
    with pytest.raises(CupError, match=why):
        verify(text, track="digits", league="open", num_runs=1, report=str)


@slow_and_fenced
def test_the_same_salt_gives_the_same_card_and_a_changed_card_is_found(
    quick, tmp_path, capsys, monkeypatch
):
    from fltoolkit_contest.commands import main

    entry, card = tmp_path / "mine.py", tmp_path / "card.json"
    entry.write_text(hostile.HONEST)
    where = ["--track", "digits", "--league", "open"]
    assert main(["verify", str(entry), *where, "--runs", "1", "--out", str(card)]) == 1
    assert main(["verify", str(entry), "--card", str(card)]) == 0
    assert "every number is the same" in capsys.readouterr().out
    again = read_card(card)
    monkeypatch.setattr(referee, "verify", lambda *_, **__: again)  # as it has just come out
    changed = json.loads(card.read_text())
    changed["runs"][0] |= {"nbytes": 1, "ledger": {"up labels": 1}}
    changed["measured"]["machine"] = "another one"  # where the last digits may differ
    card.write_text(json.dumps(changed))
    assert main(["verify", str(entry), "--card", str(card)]) == 1
    assert "the numbers differ from the card" in capsys.readouterr().out
