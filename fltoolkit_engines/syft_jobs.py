"""Federated averaging by reviewed jobs: code runs at the data, after the data's owner has read it.

Here: `Jobs`, with which a researcher submits a job and an owner reviews and runs it, and
`ReviewedJob`, with which `fedavg` trains. Notebook 09 runs this.

The owner of the data reads the researcher's ``main.py``, approves or rejects it, and runs exactly
the text that she has read, in her own process; a ``run.sh`` never runs. The review is the only
protection: an approved job can copy private data into its result.
"""

import ast
import difflib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fltoolkit.federated.client import Local, LocalUpdate
from fltoolkit.history import Record
from fltoolkit.trees import Tree
from fltoolkit_engines.syft import Datasite, quiet

__all__ = ["Jobs", "Review", "ReviewedJob", "settings_of"]


@dataclass(frozen=True)
class Review:
    """What an owner reads before she decides: every file of a job, as it was at that moment."""

    name: str
    submitter: str
    files: Mapping[str, str]  # path to text; run.sh is shown and never run

    @property
    def code(self) -> str:
        """The text of ``main.py``, the only file that will run."""
        return self.files.get("code/main.py", "")


class Jobs:
    """The jobs that one datasite has submitted to others, and received from them.

    This object remembers the text of approved jobs; after a restart the owner must review again.
    """

    def __init__(self, site: Datasite):
        self.site = site
        self._approved: dict[str, Review] = {}

    # ---- the researcher

    def submit(self, owner: str, name: str, code: str) -> None:
        """Submit ``code``, as the ``main.py`` of a job, to a peer.

        The code must define ``main(data, start, seed)``, which returns a `LocalUpdate`. ``data`` is
        the owner's private data and ``start`` the server's weights; both are trees.
        """
        compile(code, f"{name}/main.py", "exec")  # finds a typo before the job is submitted
        email = self.site.peer(owner)
        with tempfile.TemporaryDirectory() as folder, self.site.lock, quiet():
            path = Path(folder) / "main.py"
            path.write_text(code)
            self.site.client.submit_python_job(
                email, str(path), name, dependencies=[], force_submission=True
            )

    def status(self) -> list[Record]:
        """All jobs known here: their ``owner``, ``submitter``, ``job``, ``status``, ``reason``."""
        self.site.sync()
        return [
            {
                "owner": job.datasite_owner_email,
                "submitter": job.submitted_by,
                "job": job.name,
                "status": job.status,
                "reason": job.review_reason or "",
            }
            for job in self.site.client.job_client.jobs
        ]

    # ---- the owner

    def review(self, name: str) -> Review:
        """Read a job that was submitted to this datasite, without running it."""
        self.site.sync()
        return self._read(self._job(name))

    def approve(self, review: Review, reason: str = "") -> None:
        """Approve a job as it was read. Raises PermissionError if it has changed since then."""
        job = self._job(review.name)
        self._unchanged(review, self._read(job))
        if job.status == "rejected":
            raise PermissionError(f"{self.site.name} has rejected the job {review.name!r} before")
        if job.status == "pending":
            with self.site.lock, quiet():
                job.approve(reason)
                self.site.client.sync()
        self._approved[review.name] = review

    def reject(self, review: Review, reason: str) -> None:
        """Reject a job; the submitter can read the reason."""
        self._approved.pop(review.name, None)
        with self.site.lock, quiet():
            self._job(review.name).reject(reason)
            self.site.client.sync()

    def approved(self, name: str) -> Review:
        """The approved review of a job. Raises PermissionError if there is none or it changed."""
        job, review = self._job(name), self._approved.get(name)
        if review is None:
            why = f": {job.review_reason}" if job.review_reason else ""
            raise PermissionError(
                f"{self.site.name} runs only jobs that were approved here; {name!r} of "
                f"{job.submitted_by} is {job.status}{why}. To approve it: job = "
                f"jobs.review({name!r}), read job.code, jobs.approve(job)"
            )
        self._unchanged(review, self._read(job))
        return review

    def run(self, name: str, data: str, **inputs: Any) -> Any:
        """Run an approved ``main.py`` on this owner's private data, and return its result.

        This calls ``main(data, **inputs)`` in this process, with all rights of the process. The
        result stays with the owner until she sends it. Raises the errors of `approved`.
        """
        review = self.approved(name)
        namespace: dict[str, Any] = {"__name__": "reviewed_job"}
        exec(compile(review.code, f"{name}/main.py", "exec"), namespace)
        return namespace["main"](self.site.private(data), **inputs)

    def close(self, name: str, note: str) -> None:
        """Mark a job as done and share ``note`` with its submitter. The job cannot run again."""
        job = self._job(name)
        with tempfile.TemporaryDirectory() as folder, self.site.lock, quiet():
            path = Path(folder) / "note.txt"
            path.write_text(note)
            job.accept_by_depositing_result(str(path))
            job.share_outputs([job.submitted_by])
            self.site.client.sync()
        self._approved.pop(name, None)

    def _job(self, name: str) -> Any:
        jobs, me = self.site.client.job_client.jobs, self.site.email
        found = [job for job in jobs if job.datasite_owner_email == me and job.name == name]
        if len(found) != 1:
            raise ValueError(
                f"{self.site.name} has {len(found)} jobs called {name!r} and needs exactly one; "
                "status() lists all jobs"
            )
        return found[0]

    def _read(self, job: Any) -> Review:
        folder = job.job_submission_path
        paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "syft.pub.yaml")
        files = {p.relative_to(folder).as_posix(): p.read_text(errors="replace") for p in paths}
        return Review(job.name, job.submitted_by, files)

    def _unchanged(self, read: Review, now: Review) -> None:
        if read.files == now.files:
            return
        changed = sorted({path for path, _ in read.files.items() ^ now.files.items()})
        lines = difflib.unified_diff(
            read.code.splitlines(), now.code.splitlines(), "main.py as read", "now", "", "", 0, ""
        )
        raise PermissionError(
            f"the job {read.name!r} of {read.submitter} has changed since {self.site.name} read "
            f"it: {', '.join(changed)}. Review it again.\n" + "\n".join(lines)
        )


