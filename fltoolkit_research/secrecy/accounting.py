"""What a run with noise promises: epsilon in words."""

import math
import warnings
from dataclasses import dataclass

from fltoolkit.party import TrainingWarning
from fltoolkit_research.federated.privacy import GaussianDP

LARGE = 10.0  # from this epsilon on, the bound on an attacker is practically useless


@dataclass(frozen=True)
class Promise:
    """What differential privacy promises a client: a bound on every attacker.

    An attacker sees all models of a run, knows everything else, and guesses whether one client took
    part. If it says so in a share ``false_alarms`` of the cases in which the client did not, it
    says so in at most ``hits(false_alarms)`` of the cases in which the client did.

    What holds for many clients is learned about this one, too, whether it took part or not. The
    promise is about the published models; the server sees each update, unless the sum is secret.
    """

    epsilon: float
    delta: float

    def hits(self, false_alarms: float) -> float:
        """The largest rate of right guesses "took part" at this rate of wrong ones.

        ``e^epsilon * false_alarms + delta``, and the same the other way round. Source: Kairouz, Oh
        and Viswanath 2015, arXiv 1311.0776, theorem 2.1.
        """
        if self.epsilon == math.inf:
            return 1.0
        one = math.exp(min(self.epsilon, 700)) * false_alarms + self.delta
        other = 1 - math.exp(-self.epsilon) * (1 - self.delta - false_alarms)
        return max(0.0, min(1.0, one, other))

    def __str__(self) -> str:
        return (
            f"epsilon {self.epsilon:.2f} at delta {self.delta:g}: whoever guesses that a client "
            f"took part, and is wrong about 1 in 100 who did not, finds at most "
            f"{100 * self.hits(0.01):.1f} in 100 who did"
        )


def promise(
    dp: GaussianDP, *, num_clients: int, cohort: int, rounds: int, delta: float | None = None
) -> Promise:
    """What ``dp`` promises each client for so many rounds: before a run, or after some of it.

    Epsilon is computed by ``dp-accounting``, for clients that take part with probability
    ``cohort / num_clients`` in each round, independently of each other. Warns
    (`fltoolkit.party.TrainingWarning`) if it is so large that it promises next to nothing.

    Args:
        dp: the mean with noise.
        num_clients: among whom each round's cohort is drawn.
        cohort: clients in a round.
        rounds: how many rounds are planned, or were run.
        delta: None: 1 / num_clients^1.1, as McMahan et al. 2018 (arXiv 1710.06963) take it.
    """
    if not 1 <= cohort <= num_clients:
        raise ValueError(f"cohort={cohort}: must be 1 to {num_clients} clients")
    if rounds < 1:
        raise ValueError(f"rounds={rounds}: one or more")
    delta = num_clients**-1.1 if delta is None else delta
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta}: above 0 and below 1, and well below 1 / num_clients")
    found = Promise(dp.epsilon(rounds=rounds, fraction=cohort / num_clients, delta=delta), delta)
    if found.epsilon > LARGE:
        warnings.warn(
            f"{dp} with {cohort} of {num_clients} clients in each of {rounds} rounds has epsilon "
            f"{found.epsilon:.1f}: that promises next to nothing. Use more noise, fewer rounds, or "
            "draw from more clients",
            TrainingWarning,
            stacklevel=2,
        )
    return found
