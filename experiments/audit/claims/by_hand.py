"""Claims that nothing here can test, and systems that were read or measured by hand."""

from experiments.audit.claim import Claim, untested

CLAIMS: dict[str, Claim] = {}


CLAIMS["covenant-2026"] = Claim(
    title="Covenant-72B: more than 146 times less",
    group="language models",
    source="Covenant-72B 2026, arXiv 2603.08163, abstract",
    known="abstract",
    quote="We developed SparseLoCo, which compresses gradient communication by over 146x. Each "
    "peer transmits 1.56% of a full gradient per round using top-k sparsification, 2-bit "
    "quantization, and error feedback.",
    quoted_from="an author, Hacker News, item 47335107",
    ours="32 x 4096 / (64 x (12 + 2)) is 146.3: the factor is that of the codec, against float32,"
    " on the way up.",
    no_command="the model is too large for any machine here",
    judge=untested(
        "A model of that size needs hundreds of graphics cards. Twenty peers download what each "
        "of them sends."
    ),
)

CLAIMS["factored-gossip-2026"] = Claim(
    title="Factored Gossip DiLoCo: waits less than DiLoCo at comparable progress",
    group="language models",
    source="Hewa Koneputugodage et al. 2026, arXiv 2606.22768, abstract",
    known="abstract",
    quote="On up to billion-parameter language models in low-bandwidth settings, our framework "
    "substantially improves compute utilization compared to DiLoCo, with training progress ranging "
    "from comparable to closely matching it, and is more robust to failures.",
    quoted_from="abstract, arXiv 2606.22768",
    ours="Nothing is run. Random partners alone stand in docs/language_results.md as NoLoCo.",
    no_command="the claim is about waiting, which no byte shows",
    judge=untested(
        "The claim is about how busy processors are on slow links. Bytes are measured here, and "
        "the abstract does not promise fewer of them."
    ),
)

CLAIMS["fedbiomed-noise"] = Claim(
    title="Fed-BioMed: central privacy adds its noise twice",
    group="systems",
    source="Fed-BioMed, https://github.com/fedbiomed/fedbiomed/issues/1443, September 2025; code "
    "at commit 60d6192c, July 2026",
    known="read",
    quote="when using CDP, noise is added both after local training and central aggregation (via "
    "calling of `after_training_params()` which calls `_postprocess_dp`)",
    quoted_from="a maintainer, fedbiomed/fedbiomed, issue 1443, September 2025",
    ours="Its source was read, not run. The arithmetic is for the tutorial's sigma / sqrt(nodes).",
    no_command="its source was read",
    judge=untested(
        "In the code, after_training_params adds the noise of central privacy at each node "
        "(round.py, line 552) and again to the averaged model of the researcher (_experiment.py, "
        "line 857). So with n nodes the model has sqrt(n + 1) times the noise of the nodes' mean, "
        "3.3 times with ten. The issue also says that the clip is no global norm but per "
        "parameter; that we did not find: the one clip in the code is Opacus' norm of a sample's "
        "gradient, and the final local model, which gets the noise, is not clipped at all.",
    ),
)

CLAIMS["flower-secagg"] = Claim(
    title="Flower: SecAgg+ with a modulus of 2^32",
    group="systems",
    says='"quantization_range: int = 4194304, modulus_range: int = 4294967296": values are rounded '
    "to 2^22 levels and masked modulo 2^32, so that 32 bits hold a masked value.",
    source="Flower, flwr.server.workflow.SecAggPlusWorkflow, "
    "https://flower.ai/docs/framework/ref-api/flwr.server.workflow.SecAggPlusWorkflow.html",
    known="code",
    ours="flwr 1.41.0 as it installs, November 2026: ten clients go through the four stages of its "
    "client code, and its own serializer makes the bytes (python -m "
    "experiments.secrecy.flower_secagg, in the environment of make flower). 25,450 values.",
    no_command="it has a command of its own, `python -m experiments.secrecy.flower_secagg`, in "
    "Flower's environment",
    judge=untested(
        "64.15 bits per value are sent: masked numbers below 2^32 travel as int64. It is as many "
        "for values that were int8 before. Keys and shares are 6.7 kB per client. `SecureSum` "
        "sends 12 bits per value for 8-bit values of ten clients. Read in the source: a mask is "
        "drawn from 32 bits, into which the key is folded.",
    ),
)

