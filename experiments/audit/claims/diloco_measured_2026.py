"""Whether local steps reach the loss of a message at every step."""

from experiments.audit.claim import Claim, Finding, Runs, Verdict, on_seeds, spread, untested
from experiments.audit.measures import language

EVERY = "AdamW, every step, float32"
LOCAL = (
    "DiLoCo, H = 10, float32",
    "Streaming DiLoCo, 2 x 5 steps, 4-bit floats",
    "SparseLoCo, H = 10, top 2 %, 2 bits",
    "local AdamW, H = 10, mean, 4 bits",
)
STORED = language(EVERY, *LOCAL)


def judge(runs: Runs) -> Finding:
    """Other settings than theirs: what they lose is shown."""
    found = {name: runs.nats(name, EVERY) for name in LOCAL}
    listed = ", ".join(f"{name} {spread(more, '+.3f')}" for name, more in found.items())
    words = (
        f"Nats per character above a message at every step, {on_seeds(runs)}: {listed}. None of "
        "the four is as good as it. But the source speaks of its own twelve settings, which we "
        "know from others only, and says nothing about ours."
    )
    return Finding(Verdict.SHOWN, words)


CLAIM = Claim(
    title="None of twelve DiLoCo settings reached the loss of the reference",
    group="language models",
    says="A public measurement of twelve settings found losses of 8.11 to 8.65 where a message at "
    "every step reached 7.35.",
    source="repository Adnan082/diloco-measured, 2026",
    known="quoted",
    ours="Four settings with AdamW inside, 600 steps from scratch (docs/language_results.md). With "
    "Muon inside, local steps are below AdamW's loss, and above Muon's own.",
    judge=judge if STORED["seeds"] else untested("The settings have not been run."),
    version=2,
    **STORED,
)
