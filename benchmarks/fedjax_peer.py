"""FedAvg by FedJAX in a process of its own: round_speed asks it for rounds and gets their seconds.

It runs in the environment that ``make peers`` makes, where there is jax and no torch. For each line
with a number it runs so many rounds, and prints the wall and CPU seconds of each as JSON.

    .venv-fedjax/bin/python -m benchmarks.fedjax_peer 2NN
"""

import json
import os
import sys
import time
from importlib.metadata import version
from typing import Any

# one thread, as all others; read when jax is imported
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["NPROC"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

NUM_CLIENTS, NUM_SAMPLES, BATCH, LR = 10, 100, 20, 0.1  # as in round_speed
SHAPES = {"2NN": (784,), "CNN": (28, 28, 1)}
WIDTHS = {"2NN": (784, 200, 200, 10), "CNN": (3136, 512, 10)}
Params = dict[str, Any]


def parameters(name: str) -> Params:
    rng = np.random.default_rng(0)

    def layer(*shape: int) -> Params:
        scale = np.prod(shape[:-1]) ** -0.5
        weight = rng.uniform(-scale, scale, shape).astype(np.float32)
        return {"w": jnp.asarray(weight), "b": jnp.zeros(shape[-1])}

    widths = WIDTHS[name]
    params = {f"linear{k}": layer(*widths[k : k + 2]) for k in range(len(widths) - 1)}
    if name == "CNN":
        params |= {"conv0": layer(5, 5, 1, 32), "conv1": layer(5, 5, 32, 64)}
    return params


def loss(params: Params, batch: dict[str, Any]) -> Any:
    x = batch["x"]
    for conv in sorted(part for part in params if part.startswith("conv")):
        kinds = ("NHWC", "HWIO", "NHWC")
        x = lax.conv_general_dilated(x, params[conv]["w"], (1, 1), "SAME", dimension_numbers=kinds)
        x = jax.nn.relu(x + params[conv]["b"])
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    layers = sorted(part for part in params if part.startswith("linear"))
    for layer in layers:
        x = x @ params[layer]["w"] + params[layer]["b"]
        x = jax.nn.relu(x) if layer != layers[-1] else jax.nn.log_softmax(x)
    return -jnp.take_along_axis(x, batch["y"][:, None], axis=1).mean()


def main(name: str) -> None:
    rng = np.random.default_rng(0)
    clients = []
    for k in range(NUM_CLIENTS):
        x = rng.normal(size=(NUM_SAMPLES, *SHAPES[name])).astype(np.float32)
        data = {"x": x, "y": rng.integers(0, 10, NUM_SAMPLES)}
        clients.append((str(k).encode(), fedjax.ClientDataset(data), jax.random.PRNGKey(k)))
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        lambda params, batch, _: jax.grad(loss)(params, batch),
        fedjax.optimizers.sgd(learning_rate=LR),
        fedjax.optimizers.sgd(learning_rate=1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=BATCH, num_epochs=1),
    )
    state = algorithm.init(parameters(name))
    print(json.dumps({part: version(part) for part in ("jax", "fedjax")}), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            wall, cpu = time.perf_counter(), time.process_time()
            state, _ = algorithm.apply(state, clients)
            jax.block_until_ready(state.params)
            seconds.append((time.perf_counter() - wall, time.process_time() - cpu))
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