CLAIMS["grace-sign"] = Claim(
    title="GRACE: sign, ternary and one-bit compressors",
    group="systems",
    says="Compressors named after one bit and three values per value. The paper describes a step "
    "that packs them; a maintainer says that the release leaves it out.",
    source="GRACE, commit 106e3de, grace_dl/torch/compressor",
    known="code",
    quote="We've currently excluded this functionality from this code release because we could not "
    "create an efficient implementation purely based on the TF API.",
    quoted_from="a maintainer on packing bits, sands-lab/grace, issue 3, June 2020",
    ours="Measured by hand in November 2026 and read again in the commit that is named. "
    "tests/core/codecs/test_other_systems.py holds the trap.",
    no_command="measured by hand with a commit that no package index has",
    judge=untested(
        "8 bits per value: a tensor of bytes is what is sent, a quarter of float32. Packed, "
        "which the release leaves out and says so, it would be a thirty-second.",
    ),
)

CLAIMS["nvflare-split"] = Claim(
    title="NVFlare's split example: labels and the classifier stay with their owner",
    group="systems",
    source="NVFlare, cifar10-splitnn/model.py at commit 56f4951; pull request 5050, August 2026",
    known="read",
    quote="Backpropagation produces cut-layer gradients that are returned to the image site; "
    "labels and classifier parameters remain local.",
    quoted_from="docstring of TopModel, NVFlare, cifar10-splitnn/model.py",
    ours="Read in client.py at commit 50ee1cc, not run.",
    no_command="its source was read",
    judge=untested(
        "NVFlare was read, not run. In its source each site saves its own half and returns only "
        "a path. A first version of the pull request sent the trained top model to the owner of "
        "the images; a reviewer saw that the docstring says otherwise, before it was merged. "
        "Activations and gradients travel in 16 bits, uncompressed.",
    ),
)

CLAIMS["photon-2024"] = Claim(
    title="Photon: 64 to 512 times less communication, and twice as fast as DiLoCo",
    group="language models",
    source="Sani et al. 2024, arXiv 2411.02908, abstract",
    known="abstract",
    quote="Photon outperforms the wall-time of baseline distributed training methods by 35% via "
    "communicating 64x-512xless. Our proposal is robust to data heterogeneity and converges twice "
    "as fast as previous methods like DiLoCo.",
    quoted_from="abstract, arXiv 2411.02908",
    ours="Nothing is run. Local AdamW with a plain mean, which is its method, stands in "
    "docs/language_results.md at 10 local steps; its factors need 64 to 512.",
    no_command="the models and the number of steps are too large for any machine here",
    judge=untested(
        "A factor of 64 to 512 by local steps alone would be one to nine messages in a run of 600 "
        "steps, and the claim is about models of up to 7 billion parameters."
    ),
)

CLAIMS["plato-qsgd"] = Claim(
    title="Plato: QSGD of any update",
    group="systems",
    says="A processor quantizes the weights of an update. Nothing is printed about which updates.",
    source="Plato, commit 008f1c0, plato/processors/model_quantize_qsgd.py",
    known="code",
    ours="Measured by hand in November 2026 and read again in the commit that is named.",
    no_command="measured by hand with a commit that no package index has",
    judge=untested(
        "It fails with struct.error for a tensor of zeros, and for a dimension above 32,767.",
    ),
)

CLAIMS["protocol-models-2025"] = Claim(
    title="Protocol Models: 99 % less between stages at no loss",
    group="language models",
    says="Activations and gradients between the stages of a pipeline live in a fixed subspace, and "
    "so do the weights that write into the stream: up to 99 % less (100 times), and no loss of "
    "convergence.",
    source="Ramasinghe et al. 2025, arXiv 2506.01260, abstract",
    known="abstract",
    quote="We propose a novel compression algorithm that compresses both forward and backward "
    "passes, enabling up to 99% compression with no convergence degradation with negligible "
    "memory/compute overhead.",
    quoted_from="abstract, arXiv 2506.01260",
    ours="Nothing is run. A hundred times less of a width of 64 would be less than one value: that "
    "factor needs a width of thousands. A fixed subspace for what is sent, with free weights, has "
    "rows in docs/language_results.md.",
    no_command="the weights that stay in a subspace which moves now and then are not built here",
    judge=untested(
        "The method is the subspace of the weights, and our rows have none: they hold only what is "
        "sent in a fixed subspace."
    ),
)

