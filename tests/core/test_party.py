"""A party's part of the model: handed on whole, and kept apart from its optimizer."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated import Local, fedavg, local_update
from fltoolkit.models import seeded
from fltoolkit.party import SGD, Party, TrainingWarning
from fltoolkit.split import train_split


def party(seed, name="alice"):
    with seeded(seed):
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    return Party(name, module, torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9))


def learn(learner):
    learner.forward(torch.arange(12.0).reshape(4, 3))
    learner.backward(torch.eye(4))


def test_weights_are_the_whole_part_buffers_included():
    alice, ben = party(0), party(1, "ben")
    learn(alice)
    assert {"0.weight", "1.running_mean", "1.num_batches_tracked"} <= alice.weights().keys()
    ben.load_weights(Channel().send("alice", "ben", "model", alice.weights()))
    for name, tensor in alice.weights().items():
        assert torch.equal(ben.weights()[name], tensor), name
    before = {name: tensor.clone() for name, tensor in ben.weights().items()}
    learn(alice)  # what was loaded is a copy
    assert all(torch.equal(ben.weights()[name], tensor) for name, tensor in before.items())
    assert not torch.equal(alice.weights()["0.weight"], before["0.weight"])


def test_loading_weights_leaves_the_optimizer_alone():
    alice = party(0)
    learn(alice)
    momentum = {k: v["momentum_buffer"].clone() for k, v in alice.optimizer.state.items()}
    alice.load_weights(party(1).weights())
    assert all(
        torch.equal(alice.optimizer.state[k]["momentum_buffer"], m) for k, m in momentum.items()
    )
    with pytest.raises(RuntimeError, match="Missing key"):
        alice.load_weights({"0.weight": torch.zeros(4, 3)})


def test_what_awaits_a_gradient_is_there_until_it_comes():
    """`NoPeek` reads it; a second gradient for one output is an error."""
    alice = Party("alice", layer := nn.Linear(3, 4), SGD(layer.parameters(), lr=1.0))
    assert alice.pending is None
    h = alice.forward(x := torch.ones(2, 3))
    assert alice.pending[0] is x
    assert torch.equal(alice.pending[1], h)
    alice.backward(torch.ones(2, 4))
    assert alice.pending is None
    with pytest.raises(RuntimeError, match="'alice': backward needs a forward"):
        alice.backward(torch.ones(2, 4))


MLP = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.LogSoftmax(dim=1))
NORM = nn.Sequential(nn.Linear(64, 10), nn.BatchNorm1d(10))
ROWS, CLASSES = torch.ones(8, 64), torch.arange(8)
INPUTS = [
    (NORM, torch.ones(8, 1, 8, 8), ValueError, r"with \[8, 1, 8, 8\] of torch.float32.*\.flat"),
    (NORM, ROWS.double(), ValueError, r"with \[8, 64\] of torch.float64.*x\.to\(torch\.float32\)"),
    (NORM, ROWS[:1], ValueError, r"with \[1, 64\].*more than 1 value per channel"),
    (nn.LSTM(64, 4), ROWS, TypeError, "module returns a tuple, not one tensor. Let its forward"),
]
LABELS = [
    (nn.NLLLoss(), nn.functional.one_hot(CLASSES, 10), r"and \[8, 10\] of torch.int64.*argmax"),
    (nn.CrossEntropyLoss(), CLASSES.float(), r"and \[8\] of torch.float32.*y.long\(\)"),
    (nn.CrossEntropyLoss(), CLASSES[:, None], r"\[8, 1\].*y.squeeze\(1\) of one column"),
    (nn.CrossEntropyLoss(), CLASSES + 3, "Target 10 is out of bounds.*from 0 to one less"),
]


@pytest.mark.parametrize(("module", "x", "error", "match"), INPUTS)
@pytest.mark.parametrize("last", [False, True])
def test_what_a_module_cannot_do_is_told_with_the_partys_name(module, x, error, match, last):
    alice = Party("alice", module, loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(error, match=f"^party 'alice': .*{match}"):
        alice.loss_and_grad(x, CLASSES[: len(x)]) if last else alice.forward(x)


@pytest.mark.parametrize(("loss_fn", "y", "match"), LABELS)
def test_labels_that_do_not_fit_are_told_with_the_partys_name(loss_fn, y, match):
    bob = Party("bob", MLP, loss_fn=loss_fn)
    with pytest.raises(ValueError, match=f"^party 'bob': its loss cannot compute .*{match}"):
        bob.loss_and_grad(ROWS, y)


def test_classes_are_no_objects():
    with pytest.raises(TypeError, match=r"'alice': optimizer=<class .*SGD'> is no optimizer; make"):
        Party("alice", MLP, torch.optim.SGD)
    with pytest.raises(TypeError, match=r"'bob': loss_fn=NLLLoss is a class.*loss_fn=NLLLoss\(\)"):
        Party("bob", MLP, loss_fn=nn.NLLLoss)


# ------------------------------------------------------------------------- wrong without a word
def ends_with(*last):
    """A network of 3 inputs and 4 outputs that ends with these layers."""
    with seeded(0):
        return nn.Sequential(nn.Linear(3, 4), *last)


class Ends(nn.Module):
    """A network that calls a function at its end."""

    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(3, 4), function

    def forward(self, x):
        return self.function(self.layer(x))


CLASS, EACH = torch.tensor([0, 3]), torch.eye(4)[:2]
CROSS, BINARY = nn.functional.cross_entropy, nn.functional.binary_cross_entropy_with_logits
SOFTMAX, SIGMOID = (f"its network ends with a {last}.*logits" for last in ("softmax", "sigmoid"))
LOGITS = r"CrossEntropyLoss\(\).*LogSoftmax"  # else the loss would fall below 0 without end
NOT_ONE = r"returns a tensor of shape \[2\], not one number for the batch.*reduction=\"none\""
NO_FIT = [
    (ends_with(nn.Softmax(dim=1)), nn.CrossEntropyLoss(), CLASS, SOFTMAX),
    (ends_with(nn.Softmax(dim=1)), nn.CrossEntropyLoss(label_smoothing=0.1), CLASS, SOFTMAX),
    (ends_with(nn.Softmax(dim=1)), nn.CrossEntropyLoss(), EACH, SOFTMAX),
    (ends_with(nn.Sigmoid()), nn.CrossEntropyLoss(), CLASS, SIGMOID),
    (Ends(lambda x: x.softmax(1)), CROSS, CLASS, SOFTMAX),
    (ends_with(nn.Sigmoid()), nn.BCEWithLogitsLoss(), EACH, SIGMOID),
    (ends_with(nn.Softmax(dim=1)), nn.BCEWithLogitsLoss(), EACH, SOFTMAX),
    (Ends(torch.sigmoid), BINARY, EACH, SIGMOID),
    (ends_with(), nn.NLLLoss(), CLASS, LOGITS),
    (ends_with(), nn.functional.nll_loss, CLASS, LOGITS),
    (ends_with(), nn.CrossEntropyLoss(reduction="none"), CLASS, NOT_ONE),
]
RIGHT = [
    (ends_with(), nn.CrossEntropyLoss(), CLASS),
    (ends_with(nn.LogSoftmax(dim=1)), nn.CrossEntropyLoss(), CLASS),  # once more changes nothing
    (ends_with(nn.LogSoftmax(dim=1)), nn.NLLLoss(), CLASS),
    (ends_with(nn.Softmax(dim=1), nn.Linear(4, 4)), nn.CrossEntropyLoss(), CLASS),
    (ends_with(nn.Softmax(dim=1)), nn.MSELoss(), EACH),
    (ends_with(nn.Sigmoid()), nn.BCELoss(), EACH),
    (ends_with(nn.Sigmoid(), nn.Linear(4, 4)), nn.BCEWithLogitsLoss(), EACH),
]
X2 = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])


@pytest.mark.parametrize(("module", "loss_fn", "y", "words"), NO_FIT)
def test_a_loss_that_does_not_fit_the_network_is_refused(module, loss_fn, y, words):
    """It would learn all the same, slowly and badly: from outputs that are normalized twice."""
    with pytest.raises(ValueError, match=f"^party 'bob': .*{words}"):
        Party("bob", module, loss_fn=loss_fn).loss_and_grad(X2.requires_grad_(), y)
    local = Local(None, lr=0.1, steps=1, loss_fn=loss_fn)
    with pytest.raises(ValueError, match=f"^client 'ann': .*{words}"):
        fedavg(module, {"ann": (X2.detach(), y)}, Channel(), rounds=1, cohort=1, local=local)


@pytest.mark.parametrize(("module", "loss_fn", "y"), RIGHT)
def test_other_ends_of_a_network_are_left_alone(module, loss_fn, y):
    Party("bob", module, loss_fn=loss_fn).loss_and_grad(X2.detach().requires_grad_(), y)
    local = Local(None, lr=0.1, steps=1, loss_fn=loss_fn)
    next(fedavg(module, {"ann": (X2.detach(), y)}, Channel(), rounds=1, cohort=1, local=local))


def test_a_loss_is_one_number_that_has_a_gradient():
    local = Local(None, lr=0.1, steps=1, loss_fn=nn.CrossEntropyLoss(reduction="none"))
    with pytest.raises(ValueError, match=NOT_ONE):
        local_update(ends_with(), ends_with().state_dict(), X2.detach(), CLASS, local, seed=0)
    with pytest.raises(ValueError, match="returns a float, not one number"):
        Party("bob", ends_with(), loss_fn=lambda h, y: 0.5).loss_and_grad(X2, CLASS)


@pytest.mark.parametrize("targets", [CLASS, CLASS.float()], ids=["whole numbers", "floats"])
def test_targets_that_would_be_broadcast_are_refused(targets):
    bob = Party("bob", nn.Linear(3, 1), loss_fn=nn.MSELoss())
    with pytest.raises(ValueError, match=r"outputs \[2, 1\] and targets \[2\] would be broadcast"):
        bob.loss_and_grad(X2, targets)
    assert bob.loss_and_grad(X2, targets[:, None].float())[0] >= 0


def silent(learner):
    """A step of this party; it must not warn."""
    learner.backward(torch.ones_like(learner.forward(X2.detach())))


def test_a_part_that_does_not_learn_is_named():
    """While its gradients are sent and counted."""
    used_up = (layer := nn.Linear(3, 4)).parameters()
    first = SGD(used_up, lr=0.1)
    frozen = nn.Linear(3, 4).requires_grad_(False)
    for module, optimizer in (
        (detached := Ends(lambda h: h.detach()), SGD(detached.parameters(), lr=0.1)),
        (layer, SGD(used_up, lr=0.1)),
        (frozen, SGD(frozen.parameters(), lr=0.1)),
    ):
        alice = Party("alice", module, optimizer)
        with pytest.warns(TrainingWarning, match="^party 'alice' learns nothing, although gradie"):
            silent(alice)
        silent(alice)  # once is enough
        silent(Party("alice", module))  # it does not claim to learn
    silent(Party("alice", layer, first))
    loss = nn.CrossEntropyLoss()
    with pytest.warns(TrainingWarning, match="^party 'bob' learns nothing"):
        Party("bob", detached, SGD(detached.parameters(), lr=0.1), loss).loss_and_grad(X2, CLASS)


def test_an_optimizer_of_another_module_is_refused():
    layer, other = nn.Linear(3, 4), nn.Linear(3, 4)
    with pytest.raises(ValueError, match="'alice': its optimizer moves 2 parameters that are not"):
        Party("alice", layer, SGD(other.parameters(), lr=0.1))


def test_learning_in_evaluation_mode_is_named():
    module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))
    with pytest.warns(TrainingWarning, match="'alice' learns in evaluation mode: its Dropout"):
        silent(Party("alice", module.eval(), SGD(module.parameters(), lr=0.1)))
    silent(Party("alice", layer := nn.Linear(3, 4).eval(), SGD(layer.parameters(), lr=0.1)))


def test_a_model_that_cannot_learn_is_refused_at_the_call():
    model, local = Ends(lambda h: h.detach()), Local(None, lr=0.1, steps=1, loss_fn=CROSS)
    with pytest.raises(ValueError, match=r"^client 'ann': the model cannot learn.*detached"):
        fedavg(model, {"ann": (X2.detach(), CLASS)}, Channel(), rounds=1, cohort=1, local=local)


def test_schedulers_of_torch_change_the_learning_rate_of_plain_sgd():
    """As they do with torch's, to the bit; copies and saved states keep it."""
    theirs, ours = ends_with(), ends_with()
    pair = [
        (theirs, torch.optim.SGD(theirs.parameters(), lr=0.1)),
        (ours, SGD(ours.parameters(), lr=0.1)),
    ]
    for module, optimizer in pair:
        plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, 5, cycle_momentum=False)
        learner = Party("alice", module, optimizer)
        for _ in range(4):
            silent(learner)
            plan.step()
    assert torch.equal(theirs[0].weight, ours[0].weight)
    lr = pair[0][1].param_groups[0]["lr"]
    again = copy.deepcopy(learner)
    assert again.optimizer.param_groups[0]["params"][0] is next(again.module.parameters())
    assert optimizer.state_dict() == again.optimizer.state_dict() == {"lr": lr} != {"lr": 0.1}


