"""A meter and codecs for torch's `DistributedDataParallel`, in code that exists already.

Here: a communication hook, one line in a training script. Not here: the package's own protocols
over torch.distributed (torch_distributed.py).
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from fltoolkit.channel import Channel
from fltoolkit.links import Link

__all__ = ["metered"]


def metered(channel: Channel) -> Callable[[None, dist.GradBucket], Future[Tensor]]:
    """A hook that sends each bucket of gradients as a real message, and counts it.

    ``model.register_comm_hook(None, metered(channel))`` is all. Each process encodes its bucket
    with the channel's codec for the kind ``update``, all processes gather all messages, and each
    computes the mean of what it decodes. So all of them hold the same gradients. A codec's memory,
    such as a residual, belongs to one process and one bucket. torch sorts its buckets anew after
    the first step; what a codec remembers of the first buckets is left behind then.

    The ledger of each process holds the messages of all: each is counted once for every other
    process, and ``channel.step`` counts steps. Without a codec gradients travel in float32.

    Raises the codec's error, such as ValueError for gradients that are not finite; then torch ends
    the step. Needs a process group whose backend carries tensors in main memory (gloo).
    """

    def hook(state: None, bucket: dist.GradBucket) -> Future[Tensor]:
        mine, size = dist.get_rank(), dist.get_world_size()
        flat = bucket.buffer()
        place = f"bucket {bucket.index()} of {flat.numel()} values"
        links = [Link(f"rank {rank}", place, "update") for rank in range(size)]
        tree = {"g": flat.detach().cpu()}
        messages = gathered(channel.links.codecs_of(links[mine]).sending.encode(tree))
        mean = torch.zeros_like(tree["g"])
        for rank, (link, message) in enumerate(zip(links, messages, strict=True)):
            mean += channel.decode(link, message)["g"] / size
            for other in range(size):
                if other != rank:
                    channel.count(Link(f"rank {rank}", f"rank {other}", "update"), message, tree)
        channel.step += bucket.is_last()
        done: Future[Tensor] = Future()
        done.set_result(flat.copy_(mean))
        return done

    return hook


def gathered(message: bytes) -> list[bytes]:
    """The messages of all processes, in the order of their ranks."""
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(message)]))
    longest = int(max(sizes))
    padded = torch.frombuffer(bytearray(message.ljust(longest, b"\0")), dtype=torch.uint8)
    rows = [torch.empty(longest, dtype=torch.uint8) for _ in sizes]
    dist.all_gather(rows, padded)
    return [row[: int(n)].numpy().tobytes() for row, n in zip(rows, sizes, strict=True)]