CLAIMS["quic-fl-2022"] = Claim(
    title="QUIC-FL: about the error of EDEN, with one rotation back for all clients",
    group="codecs",
    says="An unbiased mean of few bits per value whose error is near that of the best methods, and "
    "whose decoding is faster: values outside of a range are sent exactly, the others are rounded "
    "at random to levels that a solver has found, and the sum is rotated back once.",
    source="Ben-Basat et al. 2022, arXiv 2205.13341, abstract, and the authors' repository",
    known="abstract",
    quote="QUIC-FL is unbiased, offers fast aggregation time, and is competitive with the most "
    "accurate (slow aggregation) DME techniques.",
    quoted_from="abstract of the ICLR 2023 submission, openreview.net, 04OL67rm6ok",
    ours="Nothing is run: the two ends share random numbers, which is not built here, and the "
    "levels that the solver finds are made for them.",
    no_command="the random numbers that both ends share are not built here",
    judge=untested(
        "Without the shared random numbers it is another method, whose error says nothing about "
        "this one. EDEN, with which it compares itself, has a row of its own."
    ),
)

CLAIMS["secretflow-8bits"] = Claim(
    title="SecretFlow: 8-bit zero-point quantization",
    group="systems",
    says="Values come back within a quantization step.",
    source="SecretFlow, commit 1b51502b, secretflow_fl/utils/compressor",
    known="code",
    ours="Measured by hand in November 2026 with the commit that is named. A "
    "tensor of 100 x 101 values.",
    no_command="measured by hand with a commit that no package index has",
    judge=untested(
        "It gives back 1.0 everywhere; a constant 3.0 becomes 0.0, 255.5 becomes 0, and decoding "
        "changes the message.",
    ),
)

CLAIMS["secretflow-state-c"] = Claim(
    title="SecretFlow: nothing is sent in state C",
    group="systems",
    says='"split_state_async" names Chen et al. 2021 as its reference. In that paper neither '
    "activations nor gradients are exchanged in state C; SecretFlow itself prints no number.",
    source="SecretFlow, commit 1b51502b, sl_model.py and split_state_async",
    known="code",
    ours="Read in the source in November 2026, not run. The same rule in our code, "
    "`fltoolkit.split.train_uploading`, is measured in the row on CIFAR-10.",
    no_command="its source was read",
    judge=untested(
        "Activations are still sent with every batch; only gradients are saved. So it cannot save"
        " more than a factor of two, where its reference reports up to 106.7.",
    ),
)

CLAIMS["secretflow-topk"] = Claim(
    title="SecretFlow: top-k sparsity makes messages smaller",
    group="systems",
    says="Compressors for split learning; sparsity 0.5 keeps half of the values.",
    source="SecretFlow, commit 1b51502b, secretflow_fl/utils/compressor",
    known="code",
    ours="Measured by hand in November 2026 with the commit that is named. A "
    "tensor of 128 x 512 float32, which is 262,144 bytes.",
    no_command="measured by hand with a commit that no package index has",
    judge=untested(
        "655,845 bytes at sparsity 0.5 (2.5 times larger than dense), 328,165 at 0.75, 131,547 at"
        " 0.9, 13,558 at 0.99: places travel as pickled rows and columns. It saves from about 0.8"
        " on.",
    ),
)

