"""Settings of `fedavg` as one flat list, which is handy for tests that vary one of them."""

from typing import Any

from fltoolkit.federated import Arrivals, Cohort, GaussianDP, Local, mean_of_senders

LOCAL = {"batch_size", "lr", "optimizer", "epochs", "steps", "prox", "loss_fn", "keep_state"}
ARRIVALS = {"wait_for", "timeout", "staleness", "clock"}


def grouped(**flat: Any) -> dict[str, Any]:
    """Keywords of `fedavg` from flat ones: ``cohort_size=3, lr=0.1, wait_for=2, masked=True``."""
    settings = {key: flat.pop(key) for key in list(flat) if key not in LOCAL | ARRIVALS}
    settings["local"] = Local(**{key: flat[key] for key in flat.keys() & LOCAL})
    if times := {key: flat[key] for key in flat.keys() & ARRIVALS}:
        settings["arrivals"] = Arrivals(**times)
    if "cohort_size" in settings:
        with_replacement = settings.pop("with_replacement", False)
        settings["cohort"] = Cohort(settings.pop("cohort_size"), with_replacement)
    if settings.pop("masked", False):
        settings["mean"] = mean_of_senders
    privacy: GaussianDP | None = settings.pop("privacy", None)
    return settings if privacy is None else {**settings, "mean": privacy}
