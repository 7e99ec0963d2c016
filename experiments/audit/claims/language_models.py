"""Workers that train one language model: the runs of docs/language_results.md."""

from experiments.audit import rule
from experiments.audit.claim import (
    Claims,
    Finding,
    Runs,
    Verdict,
    factors,
    judged,
    on_seeds,
    spread,
    times,
)
from experiments.audit.measures import language

CLAIMS = Claims(group="language models")
HERE = "A transformer of 111,425 parameters on Shakespeare, 4 workers"
EVERY = "AdamW, every step, float32"
DEMO = "DeMo, 1 of 32 cosines"
LOCAL_ADAM = "Local Adam, H = 10, moments every 10, float32"
DES_LOC = "DES-LOC, H = 10, moments every 30 and 60, float32"
MEAN_FLOAT32 = "local AdamW, H = 10, mean, float32"
ALONE = "AdamW, one worker alone"
DILOCO = "DiLoCo, H = 10, float32"
MEAN_4_BITS = "local AdamW, H = 10, mean, 4 bits"
ONE = "AdamW, all tokens on one worker"
MUON = "Muon, every step, float32"
DION = "Dion, rank 4, 8 bits"
POWER = "PowerSGD, rank 4, 8 bits, AdamW"
MULOCO = "MuLoCo, H = 10, 2 bits"
MUON_ALONE = "Muon, one worker alone"
PAIRS = "NoLoCo, H = 10, pairs, float32"
SPARSE = "SparseLoCo, H = 10, top 2 %, 2 bits"
SPARTA = "SPARTA, 0.5 % of the values at every step, float32"
STREAMING = "Streaming DiLoCo, 2 x 5 steps, 4-bit floats"


def verdict(
    runs: Runs, name: str, reference: str, *, margin: float = rule.NATS, saved: float = 0
) -> Verdict:
    """At most a margin above the reference, and so many times fewer bytes if that is claimed."""
    answers = [rule.at_most(runs.nats(name, reference), margin)]
    if saved:
        answers.append(rule.saves(runs.fewer(name, reference), saved))
    return judged(*answers)


@CLAIMS.add(
    title="DeMo: 85 times less between accelerators than AdamW",
    says="Momentum stays with each worker, and only its fast parts, by a cosine transform, are "
    "exchanged: up to 85 times less than AdamW with a message at every step, at a comparable loss.",
    source="Peng et al. 2024, arXiv 2411.19870, abstract of version 2 (2026)",
    quote="This design reduces per-step communication by up to two orders of magnitude with "
    "minimal computational overhead. Experiments on 300M- and 1B-parameter DeMo language models "
    "show DeMo transmits up to 85× less data per GPU than AdamW-DDP while achieving comparable "
    "loss and accuracy.",
    quoted_from="abstract, arXiv 2411.19870v2 of 2026; version 1 of 2024 said several orders of "
    "magnitude",
    ours=f"{HERE}, 600 steps (docs/language_results.md).",
    lacks="The paper's chunks: our `demo` keeps cosines of each whole tensor.",
    **language(EVERY, DEMO),
)
def demo_2024(runs: Runs) -> Finding:
    """85 times less, and as good as AdamW."""
    words = (
        f"{runs.in_nats(DEMO, EVERY)} nats per character above AdamW with a message at every step "
        f"in float32, {on_seeds(runs)}. One cosine of 32 is kept of each tensor, in 16 bits, and "
        "goes from each worker to all others."
    )
    return Finding(verdict(runs, DEMO, EVERY, saved=85), words, *factors(runs, DEMO, EVERY))


@CLAIMS.add(
    title="DES-LOC: half of Local Adam's communication",
    says="Averaging the first moments every third time and the second moments every sixth halves "
    "what Local Adam sends, at its loss.",
    source="Iacob et al. 2025, arXiv 2505.22549, abstract; the periods as others quote them",
    quote="Through extensive experiments on language models of up to 1.7B, we show that DES-LOC "
    "can communicate 170x less than DDP and 2x less than the previous state-of-the-art Local ADAM.",
    ours=f"{HERE}, 600 steps, 10 between messages (docs/language_results.md).",
    **language(EVERY, LOCAL_ADAM, DES_LOC, MEAN_FLOAT32),
)
def des_loc_2025(runs: Runs) -> Finding:
    """Half of Local Adam's bytes, and as good as it."""
    fewer = runs.fewer(DES_LOC, LOCAL_ADAM)
    words = (
        f"{times(fewer)} times fewer bytes than Local Adam, at {runs.in_nats(DES_LOC, LOCAL_ADAM)} "
        f"nats per character, {on_seeds(runs)}. But moments that never travel cost "
        f"{times(runs.fewer(MEAN_FLOAT32, LOCAL_ADAM))} times fewer bytes, at "
        f"{runs.in_nats(MEAN_FLOAT32, LOCAL_ADAM)} nats. The factors of the table are those "
        "against Local Adam."
    )
    return Finding(verdict(runs, DES_LOC, LOCAL_ADAM, saved=2), words, times(fewer), times(fewer))


