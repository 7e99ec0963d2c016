"""A job of NVFlare with the meter, in its simulator: docs/meter_nvflare.md has what it prints.

    pip install fltoolkit nvflare
    python examples/nvflare_meter/job.py 8     # bits of a value; without: float32, only counted

NVFlare 2.9 starts no process from an environment in a path with a space.

What was added to a job that knew nothing of bytes ends with ``# meter``.
"""

import sys
from pathlib import Path

from model import Net
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe import SimEnv

from fltoolkit_engines.nvflare_meter import meter  # meter

script = str(Path(__file__).with_name("client.py"))
recipe = FedAvgRecipe(name="metered", model=Net(), min_clients=3, num_rounds=5, train_script=script)
meter(recipe, *map(int, sys.argv[1:]))  # meter
recipe.run(SimEnv(num_clients=3))
