"""The sentences that claims stand on, word by word, each with its address.

A claim without one here says why, by how it is known (`WHY_NOT`). A no is said
only of what is printed; what was read in a source code alone cannot be tested. A test holds both.
"""

from typing import NamedTuple


class Quote(NamedTuple):
    """A printed sentence, or a few in succession, and where they stand."""

    words: str
    where: str


CHEN = Quote(
    "Simulation results on VGG11, VGG13 and ResNet18 models on CIFAR-10 show that the "
    "communication cost is reduced by 1.64x-106.7x and the computations in the client are reduced "
    "by 2.86x-32.1x when the accuracy degradation is less than 0.5% for the single-client case. "
    "For 5 and 10-client cases, the communication cost reduction is 11.9x and 11.3x on VGG11 for "
    "0.5% loss in accuracy.",
    "abstract, arXiv 2107.09786",
)
AQ_SGD = Quote(
    "We evaluated AQ-SGD to fine-tune language models with up to 1.5 billion parameters, "
    "compressing activation to 2-4 bits. AQ-SGD provides up to 4.3x end-to-end speed-up in slower "
    "networks, without sacrificing model quality.",
    "abstract, NeurIPS 2022",
)
AVERAGING = Quote(
    "Communication costs are the principal constraint, and we show a reduction in required "
    "communication rounds by 10–100× as compared to synchronized stochastic gradient descent.",
    "abstract, arXiv 1602.05629; the rounds of this claim are figures of a table",
)
SPLITCOM = Quote(
    "SplitCom reduces uplink communication costs by up to 98.6 % in its standard configuration and "
    "total communication costs by up to 95.8 % in its U-shape variant without noticeably "
    "compromising model performance.",
    "abstract, arXiv 2602.10564v1",
)

