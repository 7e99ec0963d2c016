"""Times the data: what a claim's own method sends, over what its training data take when sent.

By the numbers of the claim's own source, wherever these are enough; what the source does not say,
and we assume, is marked. A claim whose method sends more is *dearer than the data*. That is no
verdict on whether the claim is true. Not here: the verdicts (claim), the page (page).
"""

from dataclasses import dataclass

from experiments.send_data.law import short

DEARER = "dearer than the data"
MEANING = (
    "said beside a verdict: by the numbers of the claim's own source, its method sends more bytes "
    "than its training data take when they are compressed and sent to one place"
)

MNIST = 7_930_947  # all training images and labels without loss, by `fltoolkit_research.pooled`
CIFAR = 170_498_071  # cifar-10-python.tar.gz, as its server announces it
CIFAR_100 = 169_001_437  # cifar-100-python.tar.gz, from the same server
PER_IMAGE = 136  # bytes of an image of MNIST without loss: docs/send_the_data.md
PER_CHARACTER = 0.30  # bytes of a character of Shakespeare behind bzip2: docs/send_the_data.md
FEMNIST = 805_263 * PER_IMAGE  # all of its images; a part of them takes fewer bytes
MEGABYTE = 1_000_000
OF_MNIST = "MNIST is 7.93 MB (`fltoolkit_research.pooled`, as on all pages)"


@dataclass(frozen=True)
class Opponent:
    """Bytes of both sides, and where they come from."""

    sent: float  # both ways, unless `up_only`
    data: float
    words: str  # the computation, and how we know its numbers
    assumed: str = ""  # what no source says
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


def _averaging(number: int, parameters: int) -> Opponent:
    """Rounds of ten clients on MNIST."""
    return Opponent(
        _rounds(number, parameters, 10),
        MNIST,
        f"{number} rounds, ten clients, {parameters:,} parameters in float32 both ways; "
        f"{OF_MNIST}.",
    )


def _femnist(factor: float) -> Opponent:
    """132.1 GB on the way up, so many times fewer."""
    both = 132.1e9 * (1 + 1 / factor) / FEMNIST
    return Opponent(
        132.1e9 / factor,
        FEMNIST,
        f"132.1 GB in float32 on the way up, divided by {factor:,g}: the source counts that way "
        "alone. FEMNIST has 805,263 images by its site (as TalwalkarLab/leaf, issue 49, quotes it; "
        "its scripts make 1.6 % more).",
        "136 B per image, as those of MNIST. If the whole model also came down in float32, another "
        f"132.1 GB, it would be {short(both)} times the data.",
        up_only=True,
    )


OPPONENTS: dict[str, Opponent] = {
    "mcmahan-2017-iid": _averaging(87, 199_210),
    "mcmahan-2017-shards": _averaging(664, 199_210),
    "mcmahan-2017-cnn": _averaging(20, 1_663_370),
    "mcmahan-2017-shakespeare": Opponent(
        _rounds(41, 866_578, 115),
        3_564_579 * PER_CHARACTER,
        "41 rounds, a tenth of 1,146 roles, 866,578 parameters in float32 both ways; 3,564,579 "
        "characters (section 3, read in a conversion to text).",
        "0.30 B per character, as our Shakespeare behind bzip2.",
    ),
    "vepakomma-2018": Opponent(
        6e9 * 100,
        CIFAR_100,
        "6 GB per client, 100 clients (500 clients with 1.2 GB are as much); the archive of "
        "CIFAR-100, cifar-100-python.tar.gz, 169.0 MB.",
    ),
    "pysyft-splitnn-2020": Opponent(
        60_000 * 2 * 4 * 640,
        MNIST,
        "One pass over 60,000 images, 640 activations and as many gradients of 4 B each; "
        f"{OF_MNIST}.",
    ),
    "fedpaq-2020": _femnist(11),
    "fedpaq-coded-2021": _femnist(2809),
    "dadaquant-2021": _femnist(4772),
    "powersgd-2019": Opponent(
        300 * 50_000 / 128 * 330_020,
        CIFAR,
        "300 epochs of 50,000 images in batches of 128 per worker, by the authors' code "
        "(epfml/powersgd, paper-code/train.py), and one message of rank 2 per batch, 330,020 B as "
        "measured here, on the way up alone: 8.06 MB per worker and epoch if there are 16 workers; "
        "the archive of CIFAR-10, cifar-10-python.tar.gz, 170.5 MB.",
        up_only=True,
    ),
    "tff-2020": Opponent(
        2 * 146.46 * 2**20 / 8 * 10,
        341_873 * PER_IMAGE,
        "19.2 MB each way in a round (146.46 Mibit), and ten rounds, as the tutorial's output has "
        "them; EMNIST's 341,873 digits.",
        "136 B per digit, as those of MNIST.",
    ),
    "flowertune-budget": Opponent(
        200_000 * MEGABYTE,
        48_393_562,
        "The whole limit; 52,002 instructions with answers, 48.4 MB to download by the card of "
        "flwrlabs/alpaca-gpt4, which has every text twice.",
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
    return f"{short(found.times)}{' (up alone)' * found.up_only}"


def line_of(name: str) -> list[str]:
    """The line of a claim's section: the computation, and what is assumed."""
    found = OPPONENTS.get(name)
    if found is None:
        return []
    assumed = f" Assumed: {found.assumed}" if found.assumed else ""
    return [f"- **Times the data: {times_of(name)}.** {found.words}{assumed}"]


def beside(name: str) -> str:
    """What stands beside the verdict's word."""
    found = OPPONENTS.get(name)
    return f", but *{DEARER}*" if found and found.dearer else ""
