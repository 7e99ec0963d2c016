"""The two tables of the first paper on SplitNN in health."""

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict
from experiments.audit.published_tables import published_tables


def measure(seed: int, quick: bool) -> Values:
    """The largest difference of any row, in percent."""
    rows = published_tables()
    return {
        "rows": float(len(rows)),
        "largest_percent": max(100 * abs(row["difference"]) for row in rows),
    }


def judge(runs: Runs) -> Finding:
    """Within 5 %, all of them."""
    (values,) = runs["formulas"]
    words = (
        f"All {values['rows']:.0f} rows within {values['largest_percent']:.1f} %. The epochs and "
        "the cut are not printed, and are solved back from one row of each table: this shows that "
        "the tables are consistent with the formulas, not that somebody measured them."
    )
    fits = values["largest_percent"] <= 5
    return Finding(Verdict.AGREES if fits else Verdict.DISAGREES, words)


CLAIM = Claim(
    title="SplitNN: 190 times less computing at a client, and half the traffic with 500 clients",
    group="split learning",
    says="0.1548 and 0.03 TFLOP a client against 29.4 and 5.89 (CIFAR-10, VGG; 100 and 500 "
    "clients); 6 and 1.2 GB per client against 3 and 2.4 (CIFAR-100, ResNet-50).",
    source="Vepakomma et al. 2018, arXiv 1812.00564, tables 1 and 2",
    known="quoted",
    ours="`experiments.audit.published_tables`: parameters, multiplications and cut widths "
    "counted.",
    own_task=True,
    judge=judge,
    measures={"formulas": measure},
    seeds=(0,),
)
