import torch
from torch import nn

from fltoolkit.models import splitnn_mlp
from fltoolkit.party import SGD, Party

LR = 0.05


def small_net(seed=0, dropout=True):
    """Everything that behaves differently in training: BatchNorm and Dropout on both sides."""
    torch.manual_seed(seed)
    p = 0.3 if dropout else 0.0
    return nn.Sequential(
        nn.Linear(12, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Dropout(p),
        nn.Linear(16, 10),
        nn.BatchNorm1d(10),
        nn.Tanh(),
        nn.Dropout(p),
        nn.Linear(10, 3),
        nn.LogSoftmax(dim=1),
    )


def toy_data(n=50, features=12, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=generator)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()


def party(name, module, loss_fn=None, optimizer=torch.optim.SGD):
    has_params = any(True for _ in module.parameters())
    return Party(
        name, module, optimizer(module.parameters(), lr=LR) if has_params else None, loss_fn
    )


def unsplit(model, batches, optimizer):
    """The reference: ordinary training of the whole network."""
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def assert_equal_weights(model, reference):
    for (name, a), b in zip(
        model.state_dict().items(), reference.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), f"{name} differs by {(a - b).abs().max()}"


def seed_parties(num_features=784):
    model = splitnn_mlp(num_features, seed=0)
    return [
        Party("alice", model[:4], SGD(model[:4].parameters(), lr=0.03)),
        Party("bob", model[4:], SGD(model[4:].parameters(), lr=0.03), nn.NLLLoss()),
    ]
