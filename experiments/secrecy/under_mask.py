"""What entropy coding and each client's own top-k are worth under a mask: measured, in bytes."""

import numpy as np
import torch

from experiments.replications.zstandard import Zstd
from experiments.runs import Result
from experiments.secrecy.run import dataset, network
from experiments.secrecy.settings import TASKS, grid
from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit.data import partition_iid
from fltoolkit.federated import Fleet, Local
from fltoolkit.federated.client import sent_entries
from fltoolkit.federated.workers import Workers
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.leakage import Listener
from fltoolkit_research.secrecy import Grid, bits_of_sum, secure_sum
from fltoolkit_research.secrecy.parties import unpack_bits
from fltoolkit_research.secrecy.summing import Summed


def under_mask(task_name: str, num_clients: int = 10, seed: int = 0) -> Result:
    """Bits per value of one real update, in several forms; the clear ones first."""
    task = TASKS[task_name]
    data = dataset(task.data)
    shares = partition_iid(data.y_train, 100, seed=seed)[:num_clients]
    rows = [share[: task.num_images] for share in shares]
    clients = {f"client {k}": (data.x_train[r], data.y_train[r]) for k, r in enumerate(rows)}
    model = network(data, task.num_hidden, seed)
    local = Local(task.batch_size, lr=task.lr, steps=task.steps)
    team = Workers(model, Fleet(clients), local, seed)
    updates = team.learn(Channel(), dict.fromkeys(clients, sent_entries(model)), 0)
    trees = [u.delta for u in updates.values() if not isinstance(u, FloatingPointError)]
    flat = [torch.cat([t.flatten() for t in tree.values()]) for tree in trees]
    num_values, first = len(flat[0]), trees[0]

    def bits_per_value(nbytes: int) -> float:
        return 8 * nbytes / num_values

    summed = Summed(grid(task, 2), num_values, round_=1)
    width = bits_of_sum(num_clients, summed.num_levels)
    listener = Listener(kinds=["masked"])
    names = list(clients)
    vectors = {
        n: summed.numbers(v, salt=k) for k, (n, v) in enumerate(zip(names, flat, strict=True))
    }
    secure_sum(listener, "server", vectors, bits=width)
    hidden = unpack_bits(listener.heard[0].tree["y"].numpy(), width, summed.num_numbers)

    places = [v.abs().topk(num_values // 100).indices.sort().values for v in flat]
    kept = [set(i.tolist()) for i in places]
    union = set.union(*kept)
    sparse = Listener()
    tops = [
        torch.zeros(num_values).index_copy(0, i, v[i]) for v, i in zip(flat, places, strict=True)
    ]
    plain = Summed(Pipeline(Grid(2, top=float(flat[0].abs().max()))), num_values, round_=1)
    vectors = {
        n: plain.numbers(v, salt=k) for k, (n, v) in enumerate(zip(names, tops, strict=True))
    }
    secure_sum(sparse, "server", vectors, bits=width)
    sparse_nbytes = sparse.nbytes(sender=names[0], kind="masked")
    found = {
        "2 bits, clear": bits_per_value(len(Pipeline(Quantize(2)).encode(first))),
        "2 bits and Entropy, clear": bits_per_value(
            len(Pipeline(Quantize(2), ContextEntropy()).encode(first))
        ),
        "top 1 % and Entropy, clear": bits_per_value(
            len(Pipeline(TopK(0.01), ContextEntropy()).encode(first))
        ),
        f"2 bits, masked: {width} bits of the sum": bits_per_value(
            listener.nbytes(sender=names[0], kind="masked")
        ),
        "the same after Zstd": bits_per_value(len(_zstd(hidden))),
        "entropy of the masked numbers": _entropy(hidden),
        "own top 1 %, zeros elsewhere, masked": bits_per_value(sparse_nbytes),
        "own top 1 %, places in the clear and masked values of all clients' places": (
            bits_per_value(_nbytes_of_places(len(kept[0]), num_values))
            + width * len(union) / num_values
        ),
        "share of all places in somebody's top 1 %": len(union) / num_values,
    }
    return {"what": "under mask", "found": found}


def _zstd(numbers: np.ndarray) -> bytes:
    """Bytes, one number in two of them; what Zstd makes of them."""
    symbols = torch.from_numpy(numbers.astype(np.int64)).float()
    return Pipeline(Quantize(8), Zstd()).encode({"y": symbols})


def _entropy(numbers: np.ndarray) -> float:
    """Bits per number, if independent."""
    shares = np.unique(numbers, return_counts=True)[1] / len(numbers)
    return float(-(shares * np.log2(shares)).sum())


def _nbytes_of_places(count: int, n: int) -> int:
    """Of a message that holds this many random places of n, and no values."""
    random = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:count]
    ones = torch.zeros(n).index_fill(0, random, 1.0)
    return len(Pipeline(TopK(count / n)).encode({"w": ones})) - 4 * count
