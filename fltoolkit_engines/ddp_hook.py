"""A meter and codecs for scripts of torch.distributed that you have: one line in each.

Not here: the package's own protocols over torch.distributed (torch_distributed.py).
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.futures import Future

from fltoolkit.channel import Channel
from fltoolkit.links import Link
from fltoolkit.trees import Tree

__all__ = ["averaged", "metered"]


def metered(channel: Channel) -> Callable[[None, dist.GradBucket], Future[torch.Tensor]]:
    """For ``model.register_comm_hook(None, metered(channel))``: each bucket is `averaged`.

    The codec is that of the kind ``update``. Its memory, such as a residual, belongs to a process
    and a bucket; torch sorts its buckets anew after the first step, and what is remembered of the
    first ones is left behind. An error of a codec, as for NaN, ends the step.
    """

    def hook(state: None, bucket: dist.GradBucket) -> Future[torch.Tensor]:
        flat = bucket.buffer()
        place = f"bucket {bucket.index()} of {flat.numel()} values"
        done: Future[torch.Tensor] = Future()
        done.set_result(flat.copy_(averaged(channel, {"g": flat}, "update", place)["g"]))
        channel.step += bucket.is_last()
        return done

    return hook


def averaged(channel: Channel, tree: Tree, kind: str = "model", place: str = "all") -> Tree:
    """The mean of the ``state_dict``s of all processes, each sent as a real message and counted.

    All processes gather and decode the same messages, so all hold the same mean, and a ledger of
    all, in which each message counts once for every other process. The backend must carry tensors
    in main memory (gloo). A codec with a memory has one for each ``kind`` and ``place``.
    """
    links = [Link(f"rank {k}", place, kind) for k in range(dist.get_world_size())]
    total: Tree = {}
    tree = {name: value.detach().cpu() for name, value in tree.items()}
    own = channel.links.codecs_of(links[dist.get_rank()]).sending.encode(tree)
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in links]
    dist.all_gather(sizes, torch.tensor([len(own)]))
    padded = bytearray(own.ljust(int(max(sizes)), b"\0"))  # all_gather needs equal lengths
    rows = [torch.empty(len(padded), dtype=torch.uint8) for _ in links]
    dist.all_gather(rows, torch.frombuffer(padded, dtype=torch.uint8))
    for link, row, size in zip(links, rows, sizes, strict=True):
        message = row[: int(size)].numpy().tobytes()
        for name, value in channel.decode(link, message).items():
            total[name] = total.get(name, 0) + value.double()
        for k in {*range(len(links))} - {links.index(link)}:
            channel.count(Link(link.sender, f"rank {k}", kind), message, tree)
    return {name: (total[name] / len(links)).to(value.dtype) for name, value in tree.items()}