@CLAIMS.add(
    title="DiLoCo: as good as a message at every step, for 500 times less communication",
    says="With 8 workers on C4, 500 local steps of AdamW and Nesterov's momentum outside train as "
    "well as full synchrony, and communicate 500 times less.",
    source="Douillard et al. 2023, arXiv 2311.08105, abstract",
    quote="On the widely used C4 dataset, we show that DiLoCo on 8 workers performs as well as "
    "fully synchronous optimization while communicating 500 times less.",
    ours=f"{HERE}, 10 local steps (docs/language_results.md). Fewer local steps should make it "
    "easier.",
    version=2,
    **language(EVERY, ALONE, DILOCO, MEAN_4_BITS),
)
def diloco_2023(runs: Runs) -> Finding:
    """As good as a message at every step, with ten local steps."""
    words = (
        f"{runs.in_nats(DILOCO, EVERY)} nats per character above a message at every step, "
        f"{on_seeds(runs)}; a worker alone, which sends nothing, is {runs.in_nats(ALONE, EVERY)} "
        "above it, and the plain mean of the same steps in 4 bits "
        f"{runs.in_nats(MEAN_4_BITS, EVERY)}. 600 steps from scratch are far from the paper's "
        "regime."
    )
    fewer = times(runs.fewer(DILOCO, EVERY))
    return Finding(verdict(runs, DILOCO, EVERY), words, fewer, fewer)


LOCAL = (DILOCO, STREAMING, SPARSE, MEAN_4_BITS)


@CLAIMS.add(
    title="None of twelve DiLoCo settings reached the loss of the reference",
    says="DiLoCo with 1, 8, 32 and 128 local steps, at three bandwidths, ended at losses of 8.11 "
    "to 8.65 after 400,000 tokens, where a single graphics card with AdamW reached 7.35. The "
    "bandwidth changes no loss, and each setting has one seed, as the source says.",
    source="Adnan082/diloco-measured, README at commit 07b7885, August 2026",
    known="read",
    quote="Honest result: none of the 12 DiLoCo configurations reached `L*` (7.352) within the "
    "token budget — final losses clustered 8.11–8.65 versus the reference's 7.35.",
    quoted_from="README at commit 07b7885",
    ours="Four settings with AdamW inside, 600 steps from scratch (docs/language_results.md). With "
    "Muon inside, local steps are below AdamW's loss, and above Muon's own.",
    version=3,
    **language(EVERY, ONE, *LOCAL),
)
def diloco_measured_2026(runs: Runs) -> Finding:
    """Other settings than theirs: what they lose is shown."""
    found = {name: runs.nats(name, ONE) for name in (EVERY, *LOCAL)}
    listed = ", ".join(f"{name} {spread(more, '+.3f')}" for name, more in found.items())
    words = (
        "Nats per character above one worker that learns from as many characters, in four times as "
        f"many steps, {on_seeds(runs)}: {listed}. None of the four settings reaches it, nor does a "
        "message at every step. The source says so of its own settings, and nothing about ours."
    )
    return Finding(Verdict.UNTESTED, words)


@CLAIMS.add(
    title="Dion: orthonormal steps without sending whole matrices",
    says="Orthonormal updates of low rank need no full gradients, give numerically the same, and "
    "balance quality with cost.",
    source="Ahn et al. 2025, arXiv 2504.05295v2 and v3, abstracts, and microsoft/dion",
    quote="The rank-fraction parameter with error feedback enables low-rank updates that balance "
    "quality with significant cost savings.",
    quoted_from="abstract, arXiv 2504.05295v3; version 2 also said: “eliminating the need for full "
    "gradient synchronization while producing numerically equivalent results”",
    ours=f"{HERE}, 600 steps, rank 4 of 64, 8 bits both ways (docs/language_results.md).",
    lacks="A learning rate of its own: it has Muon's, without a trial.",
    **language(EVERY, MUON, DION, POWER),
)
def dion_2025(runs: Runs) -> Finding:
    """As good as Muon, whose matrices travel whole."""
    fewer = runs.fewer(DION, MUON)
    words = (
        f"{runs.in_nats(DION, MUON)} nats per character against Muon with whole matrices in "
        f"float32, {runs.in_nats(DION, EVERY)} against AdamW, {on_seeds(runs)}; PowerSGD with the "
        f"same rank and bits has {runs.in_nats(POWER, EVERY)}. A test of the package holds the "
        "other half of the sentence: narrow means give the steps of the whole mean gradient."
    )
    return Finding(verdict(runs, DION, MUON), words, times(fewer), times(fewer))