@pytest.mark.parametrize("make", [SGD, partial(torch.optim.SGD, momentum=0.9), torch.optim.Adam])
@pytest.mark.parametrize("later", ["unfrozen", "added"])
def test_what_learns_later_learns_as_without_a_party(make, later):
    """Weights that are unfrozen, or given to the optimizer, after the party was made."""
    x, y = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    ends = []
    for as_party in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        first, last = model
        first.requires_grad_(later == "added")
        optimizer = make(model.parameters() if later == "unfrozen" else last.parameters(), lr=0.1)
        party = Party("bob", model, optimizer, nn.CrossEntropyLoss())
        for step in range(6):
            if step == 2 and later == "unfrozen":
                first.requires_grad_(True)
            elif step == 2:
                optimizer.add_param_group({"params": list(first.parameters()), "lr": 0.05})
            if as_party:
                party.loss_and_grad(x, y)
            else:
                model.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert optimizer.state_dict() == saved


def test_a_replaced_layer_is_noticed_when_a_training_begins():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    bob = Party("bob", model, SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss())
    model[1] = nn.Linear(4, 5)
    alice = Party("alice", nn.Linear(3, 3))
    with pytest.raises(ValueError, match=r"moves 2 parameters .* replaced"):
        train_split([alice, bob], [], Channel())


def test_a_batch_of_which_nothing_counts_is_no_divergence():
    y = torch.full((4,), -100)
    with pytest.raises(ValueError, match="'bob': the loss ignores all targets of a batch"):
        Party("bob", nn.Linear(3, 2), loss_fn=nn.CrossEntropyLoss()).loss_and_grad(
            torch.ones(4, 3), y
        )
