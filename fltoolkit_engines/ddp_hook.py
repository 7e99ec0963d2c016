"""A meter and codecs for torch's `DistributedDataParallel`: one line in a script that you have.

Not here: the package's own protocols over torch.distributed (torch_distributed.py).
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.futures import Future

from fltoolkit.channel import Channel
from fltoolkit.links import Link

__all__ = ["metered"]


def metered(channel: Channel) -> Callable[[None, dist.GradBucket], Future[torch.Tensor]]:
    """A hook that sends each bucket of gradients as a real message, and counts it.

    ``model.register_comm_hook(None, metered(channel))`` is all. Each process encodes its bucket
    with the channel's codec for the kind ``update``, gathers all messages, and computes the mean of
    what it decodes, so all hold the same gradients. A codec's memory, such as a residual, belongs
    to one process and one bucket; torch sorts its buckets anew after the first step, and what a
    codec remembers of the first ones is left behind then.

    The ledger of each process holds the messages of all, each counted once for every other process;
    ``channel.step`` counts steps. Without a codec gradients travel in float32. The backend must
    carry tensors in main memory (gloo). An error of a codec, as for NaN, ends the step.
    """

    def hook(state: None, bucket: dist.GradBucket) -> Future[torch.Tensor]:
        flat = bucket.buffer()
        place = f"bucket {bucket.index()} of {flat.numel()} values"
        links = [Link(f"rank {k}", place, "update") for k in range(dist.get_world_size())]
        tree = {"g": flat.detach().cpu()}
        mine = channel.links.codecs_of(links[dist.get_rank()]).sending.encode(tree)
        mean = torch.zeros_like(tree["g"])
        for link, message in zip(links, gathered(mine), strict=True):
            mean += channel.decode(link, message)["g"] / len(links)
            for other in links:
                if other != link:
                    channel.count(Link(link.sender, other.sender, "update"), message, tree)
        channel.step += bucket.is_last()
        done: Future[torch.Tensor] = Future()
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