CLAIMS["stackoverflow-top-k"] = Claim(
    title="Stack Overflow: top-k with a mask read from the values",
    group="systems",
    says="Code in a question: the largest magnitudes are sent, and who sent a value is read off "
    'as "value > 0".',
    source="Stack Overflow, a question on top-k in TensorFlow Federated",
    known="code",
    ours="tests/core/codecs/test_other_systems.py has both mistakes beside our codec.",
    no_command="it is a test of ours, `tests/core/codecs/test_other_systems.py`",
    judge=untested(
        "The magnitudes travel without their signs, error feedback makes it worse, and where "
        "nobody sent the mean is NaN: three laws of the test fail.",
    ),
)
CLAIMS["stc-2019"] = Claim(
    title="Sparse ternary compression: an accuracy for fewer bytes and in fewer iterations",
    group="federated learning",
    source="Sattler et al. 2019, arXiv 1903.02891, abstract",
    known="abstract",
    quote="We furthermore show that even if the clients hold iid data and use medium sized batches "
    "for training, STC still behaves pareto-superior to Federated Averaging in the sense that it "
    "achieves fixed target accuracies on our benchmarks within both fewer training iterations and "
    "a smaller communication budget.",
    quoted_from="abstract, arXiv 1903.02891",
    ours="Nothing is run for it: the paper sends a ternary message after each step, and our STC "
    "one after a pass over a client's samples (docs/results.md).",
    no_command="a round of ours is no iteration of theirs",
    judge=untested(
        "The claim compares training iterations. The paper's tables on CIFAR-10 were not at hand."
    ),
)
CLAIMS["secure-indexing-2022"] = Claim(
    title="40 times less on the way up, under secure aggregation",
    group="federated learning",
    source="Prasad, Ghosh, Cormode, Mironov, Yousefpour & Stock 2022, arXiv 2207.12779, abstract "
    "(https://openreview.net/forum?id=GUMLIArCIwB)",
    known="abstract",
    quote="up to 40x compression in uplink communication with no meaningful loss in utility "
    "compared to uncompressed baselines",
    quoted_from="abstract, arXiv 2207.12779",
    ours="Nothing is run. Random places that all clients draw alike, under masks, have rows in "
    "docs/secrecy.md; theirs are LEAF's tasks.",
    no_command="their pruning and their Secure Indexing are not built here",
    judge=untested("Without their coder it is another method, which says nothing about theirs."),
)
CLAIMS["comind-backups"] = Claim(
    title="coMind: averaging at intervals, with backup replicas",
    group="systems",
    says="Workers average every so many steps, and the server can wait for fewer replicas than "
    "there are: the others are backups.",
    source="coMindOrg/federated-averaging-tutorials, federated_averaging_optimizer.py",
    known="read",
    quote="The accumulator will drop all stale variables (more details in the accumulator op).",
    quoted_from="docstring of FederatedAveragingOptimizer, coMindOrg/federated-averaging-tutorials",
    ours="`fltoolkit.federated.interval_averaging` does it; tests/core/federated/test_rounds.py "
    "has the rule by hand.",
    no_command="its source was read",
    judge=untested(
        "What comes late is dropped, as the docstring says; how much time backups save it does not "
        "say.",
    ),
)

CLAIMS["fedlab-qsgd"] = Claim(
    title="FedLab: QSGD in 2, 4 or 8 bits",
    group="systems",
    says='A compressor "QSGD" whose argument is the number of bits, and top-k with the share of '
    "values that is kept.",
    source="FedLab 1.3.0, fedlab.contrib.compressor",
    known="code",
    ours="Measured once in November 2026 with fedlab==1.3.0: its compressors on "
    "10,000 normal values; tensors are weighed, without headers. "
    "tests/core/codecs/test_other_systems.py holds the trap.",
    no_command="measured once with the package that is named; the program is in the git history",
    judge=untested(
        "40 bits per value for 2, 4 and 8: the level as int32, the sign as a byte; float32 has 32. "
        "Its top-k of a half is 1.5 times as large as the tensor: places are int64.",
    ),
)
CLAIMS["fedml-qsgd"] = Claim(
    title="FedML: QSGD in few bits",
    group="systems",
    says="A compressor named after QSGD, whose argument is a quantization level. It does not say "
    "that it is unbiased: its argument is called is_biased, and is True.",
    source="FedML 0.9.6, fedml/utils/compression.py",
    known="code",
    ours="Measured once in November 2026 with fedml==0.9.6: its compressors with 4 "
    "bits on 10,000 normal values, on zeros and on equal values. "
    "tests/core/codecs/test_other_systems.py holds the traps.",
    no_command="measured once with the package that is named; the program is in the git history",
    judge=untested(
        "32 bits per value are sent for 4: rounded values stay float32. Its default scales the "
        "result down to keep the variance small: on average 0.131 of a value comes back, as the "
        "name of its argument says. Of a tensor of zeros 100% are NaN. Of 10,000 equal values its "
        "other quantizer, which rounds down, keeps 0%.",
    ),
)
CLAIMS["hivemind-8bits"] = Claim(
    title="hivemind: uniform 8-bit compression",
    group="systems",
    says="A compression named after 8 bits per value. Its README prints no factor.",
    source="hivemind 1.1.12, hivemind/compression/quantization.py",
    known="code",
    ours="Measured once in November 2026 with hivemind==1.1.12: its uniform "
    "quantization of normal values, as the message that it serializes.",
    no_command="measured once with the package that is named; the program is in the git history",
    judge=untested(
        "100 values: 1,149 bytes for 400, 344 values: 1,394 bytes for 1,376, 10,000 values: 11,050 "
        "bytes for 40,000, 1,000,000 values: 1,001,052 bytes for 4,000,000. A codebook of 256 "
        "float32 values is in each message, so nothing is saved below some 350 values; a large "
        "message is a quarter of float32, as the name says.",
    ),
)