# ------------------------------------------------------------------------------------- FedAvg


def settings_of(code: str) -> dict[str, Any]:
    """The ``SETTINGS`` at the top of a job's ``main.py``, read without running the code.

    >>> settings_of('SETTINGS = {"lr": 0.1, "batch_size": 16, "epochs": 1}')
    {'lr': 0.1, 'batch_size': 16, 'epochs': 1}
    """
    for node in ast.parse(code).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SETTINGS":
            return dict(ast.literal_eval(node.value))
    raise ValueError('main.py has no settings: write SETTINGS = {"lr": ..., ...} at its top level')


@dataclass(frozen=True)
class ReviewedJob:
    """Lets `fedavg` train by a job that each owner has approved.

    The researcher passes the mocks to `fedavg` as its clients; only their lengths are used, as
    weights. Models and updates travel through the channel as always::

        job = ReviewedJob("local-sgd", "digits", owners, mocks)
        fedavg(model, Fleet(mocks, job), channel, local=Local(**settings_of(code)), ...)

    Settings such as ``batch_size`` and the number of local steps decide how much an update reveals.
    So the reviewed code must declare them: a dict ``SETTINGS`` at the top of ``main.py``, with the
    names that `Local` has. Pass the same settings to `fedavg`; others are refused.

    Args:
        name: the name of the job.
        data: the name of the data set, the same at each owner.
        owners: each owner's jobs, by the owner's name.
        mocks: what `fedavg` gets as clients, by the owner's name.
    """

    name: str
    data: str
    owners: Mapping[str, Jobs]
    mocks: Mapping[str, tuple[Tensor, Tensor]]

    def __call__(
        self,
        module: nn.Module,
        starts: Sequence[Tree],
        data: Sequence[tuple[Tensor, Tensor]],
        local: Local,
        *,
        seeds: Sequence[int],
    ) -> list[LocalUpdate | FloatingPointError]:
        """Train as `local_updates` does, but at the owners; ``module`` is not used."""
        updates: list[LocalUpdate | FloatingPointError] = []
        for start, mock, seed in zip(starts, data, seeds, strict=True):
            found = [name for name, (x, _) in self.mocks.items() if x is mock[0]]
            if not found:
                raise ValueError(
                    f"a client is not one of job {self.name!r}: give fedavg Fleet(job.mocks, job)"
                )
            try:
                updates.append(self._at(found[0], start, seed, local))
            except FloatingPointError as error:
                updates.append(error)
        return updates

    def _at(self, owner: str, start: Tree, seed: int, local: Local) -> LocalUpdate:
        """Run the job at one owner and check its result."""
        jobs, place = self.owners[owner], f"{owner}, job {self.name!r}"
        reviewed = Local(**settings_of(jobs.approved(self.name).code), loss_fn=local.loss_fn)
        if local != reviewed:
            raise PermissionError(
                f"{place}: fedavg asks for {local}, but the owner has approved {reviewed}"
            )
        update = jobs.run(self.name, self.data, start=start, seed=seed)
        if not isinstance(update, LocalUpdate):
            raise TypeError(f"{place}: main() returned {type(update).__name__}, not a LocalUpdate")
        got, sent = ({key: [*t.shape] for key, t in of.items()} for of in (update.delta, start))
        if got != sent:
            raise ValueError(
                f"{place}: the update has {got}, the model {sent}. Nothing leaves {owner}"
            )
        return update