@CLAIMS.add(
    title="MuLoCo: 8 times less than DiLoCo with AdamW",
    source="Thérien et al. 2025, arXiv 2505.23725, abstract",
    quote="Our experiments pre-training decoder-only transformer language models (LMs) reveal that "
    "leveraging Muon as the inner optimizer for DiLoCo along with an error-feedback accumulator "
    "allows to aggressively compress the communicated delta to 2-bits with next to no performance "
    "degradation. Crucially, MuLoCo (Muon inner optimizer DiLoCo) significantly outperforms DiLoCo "
    "while communicating 8X less and having identical memory complexity.",
    quoted_from="abstract, arXiv 2505.23725v1; the abstracts of 2026 no longer say it",
    ours=f"{HERE}, 10 local steps, 600 steps (docs/language_results.md), 2 bits and an entropy "
    "coder both ways.",
    **language(EVERY, DILOCO, MULOCO, MUON_ALONE),
)
def muloco_2025(runs: Runs) -> Finding:
    """Eight times less than DiLoCo, and better than it."""
    fewer = runs.fewer(MULOCO, DILOCO)
    words = (
        f"{runs.in_nats(MULOCO, DILOCO)} nats per character against DiLoCo with AdamW, at "
        f"{times(fewer)} times fewer bytes than it, {on_seeds(runs)}; "
        f"{runs.in_nats(MULOCO, EVERY)} against AdamW with a message at every step. A worker alone "
        f"with Muon, who sends nothing, has {runs.in_nats(MUON_ALONE, MULOCO)} against MuLoCo. The "
        "factors of the table are those against DiLoCo."
    )
    return Finding(
        verdict(runs, MULOCO, DILOCO, margin=0.0, saved=8), words, *factors(runs, MULOCO, DILOCO)
    )


@CLAIMS.add(
    title="NoLoCo: less communication than DiLoCo, without an all-reduce",
    source="Kolehmainen et al. 2025, arXiv 2506.10911, abstract and the code of an author",
    quote="Our method requires significantly less communication overhead than fully sharded data "
    "parallel training or even widely used low communication training method, DiLoCo.",
    quoted_from="abstract, arXiv 2506.10911v1",
    ours=f"{HERE}, 600 steps, 10 between messages, the authors' outer rate 0.7 and momentum 0.5 "
    "(docs/language_results.md). The model that is tested is one worker's. Theirs sends weights "
    "and updates, ours their sum: half of it.",
    **language(EVERY, DILOCO, MEAN_FLOAT32, PAIRS),
)
def noloco_2025(runs: Runs) -> Finding:
    """Half of DiLoCo's bytes, which is what pairs save, and as good as it."""
    fewer = runs.fewer(PAIRS, DILOCO)
    words = (
        f"{times(fewer)} times fewer bytes than DiLoCo through a server, at "
        f"{runs.in_nats(PAIRS, DILOCO)} nats per character, {on_seeds(runs)}: partners exchange "
        "weights, where a server sends as much back as it gets. A plain mean of all workers has "
        f"{runs.in_nats(MEAN_FLOAT32, DILOCO)} against DiLoCo. The factors of the table are those "
        "against DiLoCo. The claim is also about waiting, which bytes do not show."
    )
    return Finding(verdict(runs, PAIRS, DILOCO, saved=2), words, "", times(fewer))


@CLAIMS.add(
    title="DiLoCo can be better than a message at every step, even at small sizes",
    source="Charles et al. 2025, arXiv 2503.09799, abstract",
    quote="When well-tuned, DiLoCo scales better than data-parallel training with model size, and "
    "can outperform data-parallel training even at small model sizes.",
    ours=f"{HERE}, 10 local steps, 600 steps (docs/language_results.md). How it grows with the "
    "model cannot be tested here.",
    lacks="The tuning on which the sentence depends: four trials of the learning rate for each of "
    "the two found the rates used here, but the outer rate, its momentum and the number of local "
    "steps have no trials.",
    **language(EVERY, DILOCO),
)
def scaling_diloco_2025(runs: Runs) -> Finding:
    """Better, by any margin."""
    words = (
        f"{runs.in_nats(DILOCO, EVERY)} nats per character above a message at every step, "
        f"{on_seeds(runs)}. Their smallest model has 35 million parameters, ours has 111,425."
    )
    return Finding(verdict(runs, DILOCO, EVERY, margin=0.0), words)


