"""How many bits per value Flower's SecAgg+ really sends: its own client code, and a server's part.

    .venv-flower/bin/python -m experiments.secrecy.flower_secagg    # after `make flower`

Ten clients go through the four stages of ``secaggplus_mod`` with the default settings of
``SecAggPlusWorkflow``. Each reply is turned into bytes by Flower's own serializer and counted. The
sum is unmasked by nobody: this is about what clients send.
"""

import inspect
from importlib.metadata import version
from typing import Any

import numpy as np

NUM_VALUES, NUM_CLIENTS = 25_450, 10


def main() -> None:
    """Print bytes per client and stage, and bits per value."""
    for dtype in (np.float32, np.int8):
        sent = bytes_by_stage(dtype)
        bits = 8 * sent["collect_masked_vectors"] / NUM_VALUES
        print(f"flwr {version('flwr')}, {NUM_VALUES:,} values of {np.dtype(dtype).name}: {sent}")
        print(f"bits per value in the masked message: {bits:.2f}")


def bytes_by_stage(dtype: Any) -> dict[str, float]:
    """Bytes of a client's reply in each stage, the mean of all clients."""
    from flwr.common import Context, RecordDict
    from flwr.common.secure_aggregation.secaggplus_constants import Key, Stage
    from flwr.server.workflow import SecAggPlusWorkflow

    given = inspect.signature(SecAggPlusWorkflow).parameters
    setup = {
        Key.SAMPLE_NUMBER: NUM_CLIENTS,
        Key.SHARE_NUMBER: NUM_CLIENTS,
        Key.THRESHOLD: 7,
        Key.CLIPPING_RANGE: given["clipping_range"].default,
        Key.TARGET_RANGE: given["quantization_range"].default,
        Key.MOD_RANGE: given["modulus_range"].default,
        Key.MAX_WEIGHT: given["max_weight"].default,
    }
    sent, ids = {}, range(1, NUM_CLIENTS + 1)
    contexts = {k: Context(0, k, {}, RecordDict(), {}) for k in ids}
    configs = dict.fromkeys(ids, setup)
    for stage in Stage.all():
        replies, sizes = {}, []
        for node in ids:
            config = {Key.STAGE: stage, **configs[node]}
            replies[node], nbytes = _reply(node, config, contexts, dtype)
            sizes.append(nbytes)
        sent[stage] = sum(sizes) / NUM_CLIENTS
        configs = {node: _next(stage, node, replies) for node in ids}
    return sent


def _reply(node: int, configs: dict[str, Any], contexts: dict[int, Any], dtype: Any) -> Any:
    """What the client's code answers to a stage, and how many bytes that is."""
    from flwr.client.mod import secaggplus_mod
    from flwr.common import (
        Code,
        ConfigRecord,
        FitRes,
        Message,
        RecordDict,
        Status,
        ndarrays_to_parameters,
    )
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
    from flwr.common.serde import recorddict_to_proto
    from flwr.compat.common import recorddict_compat as compat
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 0  # who asks
    content = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord(configs)})
    message = Message(content, dst_node_id=node, message_type="train")

    def trained(asked: Any, context: Any) -> Any:
        values = np.random.default_rng(node).integers(-1, 2, NUM_VALUES).astype(dtype)
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([values]), 300, {})
        return Message(compat.fitres_to_recorddict(result, False), reply_to=asked)

    out = secaggplus_mod(message, contexts[node], trained).content
    nbytes = len(recorddict_to_proto(out).SerializeToString())
    return dict(out.config_records[RECORD_KEY_CONFIGS]), nbytes


def _next(stage: str, node: int, replies: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """What the server sends a client in the next stage."""
    from flwr.common.secure_aggregation.secaggplus_constants import Key, Stage

    if stage == Stage.SETUP:
        return {str(k): [r[Key.PUBLIC_KEY_1], r[Key.PUBLIC_KEY_2]] for k, r in replies.items()}
    if stage == Stage.SHARE_KEYS:
        mine = {
            k: r[Key.CIPHERTEXT_LIST][r[Key.DESTINATION_LIST].index(node)]
            for k, r in replies.items()
            if k != node
        }
        return {Key.CIPHERTEXT_LIST: [*mine.values()], Key.SOURCE_LIST: [*mine]}
    return {Key.ACTIVE_NODE_ID_LIST: [*replies], Key.DEAD_NODE_ID_LIST: []}


if __name__ == "__main__":
    main()
