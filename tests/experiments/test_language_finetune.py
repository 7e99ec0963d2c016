import pytest
import torch

from experiments.language import finetune
from experiments.language.finetune import Setting, Task
from fltoolkit_research.models import gpt

SMALL = Task("small", "topics", "topics", True, False, 2, 2, 2, 1, 4, 8)
LEARNED = {  # of the 111,425 parameters of the model for Shakespeare
    "full": 111_425,
    "lora": 8 * 2 * (64 + 192 + 64 + 64 + 64 + 256 + 256 + 64) + 8 * (64 + 65),
    "ffa": 8 * 2 * (192 + 64 + 256 + 64) + 8 * 65,
    "ends": 65 * 64 + 64 * 64 + 128 + 64 * 65 + 65,
}


@pytest.mark.parametrize("kind", LEARNED)
def test_what_is_learned(kind):
    tuned = Setting("p", "n", kind, 1e-3, 8).tuned(gpt(65, seed=0))
    assert sum(p.numel() for p in tuned.parameters()) == LEARNED[kind]


@pytest.mark.later
@pytest.mark.parametrize("codec", [None, finetune.eden(2)])
def test_a_run_counts_all_but_the_first_download(codec):
    setting = Setting("p", "n", "ends", 1e-2, codec=codec)
    result = finetune.run(SMALL, setting, 0)
    assert result["nats"] == pytest.approx(result["nats_by_round"][-1], abs=1e-4)
    total = 2 * 2 * result["nbytes_up"] + 2 * result["nbytes_down"]  # 2 rounds, 2 clients
    assert result["nbytes"] == pytest.approx(total)
    nbytes = result["num_learned"] * 4
    if codec is None:
        assert nbytes < result["nbytes_up"] < nbytes + 400
    else:
        assert result["nbytes_up"] < nbytes / 12
    assert finetune.summary(result).endswith("kB")


def test_clients_of_a_play_are_its_speakers(monkeypatch):
    from fltoolkit_research.data import Text

    play = "".join(
        f"{who}:\n{'to be or not to be ' * n}\n\n" for who, n in (("Ann", 30), ("Ben", 60))
    )
    texts = {"topics": Text.of(play.lower() + "ABN:", "topics"), "play": Text.of(play * 4, "play")}
    monkeypatch.setattr(finetune, "text_of", texts.__getitem__)
    task = Task("small", "topics", "play", False, True, num_clients=2)
    clients, (x_test, y_test) = finetune.clients_of(task)
    sizes = [len(x) for x, _ in clients.values()]
    assert sizes[0] > sizes[1]
    assert torch.equal(x_test[0, 1:], y_test[0, :-1])
    said = texts["topics"].decode(clients["client_1"][0].flatten())
    assert not {"Ann", "Ben"} & set(said.split()), "their speeches, without their names"