@CLAIMS.add(
    title="SparseLoCo: 1 to 3 % of the values in 2 bits are better than all of them",
    source="Sarfi et al. 2025, arXiv 2508.15706, abstract",
    quote="In this work, we introduce SparseLoCo, a communication-efficient training algorithm for "
    "LLMs that effectively leverages Top-k sparsification and quantization to reach extreme "
    "compression ratios of up to 1-3% sparsity and 2-bit quantization while outperforming "
    "full-precision DiLoCo.",
    quoted_from="abstract, arXiv 2508.15706v1",
    ours="4 workers on Shakespeare, 10 local steps, 600 steps (docs/language_results.md).",
    lacks="The paper's chunks of 4,096 values: the largest 2 % are those of the whole model.",
    version=2,
    **language(EVERY, DILOCO, SPARSE),
)
def sparseloco_2025(runs: Runs) -> Finding:
    """Better than DiLoCo."""
    words = (
        f"{runs.in_nats(SPARSE, DILOCO)} nats per character against DiLoCo, at "
        f"{times(runs.fewer(SPARSE, DILOCO))} times fewer bytes than it, {on_seeds(runs)}."
    )
    return Finding(verdict(runs, SPARSE, DILOCO, margin=0.0), words, *factors(runs, SPARSE, EVERY))


@CLAIMS.add(
    title="SPARTA: fewer bytes than DiLoCo, by random values at every step",
    source="Beton et al. 2025, openreview.net/forum?id=stFPf3gzq1, as its abstract stands on the "
    "page of an author, and exo-explore/gym",
    quote="Our experiments demonstrate that SPARTA outperforms state-of-the-art federated learning "
    "methods such as DiLoCo in both bandwidth efficiency and practical robustness.",
    quoted_from="abstract, as it stands on the page of an author, mattreed.com",
    ours=f"{HERE}, 600 steps, 0.5 % of the values, as in exo-gym (docs/language_results.md). The "
    "model that is tested is one worker's. The places are drawn from a shared seed and cost "
    "nothing.",
    **language(EVERY, DILOCO, ALONE, SPARTA),
)
def sparta_2025(runs: Runs) -> Finding:
    """Fewer bytes than DiLoCo, and as good as it."""
    more, fewer = runs.nats(SPARTA, DILOCO), runs.fewer(SPARTA, DILOCO)
    words = (
        f"{times(fewer)} times fewer bytes than DiLoCo with 10 steps between messages, at "
        f"{runs.in_nats(SPARTA, DILOCO)} nats per character, {on_seeds(runs)}. A worker alone, "
        f"which sends nothing, has {runs.in_nats(ALONE, DILOCO)}. The factors of the table are "
        "those against DiLoCo; DiLoCo with more steps between messages was not compared."
    )
    verdict = judged(rule.at_most(more, rule.NATS), rule.saves(fewer, 1, share=1))
    return Finding(verdict, words, times(fewer), times(fewer))


@CLAIMS.add(
    title="Streaming DiLoCo: parts in turn and in 4 bits, at the quality of DiLoCo",
    source="Douillard et al. 2025, arXiv 2501.18512, abstract",
    quote="First, we synchronize only subsets of parameters in sequence, rather than all at once, "
    "which greatly reduces peak bandwidth. Second, we allow workers to continue training while "
    "synchronizing, which decreases wall clock time. Third, we quantize the data exchanged by "
    "workers, which further reduces bandwidth across workers.",
    ours="Two parts, 5 steps each, 4 workers, on Shakespeare, 600 steps "
    "(docs/language_results.md).",
    version=2,
    **language(EVERY, DILOCO, STREAMING),
)
def streaming_diloco_2025(runs: Runs) -> Finding:
    """As good as DiLoCo."""
    words = (
        f"{runs.in_nats(STREAMING, DILOCO)} nats per character above DiLoCo, {on_seeds(runs)}. The "
        "factors are against a message at every step; DiLoCo has "
        f"{times(runs.fewer(DILOCO, EVERY))}. The claim is about the peak of the bandwidth, which "
        "a sum of bytes does not show."
    )
    return Finding(verdict(runs, STREAMING, DILOCO), words, *factors(runs, STREAMING, EVERY))