QUOTES = {
    "aq-sgd-2022": AQ_SGD,
    "aq-sgd-2022-language": AQ_SGD,
    "c3-sl-2022": Quote(
        "Based on the simulation results on CIFAR-10 and CIFAR-100, our method achieves a 16x "
        "compression ratio with negligible accuracy drops compared with the vanilla SL. Moreover, "
        "C3-SL significantly reduces 1152x memory and 2.25x computation overhead compared to the "
        "state-of-the-art dimension-wise compression method.",
        "abstract, arXiv 2207.12397",
    ),
    "chen-2021": CHEN,
    "chen-2021-cifar10": CHEN,
    "chen-2021-clients": CHEN,
    "covenant-2026": Quote(
        "We developed SparseLoCo, which compresses gradient communication by over 146x. Each peer "
        "transmits 1.56% of a full gradient per round using top-k sparsification, 2-bit "
        "quantization, and error feedback.",
        "an author, Hacker News, item 47335107",
    ),
    "dadaquant-2021": Quote(
        "Our experiments show that DAdaQuant consistently improves client→server compression, "
        "outperforming the strongest non-adaptive baselines by up to 2.8×.",
        "abstract, arXiv 2111.00465",
    ),
    "demo-2024": Quote(
        "This design reduces per-step communication by up to two orders of magnitude with minimal "
        "computational overhead. Experiments on 300M- and 1B-parameter DeMo language models show "
        "DeMo transmits up to 85× less data per GPU than AdamW-DDP while achieving comparable loss "
        "and accuracy.",
        "abstract, arXiv 2411.19870v2 of 2026; version 1 of 2024 said several orders of magnitude",
    ),
    "des-loc-2025": Quote(
        "Through extensive experiments on language models of up to 1.7B, we show that DES-LOC can "
        "communicate 170x less than DDP and 2x less than the previous state-of-the-art Local ADAM.",
        "abstract, arXiv 2505.22549",
    ),
    "diloco-2023": Quote(
        "On the widely used C4 dataset, we show that DiLoCo on 8 workers performs as well as fully "
        "synchronous optimization while communicating 500 times less.",
        "abstract, arXiv 2311.08105",
    ),
    "dion-2025": Quote(
        "The rank-fraction parameter with error feedback enables low-rank updates that balance "
        "quality with significant cost savings.",
        "abstract, arXiv 2504.05295v3; version 2 also said: “eliminating the need for full "
        "gradient synchronization while producing numerically equivalent results”",
    ),
    "ef-signsgd-2019": Quote(
        "We prove that our algorithm EF-SGD with arbitrary compression operator achieves the same "
        "rate of convergence as SGD without any additional assumptions. Thus EF-SGD achieves "
        "gradient compression for free. Our experiments thoroughly substantiate the theory and "
        "show that error-feedback improves both convergence and generalization.",
        "abstract, arXiv 1901.09847",
    ),
    "fedbiomed-noise": Quote(
        "when using CDP, noise is added both after local training and central aggregation (via "
        "calling of `after_training_params()` which calls `_postprocess_dp`)",
        "a maintainer, fedbiomed/fedbiomed, issue 1443, September 2025",
    ),
    "fedbuff-2022": Quote(
        "We empirically demonstrate that FedBuff is 3.3x more efficient than synchronous FL and up "
        "to 2.5x more efficient than asynchronous FL, while being compatible with "
        "privacy-preserving technologies such as Secure Aggregation and differential privacy.",
        "abstract, AISTATS 2022",
    ),
    "fedpm-2023": Quote(
        "We show improvements in accuracy, communication (less than 1 bit per parameter (bpp)), "
        "convergence speed, and final model size (less than 1 bpp) over relevant baselines on "
        "MNIST, EMNIST, CIFAR-10, and CIFAR-100 datasets, in the low bitrate regime.",
        "abstract, ICLR 2023",
    ),
    "fl-bench-scaffold": Quote(
        "However, for CIFAR-10, the performance of the three algorithms is not significantly "
        "different. According to the Scaffold paper, Scaffold should perform better than FedAvg "
        "and FedProx in non-IID settings.",
        "a user, KarhouTam/FL-bench, issue 150, January 2025",
    ),
    "flower-iid-partitioner": Quote(
        "Partitioner creates each partition sampled randomly from the dataset.",
        "flower.ai/docs/datasets/ref-api/flwr_datasets.partitioner.IidPartitioner.html, and the "
        "docstring in version 0.6.1",
    ),
    "flowertune-budget": Quote(
        "Communication budget: used %.2f MB (+%.2f MB this round) / 200,000 MB",
        "what the template prints, as proposed in the review of flower, pull request 4013",
    ),
    "factored-gossip-2026": Quote(
        "On up to billion-parameter language models in low-bandwidth settings, our framework "
        "substantially improves compute utilization compared to DiLoCo, with training progress "
        "ranging from comparable to closely matching it, and is more robust to failures.",
        "abstract, arXiv 2606.22768",
    ),
    "grace-sign": Quote(
        "We've currently excluded this functionality from this code release because we could not "
        "create an efficient implementation purely based on the TF API.",
        "a maintainer on packing bits, sands-lab/grace, issue 3, June 2020",
    ),
    "label-leakage-2022": Quote(
        "We then show that there exist two simple yet effective methods within the threat model "
        "that can allow one party to accurately recover private ground-truth labels owned by the "
        "other party.",
        "abstract, arXiv 2102.08504v3",
    ),
    "mcmahan-2017-cnn": AVERAGING,
    "mcmahan-2017-iid": AVERAGING,
    "mcmahan-2017-shakespeare": AVERAGING,
    "mcmahan-2017-shards": AVERAGING,
    "muloco-2025": Quote(
        "Our experiments pre-training decoder-only transformer language models (LMs) reveal that "
        "leveraging Muon as the inner optimizer for DiLoCo along with an error-feedback "
        "accumulator allows to aggressively compress the communicated delta to 2-bits with next to "
        "no performance degradation. Crucially, MuLoCo (Muon inner optimizer DiLoCo) significantly "
        "outperforms DiLoCo while communicating 8X less and having identical memory complexity.",
        "abstract, arXiv 2505.23725v1; the abstracts of 2026 no longer say it",
    ),
    "noloco-2025": Quote(
        "Our method requires significantly less communication overhead than fully sharded data "
        "parallel training or even widely used low communication training method, DiLoCo.",
        "abstract, arXiv 2506.10911v1",
    ),
    "nopeek-2020": Quote(
        "We demonstrate that our method is resilient to such reconstruction attacks and is based "
        "on reduction of distance correlation between raw data and learned representations during "
        "training and inference with image datasets. We prevent such reconstruction of raw data "
        "while maintaining information required to sustain good classification accuracies.",
        "abstract, arXiv 2008.09161",
    ),
    "nvflare-split": Quote(
        "Backpropagation produces cut-layer gradients that are returned to the image site; labels "
        "and classifier parameters remain local.",
        "docstring of TopModel, NVFlare, cifar10-splitnn/model.py",
    ),
    "pfl-identity": Quote(
        "Secure aggregation techniques generally do not perturb the gradients [...], which means "
        "simulating this effect is simply the identity.",
        "a maintainer, apple/pfl-research, issue 56, March 2024",
    ),
    "pfllib-local": Quote(
        "When we tested Local, FedProx, FedAvg, and SCAFFOLD on the MNIST dataset, using all the "
        "framework's default hyperparameters, we observed that Local mode achieved the highest "
        "test_acc (0.991) with the fewest communication rounds.",
        "a user, TsingZ0/PFLlib, issue 243, July 2025",
    ),
    "photon-2024": Quote(
        "Photon outperforms the wall-time of baseline distributed training methods by 35% via "
        "communicating 64x-512xless. Our proposal is robust to data heterogeneity and converges "
        "twice as fast as previous methods like DiLoCo.",
        "abstract, arXiv 2411.02908",
    ),
    "powersgd-2019": Quote(
        "We propose a new low-rank gradient compressor based on power iteration that can i) "
        "compress gradients rapidly, ii) efficiently aggregate the compressed gradients using "
        "all-reduce, and iii) achieve test performance on par with SGD.",
        "abstract, arXiv 1905.13727v3; the factor is a table's",
    ),
    "protocol-models-2025": Quote(
        "We propose a novel compression algorithm that compresses both forward and backward "
        "passes, enabling up to 99% compression with no convergence degradation with negligible "
        "memory/compute overhead.",
        "abstract, arXiv 2506.01260",
    ),
    "quic-fl-2022": Quote(
        "QUIC-FL is unbiased, offers fast aggregation time, and is competitive with the most "
        "accurate (slow aggregation) DME techniques.",
        "abstract of the ICLR 2023 submission, openreview.net, 04OL67rm6ok",
    ),
    "randtopk-2023": Quote(
        "Empirical results show that compared with other communication-reduction methods, our "
        "proposed randomized top-k sparsification achieves a better model performance under the "
        "same compression level.",
        "abstract, arXiv 2305.18469",
    ),
    "reddi-2020": Quote(
        "We also perform extensive experiments on these methods and show that the use of adaptive "
        "optimizers can significantly improve the performance of federated learning.",
        "abstract, arXiv 2003.00295v5",
    ),
    "scaling-diloco-2025": Quote(
        "When well-tuned, DiLoCo scales better than data-parallel training with model size, and "
        "can outperform data-parallel training even at small model sizes.",
        "abstract, arXiv 2503.09799",
    ),
    "secure-indexing-2022": Quote(
        "up to 40x compression in uplink communication with no meaningful loss in utility compared "
        "to uncompressed baselines",
        "abstract, arXiv 2207.12779",
    ),
    "singh-2019": Quote(
        "We show that increasing number of clients or increasing model size favors split learning "
        "setup over the federated while increasing the number of data samples while keeping the "
        "number of clients or model size low makes federated learning more communication "
        "efficient.",
        "abstract, arXiv 1909.09145",
    ),
    "sparseloco-2025": Quote(
        "In this work, we introduce SparseLoCo, a communication-efficient training algorithm for "
        "LLMs that effectively leverages Top-k sparsification and quantization to reach extreme "
        "compression ratios of up to 1-3% sparsity and 2-bit quantization while outperforming "
        "full-precision DiLoCo.",
        "abstract, arXiv 2508.15706v1",
    ),
    "sparta-2025": Quote(
        "Our experiments demonstrate that SPARTA outperforms state-of-the-art federated learning "
        "methods such as DiLoCo in both bandwidth efficiency and practical robustness.",
        "abstract, as it stands on the page of an author, mattreed.com",
    ),
    "splitcom-2026": SPLITCOM,
    "splitcom-2026-language": SPLITCOM,
    "splitfed-2020": Quote(
        "Our analysis and empirical results demonstrate that (pure) SFL provides similar test "
        "accuracy and communication efficiency as SL while significantly decreasing its "
        "computation time per global epoch than in SL for multiple clients.",
        "abstract, arXiv 2004.12088, version of 2022",
    ),
    "stc-2019": Quote(
        "We furthermore show that even if the clients hold iid data and use medium sized batches "
        "for training, STC still behaves pareto-superior to Federated Averaging in the sense that "
        "it achieves fixed target accuracies on our benchmarks within both fewer training "
        "iterations and a smaller communication budget.",
        "abstract, arXiv 1903.02891",
    ),
    "terngrad-2017": Quote(
        "Our experiments show that applying TernGrad on AlexNet does not incur any accuracy loss "
        "and can even improve accuracy.",
        "abstract, arXiv 1705.07878; the factor and the loss of this claim are those that another "
        "paper measured",
    ),
    "comind-backups": Quote(
        "The accumulator will drop all stale variables (more details in the accumulator op).",
        "docstring of FederatedAveragingOptimizer, coMindOrg/federated-averaging-tutorials",
    ),
    "decomfl-2024": Quote(
        "Notably, DeComFL achieves this by transmitting only around 1MB of data in total between "
        "the server and a client to fine-tune a model with billions of parameters.",
        "abstract, arXiv 2405.15861, as on openreview.net, omrLHFzC37",
    ),
    "dgc-2018": Quote(
        "On these scenarios, Deep Gradient Compression achieves a gradient compression ratio from "
        "270× to 600× without losing accuracy, cutting the gradient size of ResNet-50 from 97MB to "
        "0.35MB, and for DeepSpeech from 488MB to 0.74MB.",
        "abstract, arXiv 1712.01887v2",
    ),
    "diloco-measured-2026": Quote(
        "Honest result: none of the 12 DiLoCo configurations reached `L*` (7.352) within the token "
        "budget — final losses clustered 8.11–8.65 versus the reference's 7.35.",
        "README at commit 07b7885",
    ),
    "eggroll-2025": Quote(
        "EGGROLL does not compromise the performance of ES in tabula-rasa RL settings, despite "
        "being faster",
        "abstract, arXiv 2511.16652v1",
    ),
    "fedex-lora-2024": Quote(
        "We evaluate the method on various models across arithmetic reasoning, commonsense "
        "reasoning, natural language understanding and natural language generation tasks, showing "
        "consistent performance gains over state-of-the-art methods across multiple settings.",
        "abstract, arXiv 2410.09432",
    ),
    "fedkseed-2023": Quote(
        "It significantly reduces transmission requirements between the server and clients to just "
        "a few random seeds and scalar gradients, amounting to only a few thousand bytes, making "
        "federated full-parameter tuning of billion-sized LLMs possible on devices.",
        "abstract, arXiv 2312.06353v5; the title says “under 18 Kilobytes”",
    ),
    "fedmrn-2024": Quote(
        "The results show that FedMRN exhibits superior convergence speed and test accuracy "
        "compared to relevant baselines, while attaining a similar level of accuracy as FedAvg.",
        "abstract, arXiv 2408.03220v1",
    ),
    "higgs-2024": Quote(
        "a simple data-free LLM quantization method using Hadamard rotations and MSE-optimal "
        "grids, dubbed HIGGS, which outperforms all prior data-free approaches such as the "
        "extremely popular NF4 quantized format",
        "abstract, arXiv 2411.17525",
    ),
    "streaming-diloco-2025": Quote(
        "First, we synchronize only subsets of parameters in sequence, rather than all at once, "
        "which greatly reduces peak bandwidth. Second, we allow workers to continue training while "
        "synchronizing, which decreases wall clock time. Third, we quantize the data exchanged by "
        "workers, which further reduces bandwidth across workers.",
        "abstract, arXiv 2501.18512",
    ),
    "pulse-2026": Quote(
        "We find that update sparsity is consistently high, frequently exceeding 99% across "
        "practically relevant settings.",
        "abstract, arXiv 2602.03839v1",
    ),
}

WHY_NOT = {
    "read": "what is claimed are figures of a table or of an output",
    "quoted": "paraphrased by others",
    "code": "no sentence was found that says it; the source code does it",
}
"""Why there is no quote, by `Claim.known`."""


def line_of(name: str, known: str) -> str:
    """The line of a claim's section: the sentence with its address, or why there is none."""
    found = QUOTES.get(name)
    if found is None:
        return f"- **Quote.** None: {WHY_NOT[known]}."
    return f"- **Quote.** “{found.words}” ({found.where})"
