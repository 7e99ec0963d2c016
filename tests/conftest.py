"""Shared by all tests: one torch thread, and shapes that are checked."""

import torch
from jaxtyping import install_import_hook

# the shapes in these modules' signatures are checked while tests run; users never pay for it
CHECKED = [
    *("party", "evaluation", "data.datasets", "data.partitions", "data.batches"),
    *("split.chain", "split.vertical", "split.clients", "split.cache"),
    *("split.asynchronous", "split.uploads", "split.variants"),
    *("federated.fedavg", "federated.client", "federated._many_at_once"),
]
install_import_hook([f"fltoolkit.{name}" for name in CHECKED], "shape_checks.checker")

torch.set_num_threads(1)  # two gain little and stall on a busy machine: see docs/architecture.md
