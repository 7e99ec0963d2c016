"""Models that were trained longer, so that one can read what they write; notebook 11 loads them.

    python -m experiments.language.readable    # about 15 minutes of one core

Each model is stored in fltoolkit_course/stored as one message: its weights in 8 bits, entropy
coded, so it is the size of a picture. Beside them stands models.json: what each run sent, its loss
before and after storing, its SHA-256 and the alphabet. Not here: reading them (course.stored).
"""

import hashlib
import json
from pathlib import Path

import torch

from experiments.language.data_parallel import TWO_BITS, Setting, trained
from experiments.language.task import Task, held_out, text_of
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit_course.stored import FOLDER, LIST
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.federated import AllGather
from fltoolkit_research.pooled import lossless

TASK = Task(text="topics", batch_size=8, steps=3000)
SEED = 0
STORE = Pipeline(Quantize(8), ContextEntropy())
RUNS = (
    Setting("Muon, every step, float32", "ddp", "Muon"),
    Setting("Muon, H = 10, 2 bits", optimizer="Muon", inner_steps=10, codecs=TWO_BITS),
    Setting("Muon, alone", "ddp", "Muon", exchange=AllGather(), workers=1),
)


def store(setting: Setting, folder: Path = FOLDER, task: Task = TASK) -> dict[str, object]:
    """Train, store the weights as a message, and return the entry of the list."""
    result, model = trained(task, setting, SEED)
    tree = {name: weight.detach() for name, weight in model.state_dict().items()}
    message = STORE.encode(tree)
    model.load_state_dict(STORE.decode(message))
    text = text_of(task.text)
    whole = len(lossless().encode({"text": text.train.to(torch.uint8)}))
    file = "".join(c if c.isalnum() else "_" for c in setting.name.lower()) + ".msg"
    (folder / file).write_bytes(message)
    kept = ("nats", "nbytes", "steps", "workers", "batch_size", "context", "layers", "width")
    return {
        "file": file,
        "sha256": hashlib.sha256(message).hexdigest(),
        **{name: result[name] for name in kept},
        "nats_as_stored": round(held_out(model, task), 4),
        "nbytes_text": whole,
        "text": task.text,
        "text_sha256": text.sha256,
        "alphabet": text.alphabet,
        "codec": repr(STORE),
        "command": "python -m experiments.language.readable",
        "torch": torch.__version__,
    }


def main() -> None:
    """The command line."""
    torch.set_num_threads(1)
    entries = {}
    for setting in RUNS:
        entries[setting.name] = entry = store(setting)
        print(f"{setting.name}: {entry['nats']} nats, {entry['nats_as_stored']} as stored")
    text = json.dumps(entries, indent=1, sort_keys=True)
    (FOLDER / LIST).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
