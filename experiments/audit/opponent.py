"""Times the data: what a claim's own method sends, over what its training data take when sent.

From the numbers of the claim's own source, wherever these are enough; and a claim whose method
sends more is *dearer than the data*. That is no verdict on whether the claim is true. Bytes of a
data set are those of its published, compressed files, or are computed from a measured rate that is
named. Not here: the verdicts (claim), the page (page).
"""

from dataclasses import dataclass

DEARER = "dearer than the data"
MEANING = (
    "said beside a verdict: by the numbers of the claim's own source, its method sends more bytes "
    "than its training data take when they are compressed and sent to one place"
)

MNIST = 9_912_422 + 28_881  # the two published gzip files of the training set
CIFAR = 170_498_071  # cifar-10-python.tar.gz, as its server announces it
CIFAR_100 = 169_001_437  # cifar-100-python.tar.gz, from the same server
PER_IMAGE = 136  # bytes of an image of MNIST without loss: docs/send_the_data.md
PER_CHARACTER = 0.30  # bytes of a character of Shakespeare behind bzip2: docs/send_the_data.md
FEMNIST = 805_263 * PER_IMAGE  # all of its images; a part of them takes fewer bytes


@dataclass(frozen=True)
class Opponent:
    """Bytes of both sides, and where they come from."""

    sent: float  # both ways, unless `up_only`
    data: float
    words: str  # the computation, and how we know its numbers
    up_only: bool = False  # the source says nothing of the way down

    @property
    def times(self) -> float:
        """Times the data."""
        return self.sent / self.data

    @property
    def dearer(self) -> bool:
        """Whether more is sent than the data."""
        return self.times > 1


def _rounds(number: int, parameters: int, clients: int) -> float:
    """Averaging in float32, both ways."""
    return 2.0 * 4 * parameters * clients * number


def _femnist(factor: float) -> float:
    """132.1 GB on the way up, so many times fewer, and as much in float32 on the way down."""
    return 132.1e9 * (1 + 1 / factor)


def _femnist_words(factor: float) -> str:
    up = 132.1e9 / factor / FEMNIST
    return (
        f"132.1 GB in float32 on the way up, divided by {factor:,g}, and the same 132.1 GB on the "
        f"way down: an assumption, since the abstract speaks of the other way alone. "
        f"FEMNIST has 805,263 images by its site (as TalwalkarLab/leaf, issue 49, quotes it; its "
        f"scripts make 1.6 % more), of 136 B as those of MNIST. The way up alone would be {up:.2g} "
        "times the data."
    )


OPPONENTS: dict[str, Opponent] = {
    "mcmahan-2017-iid": Opponent(
        _rounds(87, 199_210, 10),
        MNIST,
        "87 rounds, ten clients, 199,210 parameters in float32 both ways; the gzip files of MNIST.",
    ),
    "mcmahan-2017-shards": Opponent(
        _rounds(664, 199_210, 10),
        MNIST,
        "664 rounds, ten clients, 199,210 parameters in float32 both ways; the gzip files of "
        "MNIST.",
    ),
    "mcmahan-2017-cnn": Opponent(
        _rounds(20, 1_663_370, 10),
        MNIST,
        "20 rounds, ten clients, 1,663,370 parameters in float32 both ways; the gzip files of "
        "MNIST.",
    ),
    "mcmahan-2017-shakespeare": Opponent(
        _rounds(41, 866_578, 115),
        3_564_579 * PER_CHARACTER,
        "41 rounds, a tenth of 1,146 roles, 866,578 parameters in float32 both ways; 3,564,579 "
        "characters of 0.30 B behind bzip2. Roles, parameters and characters are from memory.",
    ),
    "vepakomma-2018": Opponent(
        6e9 * 100,
        CIFAR_100,
        "6 GB per client, 100 clients (500 clients with 1.2 GB are as much); the archive of "
        "CIFAR-100, cifar-100-python.tar.gz, 169,001,437 B.",
    ),
    "pysyft-splitnn-2020": Opponent(
        60_000 * 2 * 4 * 640,
        MNIST,
        "One pass over 60,000 images, 640 activations and as many gradients of 4 B each; the gzip "
        "files of MNIST.",
    ),
    "fedpaq-2020": Opponent(_femnist(11), FEMNIST, _femnist_words(11)),
    "fedpaq-coded-2021": Opponent(_femnist(2809), FEMNIST, _femnist_words(2809)),
    "dadaquant-2021": Opponent(_femnist(4772), FEMNIST, _femnist_words(4772)),
    "powersgd-2019": Opponent(
        300 * 8e6 * 16,
        CIFAR,
        "8 MB per epoch and worker, 16 workers, 300 epochs, on the way up alone; the archive of "
        "CIFAR-10. The three numbers are from memory.",
        up_only=True,
    ),
    "tff-2020": Opponent(
        2 * 146.46 * 2**20 / 8 * 10,
        341_873 * PER_IMAGE,
        "146.46 Mibit each way in a round, ten rounds (the number of rounds is from memory); "
        "341,873 digits of 136 B.",
    ),
    "flowertune-budget": Opponent(
        200_000e6,
        25e6,
        "The whole limit; 52,002 instructions with answers, some 25 MB when compressed (from "
        "memory).",
    ),
    "diloco-2023": Opponent(
        2.0 * 4 * 150e6 * 8 * (64_000 / 500),
        305e9,
        "150 million parameters in float32 both ways, 8 workers, 64,000 steps of which every "
        "500th sends (sections 3.1 and 3.2, read in a conversion to text); C4 (en) is 305 GB when "
        "compressed, by the page of allenai/c4.",
    ),
}
"""By the name of the claim. A claim that is missing here does not say enough to compute it."""


def times_of(name: str) -> str:
    """The cell of the table; empty where the source's numbers are not enough."""
    found = OPPONENTS.get(name)
    if found is None:
        return ""
    return f"{float(f'{found.times:.2g}'):,g}{' (up alone)' * found.up_only}"


def beside(name: str) -> str:
    """What stands beside the verdict's word."""
    found = OPPONENTS.get(name)
    return f", but *{DEARER}*" if found and found.dearer else ""
