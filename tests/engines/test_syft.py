"""PySyft datasites: what the engine promises, and the seams of syft that it holds on to."""

import contextlib
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import fltoolkit as flt
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.models import seeded
from fltoolkit.wire import WireError

MISSING = 'needs pip install "syft>=0.10,<0.11" "syft-rds>=0.6.1,<0.7" (not on native Windows)'
pytest.importorskip("syft_rds", reason=MISSING)

from syft_rds import job_matches_criteria  # noqa: E402

from fltoolkit.federated import Fleet, Local, Server  # noqa: E402
from fltoolkit_engines import syft  # noqa: E402
from fltoolkit_engines.syft import Datasite, MockDrive  # noqa: E402
from fltoolkit_engines.syft_channel import SyftChannel  # noqa: E402
from fltoolkit_engines.syft_jobs import Jobs, ReviewedJob, settings_of  # noqa: E402

Q8 = {kind: Pipeline(Quantize(8)) for kind in ("activations", "gradients", "update")}
X, Y = torch.randn(64, 12, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 3
CODE = """
from torch import nn
from fltoolkit.federated import Local, local_update

SETTINGS = {"lr": 0.1, "batch_size": 16, "epochs": 1}

def main(data, start, seed):
    return local_update(nn.Sequential(nn.Linear(12, 3)), start, data["x"], data["y"],
                        Local(loss_fn=nn.functional.cross_entropy, **SETTINGS), seed=seed)
"""

LOCAL = Local(loss_fn=nn.functional.cross_entropy, **settings_of(CODE))


def network(*names):
    """A Drive, and datasites of which the last is a peer of all others."""
    drive = MockDrive()
    *owners, last = sites = [drive.join(name) for name in names]
    for owner in owners:
        last.ask(owner.name)
        owner.accept(last.name)
    return SimpleNamespace(drive=drive, **{site.name: site for site in sites})


@pytest.fixture(scope="module")
def net():
    """alice and carol with data, bob their peer; mallory, a stranger. No test leaves a message."""
    net = network("alice", "carol", "bob")
    net.mallory = net.drive.join("mallory")
    for owner, rows in ((net.alice, slice(0, 40)), (net.carol, slice(40, 64))):
        owner.publish("patients", {"x": X[rows], "y": Y[rows]}, to=["bob"])
    return net


def stored(drive, name="msgv2_"):
    """Messages on the Drive, oldest first, those that were read included."""
    return [f for f in drive.store.files.values() if f.name.startswith(name)]


def test_one_function_is_replaced_and_put_back():
    from syft.sync.connections.drive import gdrive_transport

    before, home = gdrive_transport.build_drive_service, Path.home()
    site = MockDrive().join("zoe")
    assert gdrive_transport.build_drive_service is before
    assert Path.home() == home
    assert home not in site.folder.parents


# ----------------------------------------------------------------- peers, mocks, permissions
@pytest.mark.later
def test_each_sees_the_mock_and_only_the_owner_the_private_part(net):
    assert torch.equal(net.alice.private("patients")["x"], X[:40])
    mock = net.bob.mock("patients", "alice")
    assert mock["x"].shape == (40, 12)
    assert not mock["x"].any()
    with pytest.raises(PermissionError, match=r"never left alice's datasite.*Read the mock"):
        net.bob.private("patients", "alice")
    with pytest.raises(PermissionError, match="carol and alice are no peers"):
        net.carol.mock("patients", "alice")


def test_nothing_private_lies_on_the_drive(net):
    rows = X[:40].numpy().tobytes()
    assert not any(rows[:64] in content for content in net.drive.files().values())


def test_two_peers_of_one_short_name_are_told_apart():
    """alice@example.org and alice@evil.org: neither is taken for the other."""
    both = ["alice@evil.org", "alice@example.org", "bob@example.org"]
    assert syft._called("bob", both) == ["bob@example.org"]
    assert syft._called("alice@example.org", both) == ["alice@example.org"]
    assert syft._called("carol", both) == []
    with pytest.raises(PermissionError, match=r"'alice' may be any of .*give the whole e-mail"):
        syft._called("alice", both)


def test_a_message_from_a_stranger_who_has_only_asked_is_refused():
    net = network("alice", "bob")
    assert net.bob.peers() == ["alice@example.org"]
    mallory = net.drive.join("mallory")
    with pytest.raises(PermissionError, match="mallory and alice are no peers: one of them asks"):
        mallory.post("alice", "x", b"")
    with pytest.raises(PermissionError, match="cannot accept 'mallory', who has not asked"):
        net.alice.accept("mallory")
    mallory.ask("alice")
    assert net.alice.requests() == ["mallory@example.org"]
    with pytest.raises(PermissionError, match="mallory and alice are no peers"):
        SyftChannel([mallory]).post("mallory", "alice", "activations", {"h": X})
    with pytest.raises(PermissionError, match=r"alice and mallory are no peers.*the other accepts"):
        SyftChannel([net.alice], timeout=0).receive("mallory", "alice", "activations")


def test_a_write_without_permission_is_dropped_silently_by_syft(net):
    net.bob.write("alice", "notes.txt", "hello")  # no error: bob does not learn of it
    with pytest.raises(FileNotFoundError, match="syft drops a file without permission"):
        net.alice.read("notes.txt")
    net.alice.allow("bob", "from_bob/")
    net.bob.write("alice", "from_bob/notes.txt", "hello")
    assert net.alice.read("from_bob/notes.txt") == "hello"


def test_a_message_without_permission_is_refused(net):
    from syft_perms import SyftPermContext

    folder = SyftPermContext(datasite=net.carol.folder).open("messages/bob@example.org/")
    folder.revoke_write_access("bob@example.org")
    with pytest.raises(PermissionError, match=r"bob -> carol.*may not write to 'messages/bob@"):
        SyftChannel([net.bob, net.carol]).send("bob", "carol", "control", {"a": X})
    net.carol.allow("bob", "messages/bob@example.org/")
    SyftChannel([net.bob, net.carol]).send("bob", "carol", "control", {"a": X})


@pytest.mark.later
def test_a_peer_who_claims_to_be_another_is_refused_where_syft_would_believe_it(monkeypatch):
    net = network("bob", "carol", "alice")  # alice is a peer of both

    def bob_says_he_is_carol(path):
        monkeypatch.setattr(net.bob, "email", "carol@example.org")
        net.bob.post("alice", path, b"I am carol")
        monkeypatch.undo()

    bob_says_he_is_carol("x")
    with pytest.raises(PermissionError, match=r"from bob@.* claims to come from carol@"):
        net.alice.take("bob")
    assert net.alice.take("bob") is None  # and it does not block what follows
    bob_says_he_is_carol("y")
    net.alice.sync()
    found = net.alice.folder / "messages/carol@example.org/y"
    assert found.read_bytes() == b"I am carol", "syft checks the sender now: say so in the docs"


def test_a_third_party_cannot_decrypt(net):
    SyftChannel([net.alice, net.bob]).send("alice", "bob", "activations", {"h": X})
    raw = stored(net.drive)[-1].content
    assert net.bob.open(raw, "alice").sender_email == "alice@example.org"
    dave = net.drive.join("dave")
    net.alice.ask("dave"), dave.accept("alice")  # knows alice's public key
    with pytest.raises(
        WireError, match=r"dave cannot open.*was not encrypted for dave, or damaged"
    ):
        dave.open(raw, "alice")


# ------------------------------------------------------------------------------- SplitNN
def parties(names):
    """Bottoms of the feature parties and a top, always the same."""
    with seeded(3):
        *bottoms, top = [
            *(nn.Sequential(nn.Linear(12 // len(names), 8), nn.ReLU()) for _ in names),
            nn.Linear(8 * len(names), 3),
        ]
    owners = [
        flt.Party(name, m, flt.SGD(m.parameters(), lr=0.1))
        for name, m in zip(names, bottoms, strict=True)
    ]
    sgd = flt.SGD(top.parameters(), lr=0.1)
    return [*owners, flt.Party("bob", top, sgd, nn.CrossEntropyLoss())]


def train(names, channel, *, steps=6, start=0, group=None):
    *owners, bob = group = parties(names) if group is None else group
    blocks = X.chunk(len(names), dim=1)
    batches = flt.Batches(tuple(blocks), Y, 16, seed=0).epochs(2)
    for _ in flt.train_vertical(owners, bob, islice(batches, start, steps), channel):
        pass
    return group


def weights(group):
    return [tensor for party in group for tensor in party.module.state_dict().values()]


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(weights(a), weights(b), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("names", [["alice"], ["alice", "carol"]], ids=["two", "three"])
@pytest.mark.parametrize("codecs", [{}, Q8], ids=["plain", "8-bit"])
def test_splitnn_is_bit_identical_to_one_process(net, names, codecs):
    sites = [getattr(net, name) for name in (*names, "bob")]
    channel, plain = SyftChannel(sites, codecs), flt.Channel(codecs)
    assert same(train(names, channel), train(names, plain))
    assert channel.transfers == plain.transfers
    assert not same(train(names, flt.Channel(codecs), steps=5), train(names, plain))


def test_payload_and_transport_stand_side_by_side(net):
    channel = SyftChannel([net.alice, net.bob])
    channel.send("alice", "bob", "activations", {"h": torch.zeros(0)})
    channel.send("alice", "bob", "activations", {"h": torch.rand(100, 100)})
    on_drive = [len(f.content) for f in stored(net.drive)[-2:]]
    assert channel.nbytes_transport() == sum(on_drive)
    assert on_drive[0] > 4187  # the envelope alone, see docs/engines_syft.md
    row = r"activations +2 +40,0\d\d +4\d,\d{3} +1\.\d\d\n"
    assert re.search(rf"alice -> bob {row}all", channel.table())


def test_the_envelope_costs_4187_bytes_whatever_is_in_it(net):
    store = net.alice.client.peer_manager.peer_store
    sizes = {len(store.encrypt("bob@example.org", bytes(n))) - n for n in (0, 1, 1000, 100_000)}
    assert sizes == {4187}, "docs/engines_syft.md and notebook 09 name the number"


# -------------------------------------------------------------------------------- faults
def test_a_damaged_message_names_link_and_step_and_does_not_block(net):
    channel = SyftChannel([net.alice, net.bob])
    channel.step = 7
    channel.post("alice", "bob", "activations", {"h": X})
    file = stored(net.drive)[-1]
    file.content = file.content[:-9] + bytes([file.content[-9] ^ 1]) + file.content[-8:]
    with pytest.raises(WireError, match=r"alice -> bob, activations, step 7: bob cannot open"):
        channel.receive("alice", "bob", "activations")
    assert net.bob.take("alice") is None


def test_another_version_of_fltoolkit_is_refused(net, monkeypatch):
    channel = SyftChannel([net.alice, net.bob])
    with monkeypatch.context() as other:
        other.setattr(flt, "__version__", "9.9")
        channel.post("alice", "bob", "activations", {"h": X})
    with pytest.raises(ConnectionError, match=r"step 0: expected .*, found 9\.9/.*/0-0-"):
        channel.receive("alice", "bob", "activations")


def test_a_model_of_the_wrong_shape_is_refused_before_anything_is_learned(net):
    group = parties(["alice"])
    wrong_size = nn.Linear(12, 5)  # bob's top takes 8
    group[0] = flt.Party("alice", wrong_size, flt.SGD(wrong_size.parameters(), lr=0.1))
    before = [tensor.clone() for tensor in weights(group[1:])]
    with pytest.raises(ValueError, match=r"party 'bob': .*mat1 and mat2 shapes"):
        train(["alice"], SyftChannel([net.alice, net.bob]), group=group)
    assert all(map(torch.equal, before, weights(group[1:])))


def test_a_lost_message_and_a_party_out_of_step_are_noticed(net):
    alice, bob = (SyftChannel([s], run="lost", timeout=0) for s in (net.alice, net.bob))
    for _ in range(2):
        alice.post("alice", "bob", "activations", {"h": X})
    assert net.bob.take("alice")  # one is lost
    with pytest.raises(ConnectionError, match=r"expected .*/0-0-activ.*, found .*/0-1-activations"):
        bob.receive("alice", "bob", "activations")
    alice, bob = (SyftChannel([s], run="step", timeout=0) for s in (net.alice, net.bob))
    alice.step = 5
    alice.post("alice", "bob", "activations", {"h": X})
    with pytest.raises(ConnectionError, match=r"found .*/5-0-activations"):
        bob.receive("alice", "bob", "activations")


@pytest.mark.later
def test_a_run_that_died_goes_on_and_ends_with_the_same_weights(net, tmp_path, monkeypatch):
    codecs = {"gradients": Pipeline(Quantize(4, stochastic=True))}
    sites, names = [net.alice, net.carol, net.bob], ["alice", "carol"]
    channel = SyftChannel(sites, codecs, timeout=0)
    group = train(names, channel, steps=3)
    flt.save_run(tmp_path, group, channel)
    take = Datasite.take
    monkeypatch.setattr(
        Datasite, "take", lambda site, of: None if site.name == "carol" else take(site, of)
    )
    with pytest.raises(TimeoutError, match="bob -> carol, gradients, step 4"):
        train(names, channel, steps=6, start=3, group=group)
    monkeypatch.undo()  # what was sent to carol still lies in her inbox
    channel, group = SyftChannel(sites, codecs, timeout=0), parties(names)
    assert flt.load_run(tmp_path, group, channel) == 3
    train(names, channel, steps=6, start=3, group=group)
    plain = flt.Channel(codecs)
    assert same(group, train(names, plain))
    assert channel.transfers == plain.transfers


def test_processes_that_agree_on_a_run_pass_over_what_an_earlier_one_left(net, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(flt, "__version__", "0.0.1")
        SyftChannel([net.alice], run="monday 1").post("alice", "bob", "activations", {"h": -X})
    alice, bob = (SyftChannel([s], run="monday 2", timeout=0) for s in (net.alice, net.bob))
    with pytest.raises(TimeoutError, match="nothing came"):
        bob.receive("alice", "bob", "activations")
    alice.post("alice", "bob", "activations", {"h": X})
    assert torch.equal(bob.receive("alice", "bob", "activations")["h"], X)


# ------------------------------------------------------------------------- reviewed jobs
def submitted(net, code):
    """Each one's jobs, with one of bob's submitted to both owners under a new name."""
    made = {site.name: Jobs(site) for site in (net.alice, net.carol, net.bob)}
    made["name"] = name = f"job-{len(made['bob'].status())}"
    for owner in ("alice", "carol"):
        made["bob"].submit(owner, name, code)
    return made


@pytest.fixture
def jobs(net):
    return submitted(net, CODE)


def model():
    with seeded(0):
        return nn.Sequential(nn.Linear(12, 3))


def fed(channel, clients, network, **more):
    local = replace(LOCAL, **more)
    bob = Server(name="bob")
    list(flt.fedavg(network, clients, channel, rounds=2, cohort=2, local=local, server=bob))
    return network.state_dict()


def mocks(net):
    return {owner: tuple(net.bob.mock("patients", owner).values()) for owner in ("alice", "carol")}


def by_job(net, jobs):
    owners = {owner: jobs[owner] for owner in ("alice", "carol")}
    return ReviewedJob(jobs["name"], "patients", owners, mocks(net))


def approve(jobs, *owners):
    for owner in owners:
        jobs[owner].approve(jobs[owner].review(jobs["name"]), "read it")


def answer(net, code):
    """What leaves alice for a job of this code, which she has approved."""
    jobs = submitted(net, code)
    approve(jobs, "alice")
    return by_job(net, jobs)._at("alice", model().state_dict(), 0, LOCAL)


@pytest.mark.slow
def test_fedavg_by_reviewed_job_is_bit_identical_to_one_process(net, jobs):
    approve(jobs, "alice", "carol")
    channel, plain = SyftChannel([net.alice, net.carol, net.bob], Q8), flt.Channel(Q8)
    train = by_job(net, jobs)
    ours = fed(channel, Fleet(train.mocks, train), model())
    private = {o.name: tuple(o.private("patients").values()) for o in (net.alice, net.carol)}
    theirs = fed(plain, private, model())
    assert all(map(torch.equal, ours.values(), theirs.values()))
    assert channel.transfers == plain.transfers
    assert {t.kind for t in channel.transfers if t.receiver == "bob"} == {"update"}
    jobs["alice"].close(jobs["name"], "two updates sent")
    (mine,) = [
        r for r in jobs["bob"].status() if r["job"] == jobs["name"] and "alice" in r["owner"]
    ]
    assert mine == {
        "owner": "alice@example.org",
        "submitter": "bob@example.org",
        "job": jobs["name"],
        "status": "done",
        "reason": "read it",
    }


@pytest.mark.later
def test_a_job_runs_neither_before_it_is_approved_nor_after_it_was_rejected(net, jobs):
    approve(jobs, "carol")
    train, channel = by_job(net, jobs), SyftChannel([net.alice, net.carol, net.bob])
    with pytest.raises(PermissionError, match=r"alice runs only jobs.* is pending. To approve it"):
        fed(channel, Fleet(train.mocks, train), model())
    with pytest.raises(ValueError, match=r"a client is not one of job .* give fedavg Fleet"):
        fed(SyftChannel([net.alice, net.carol, net.bob]), Fleet(mocks(net), train), model())
    jobs["alice"].reject(jobs["alice"].review(jobs["name"]), "too many epochs")
    with pytest.raises(PermissionError, match="is rejected: too many epochs"):
        jobs["alice"].run(jobs["name"], "patients", start={}, seed=0)
    with pytest.raises(PermissionError, match="alice has rejected"):
        jobs["alice"].approve(jobs["alice"].review(jobs["name"]))
    told = {r["owner"]: r["reason"] for r in jobs["bob"].status() if r["job"] == jobs["name"]}
    assert told["alice@example.org"] == "too many epochs"


@pytest.mark.later
def test_a_job_that_was_changed_after_the_review_does_not_run(net, jobs):
    review = jobs["alice"].review(jobs["name"])
    jobs["alice"].approve(review)
    path = jobs["alice"]._job(jobs["name"]).job_submission_path.relative_to(net.alice.folder)
    net.bob.write("alice", f"{path}/code/main.py", CODE.replace("0.1", "0.9"))  # bob may: it is his
    net.alice.sync()
    with pytest.raises(
        PermissionError, match=r"(?s)has changed since alice read it.*\+SETTINGS.*0.9"
    ):
        jobs["alice"].run(jobs["name"], "patients", start={}, seed=0)
    with pytest.raises(PermissionError, match=r"code/main\.py. Review it again"):
        jobs["alice"].approve(review)
    again = jobs["alice"].review(jobs["name"])
    assert again != review
    jobs["alice"].approve(again)
    assert jobs["alice"].approved(jobs["name"]).code == CODE.replace("0.1", "0.9")


@pytest.mark.later
def test_run_sh_is_shown_and_never_runs_here_though_syft_would_approve_it(net, jobs, tmp_path):
    net.alice.sync()
    path = jobs["alice"]._job(jobs["name"]).job_submission_path.relative_to(net.alice.folder)
    net.bob.write("alice", f"{path}/run.sh", f"touch {tmp_path}/ran")
    review = jobs["alice"].review(jobs["name"])
    assert "touch" in review.files["run.sh"]
    job = jobs["alice"]._job(jobs["name"])
    assert job_matches_criteria(job, {"main.py": CODE}, ["main.py"]), "syft reads run.sh now: docs"
    jobs["alice"].approve(review)
    jobs["alice"].run(jobs["name"], "patients", start=model().state_dict(), seed=0)
    assert not (tmp_path / "ran").exists()


@pytest.mark.later
def test_other_settings_than_those_reviewed_are_refused(net, jobs):
    approve(jobs, "alice", "carol")
    train, channel = by_job(net, jobs), SyftChannel([net.alice, net.carol, net.bob])
    with pytest.raises(PermissionError, match=r"asks for .*batch_size=1, .* has approved"):
        fed(channel, Fleet(train.mocks, train), model(), batch_size=1)


@pytest.mark.later
def test_an_update_of_another_shape_than_the_model_does_not_leave_its_owner(net):
    short = CODE.replace("return ", "start = dict(list(start.items())[:1])\n    return ")
    short = short.replace("nn.Linear(12, 3)", "nn.Linear(12, 3, bias=False)")
    with pytest.raises(ValueError, match=r"update has {'0.weight'.*0.bias.*Nothing leaves alice"):
        answer(net, short)
    with pytest.raises(TypeError, match=r"main\(\) returned list, not a LocalUpdate"):
        answer(net, CODE.replace("return ", "return [data['x']]\n    "))


@pytest.mark.later
def test_an_approved_job_can_hide_private_data_in_an_update_of_the_right_shape(net):
    thief = CODE.replace("return local_update", "update = local_update")
    thief += "    update.delta['0.weight'][0] = data['x'][0]\n    return update\n"
    stolen = answer(net, thief).delta["0.weight"][0]
    assert torch.equal(stolen, X[0])  # docs and notebook 09 say so in plain words


@pytest.mark.later
def test_the_two_colab_notebooks_understand_each_other(monkeypatch):
    """All their cells but install, login and clean-up, in the order of turns, in two threads."""
    drive, turns = MockDrive(), {}
    settings = "OWNER, RESEARCHER = 'alice@example.org', 'bob@example.org'\n"
    settings += "TIMEOUT, POLL, NUM_STEPS, NUM_ROUNDS, ATTEMPT = 600, 0.05, 2, 1, 1"
    for book, name in (("owner", "alice"), ("researcher", "bob")):
        names = {name: drive.join(name)}
        exec(settings, names)
        path = Path(__file__).parents[2] / f"notebooks/colab/{book}.ipynb"
        for cell in json.loads(path.read_text())["cells"]:
            tag = " ".join(cell["metadata"].get("tags", []))
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and tag.startswith("turn-"):
                turns.setdefault(int(tag[5:]), {}).setdefault(name, []).append((source, names))
            assert not cell.get("outputs"), "saved outputs would look as if it had run on Colab"
    assert sorted(turns) == list(range(14))
    said = io.StringIO()

    def play(cells):
        for source, names in cells:
            exec(compile(source, "cell", "exec"), names)

    with contextlib.redirect_stdout(said), ThreadPoolExecutor(2) as pool:
        for turn in sorted(turns):
            for done in [pool.submit(play, cells) for cells in turns[turn].values()]:
                done.result()
    for words in ("refused: bob cannot read", "step 2: loss", "bob -> alice gradients", "'done'"):
        assert words in said.getvalue()
