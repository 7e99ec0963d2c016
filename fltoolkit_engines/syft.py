"""PySyft datasites on one Google Drive: each owner keeps its own data.

Here: `MockDrive`, a Drive in this process for lessons and tests, and `Datasite`, one owner with its
peers, data sets, permissions and messages. This is the only file that imports syft. Notebook 09
runs it, and docs/engines_syft.md explains what syft protects and what it does not protect.

syft 0.10 has no remote tensors: it synchronizes folders over Google Drive. To change another
owner's folder, one proposes a file. The file waits in the owner's inbox on the Drive, as JSON in
tar.gz, encrypted for the owner and signed. The owner accepts it if the permissions allow the
change. A message of this package is such a file, ``messages/<sender's e-mail>/<path>``.
"""

import contextlib
import io
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from fltoolkit.trees import Tree
from fltoolkit.wire import WireError, pack, unpack

try:
    from syft.sync.connections.drive import gdrive_transport
    from syft.sync.connections.drive.mock_drive_service import (
        MockDriveBackingStore,
        MockDriveService,
    )
    from syft.sync.login import _init_client_login
    from syft.sync.messages.proposed_filechange import (
        ProposedFileChange,
        ProposedFileChangesMessage,
    )
    from syft.sync.utils.syftbox_utils import check_env
    from syft_perms import SyftPermContext
    from syft_rds import Environment, SyftRDSClient, SyftRDSClientConfig
except ImportError as error:
    raise ImportError(
        f"fltoolkit_engines.syft needs PySyft, and importing it failed: {error}. Install it with\n"
        '    pip install "syft>=0.10,<0.11" "syft-rds>=0.6.1,<0.7"\n'
        "syft does not run on native Windows; use WSL or Colab there."
    ) from error

__all__ = ["Datasite", "MockDrive", "quiet"]

FRAME = "tree.flt"  # a data set is one frame of wire.py
HOW = {"has_do_role": True, "has_ds_role": True, "encryption": True}  # each owner logs in


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress what is printed inside the ``with``: syft prints many lines of progress."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


# ----------------------------------------------------------------------------------- the Drive


class MockDrive:
    """A simulated Google Drive, made by syft, for parties in this process.

    It simulates the protocol, not the security: all datasites are folders of one user on one
    machine. But actions through `Datasite` are refused as they would be between machines.
    """

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="fltoolkit-syft-")
        self.folder = Path(self._temporary.name)  # is deleted with this object
        self.store = MockDriveBackingStore()
        self.lock = threading.RLock()  # syft's stand-in is not made for two threads
        self.names: set[str] = set()

    def join(self, name: str) -> "Datasite":
        """A new datasite on this Drive; its e-mail is ``name@example.org``.

        While it logs in, syft uses this Drive in place of Google's, and ``folder`` as home folder.
        """
        if name in self.names:
            raise ValueError(f"name={name!r} is taken: give another one than {sorted(self.names)}")
        self.names.add(name)
        email, token = f"{name}@example.org", self.folder / f"{name}.json"
        token.write_text(json.dumps({"client_id": email, "client_secret": "", "refresh_token": ""}))

        def build(credentials: Any, *_: Any, **__: Any) -> MockDriveService:
            return MockDriveService(self.store, credentials.client_id)

        with (
            self.lock,
            quiet(),
            patch.dict(os.environ, HOME=str(self.folder)),
            patch.object(gdrive_transport, "build_drive_service", build),
        ):
            config = SyftRDSClientConfig.for_jupyter(email, token_path=token, **HOW)
            return Datasite(config, lock=self.lock)

    def files(self) -> dict[str, bytes]:
        """Everything that the operator of the Drive can read: names and contents of all files."""
        return {f"{f.name} [{key}]": f.content for key, f in self.store.files.items() if f.content}


# ---------------------------------------------------------------------------------- one owner


class Datasite:
    """One owner on a Drive: its peers, its data sets, and what others may do in its folder.

    `MockDrive.join` makes one, or `login` for a Google account. Other datasites are named by the
    part of their e-mail before the @, or by the whole e-mail.
    """

    def __init__(self, config: SyftRDSClientConfig, *, lock: Any = None):
        self.client = SyftRDSClient.from_config(config)
        _init_client_login(self.client.sync_engine, sync=True, load_peers=True)
        self.email: str = self.client.email
        self.name = self.email.partition("@")[0]
        self.folder = Path(self.client.syftbox_folder) / self.email
        self.lock = lock or contextlib.nullcontext()

    @classmethod
    def login(cls, email: str, token_path: str | os.PathLike[str] | None = None) -> "Datasite":
        """Log in to Google Drive. In Colab a window opens; elsewhere ``token_path`` is needed.

        Unlike syft's ``login_do`` and ``login_ds`` it encrypts. No test runs it.
        """
        with quiet():
            if check_env() == Environment.COLAB:
                return cls(SyftRDSClientConfig.for_colab(email, **HOW))
            return cls(SyftRDSClientConfig.for_jupyter(email, token_path=token_path, **HOW))

    # ---- peers

    def ask(self, peer: str) -> None:
        """Ask another owner to be a peer. No message can be sent until that owner accepts."""
        email = peer if "@" in peer else f"{peer}@{self.email.partition('@')[2]}"
        with self.lock, quiet():
            self.client.add_peer(email, verbose=False, sync=False)
            self.allow(email, f"messages/{email}/")

    def requests(self) -> list[str]:
        """The e-mails of owners who have asked and wait for an answer."""
        with self.lock, quiet():
            self.client.load_peers()
        return [peer.email for peer in self.client.peer_manager.requested_by_peer_peers]

    def accept(self, peer: str) -> None:
        """Accept an owner who has asked. Then both may send messages and submit jobs."""
        asking = _called(peer, self.requests())
        if not asking:
            raise PermissionError(f"{self.name} cannot accept {peer!r}, who has not asked")
        with self.lock, quiet():
            self.client.approve_peer_request(asking[0], verbose=False)
            self.allow(asking[0], f"messages/{asking[0]}/")

    def peers(self) -> list[str]:
        """The e-mails of all accepted peers, whichever side has asked."""
        with self.lock, quiet():
            self.client.load_peers()
        return sorted(peer.email for peer in self.client.peer_manager.approved_peers)

    def peer(self, name: str) -> str:
        """The e-mail of an accepted peer. Raises PermissionError for a stranger."""
        known = [peer.email for peer in self.client.peer_manager.approved_peers]
        if found := _called(name, known) or _called(name, self.peers()):  # which asks the Drive
            return found[0]
        raise PermissionError(
            f"{self.name} and {name} are no peers: one of them asks, {self.name}.ask({name!r}) or "
            f"{name}.ask({self.name!r}), and the other accepts"
        )

    # ---- data sets, and files in each other's folders

    def publish(self, name: str, private: Tree, *, to: Sequence[str]) -> None:
        """Publish a data set: a mock part for the owners in ``to``, and a private part.

        The private part stays here. The mock part is stored on the Drive without encryption: zeros
        of the same shapes, so the number of samples is public.
        """
        mock = {key: torch.zeros_like(t) for key, t in private.items()}
        users = [self.peer(other) for other in to]
        with tempfile.TemporaryDirectory() as folder, self.lock, quiet():
            for part, tree in (("mock", mock), ("private", private)):
                (Path(folder) / part).mkdir()
                (Path(folder) / part / FRAME).write_bytes(pack(tree))
            self.client.create_dataset(
                name,
                mock_path=Path(folder) / "mock" / FRAME,
                private_path=Path(folder) / "private" / FRAME,
                users=users,
                upload_private=False,  # True would put it on the Drive, and unencrypted
            )

    def mock(self, name: str, owner: str | None = None) -> Tree:
        """The mock part of this owner's or a peer's data set."""
        self.sync()
        return _tree(self._dataset(name, owner).mock_files)

    def private(self, name: str, owner: str | None = None) -> Tree:
        """This owner's private part of a data set. Raises PermissionError for a peer's."""
        found = self._dataset(name, owner)
        try:
            return _tree(found.private_files)
        except (FileNotFoundError, StopIteration):
            whose = found.owner.partition("@")[0]
            raise PermissionError(
                f"{self.name} cannot read the private part of {name!r}: it has never left "
                f"{whose}'s datasite. Read the mock, {self.name}.mock({name!r}, {whose!r}), or "
                "submit a job that its owner may review"
            ) from None

    def _dataset(self, name: str, owner: str | None) -> Any:
        email = self.email if owner in (None, self.name, self.email) else self.peer(str(owner))
        return self.client.dataset_manager.get(name, datasite=email)

    def allow(self, peer: str, folder: str) -> None:
        """Let a peer write into a folder of this datasite, e.g. ``"notes/"``."""
        email = peer if "@" in peer else self.peer(peer)
        SyftPermContext(datasite=self.folder).open(folder).grant_write_access(email)

    def write(self, owner: str, path: str, text: str) -> None:
        """Propose a file for a peer's folder. Without permission syft drops it without an error."""
        with self.lock, quiet():
            watcher = self.client.sync_engine.datasite_watcher_syncer
            watcher.on_file_change(Path(self.peer(owner)) / path, content=text)

    def read(self, path: str) -> str:
        """A text file of this datasite, after receiving the changes that peers proposed."""
        self.sync()
        if not (self.folder / path).is_file():
            raise FileNotFoundError(
                f"{self.name} has no {path!r}. syft drops a file without permission and does not "
                f"tell the writer: call {self.name}.allow(peer, folder) before the peer writes it"
            )
        return (self.folder / path).read_text()

    def sync(self) -> None:
        """Receive mocks, files, jobs and results that peers have proposed or shared."""
        with self.lock, quiet():
            self.client.sync()

    # ---- messages

    def post(self, receiver: str, path: str, content: bytes) -> int:
        """Send a file into a peer's inbox; returns the bytes that went to the Drive."""
        email, store = self.peer(receiver), self.client.peer_manager.peer_store
        change = ProposedFileChange(
            path_in_datasite=Path("messages") / self.email / path,
            content=content,
            datasite_email=email,
        )
        message = ProposedFileChangesMessage(
            sender_email=self.email, proposed_file_changes=[change]
        )
        # not encrypt_if_needed, which sends plaintext where a peer's key is not known
        data = store.encrypt(email, message.as_compressed_data())
        with self.lock:
            self._drive().watcher_send_raw_bytes_to_inbox(
                email, message.message_filename.as_string(), data
            )
        return len(data)

    def take(self, sender: str) -> tuple[str, bytes, int] | None:
        """The oldest message from a peer: path, content, bytes on the Drive; None if there is none.

        A message is moved to the archive even if it is bad, so that it does not block later ones.

        Raises:
            PermissionError: the sender is no peer, or claims to be somebody else, or may not write
                there.
            WireError: the message is damaged or cannot be decrypted.
        """
        email, syncer = self.peer(sender), self.client.sync_engine.datasite_owner_syncer
        while True:
            with self.lock:
                found = self._drive().owner_download_next_raw_proposed_message_from_inbox(email)
                if found is None:
                    return None
                raw, file_id = found
                try:
                    message = self.open(raw, email)
                except WireError:
                    self._archive(email, file_id)
                    raise
                changes = message.proposed_file_changes
                path = changes[0].path_in_datasite.as_posix() if changes else ""
                ours = len(changes) == 1 and path.startswith("messages/")
                if ours or message.sender_email != email:
                    self._archive(email, file_id)
                else:  # a job or another file, which syft handles
                    with quiet():
                        syncer.pull_and_process_next_proposed_filechange(email)
                        syncer.process_syftbox_events_queue()
                    continue
            if message.sender_email != email or not path.startswith(f"messages/{email}/"):
                raise PermissionError(
                    f"{self.name} refuses a message from {email}'s inbox that claims to come from "
                    f"{message.sender_email} ({path!r}); syft itself would accept it"
                )
            if not syncer.check_write_permission(email, path):
                raise PermissionError(
                    f"{self.name} refuses a message of {email}, who may not write to {path!r}. "
                    f"{self.name}.allow({email!r}, 'messages/{email}/') would permit it"
                )
            return path.removeprefix(f"messages/{email}/"), changes[0].content, len(raw)

    def open(self, raw: bytes, sender: str) -> ProposedFileChangesMessage:
        """Read a message from the Drive: check the sender's signature, then decrypt."""
        store, email = self.client.peer_manager.peer_store, self.peer(sender)
        try:
            store.verify_message(email, raw)
            return ProposedFileChangesMessage.from_compressed_data(store.decrypt(email, raw))
        except Exception as error:  # of four libraries, the Rust one's among them
            raise WireError(
                f"{self.name} cannot open a message from {email}: it was not encrypted for "
                f"{self.name}, or damaged on its way ({error})"
            ) from error

    def _drive(self) -> Any:
        return self.client.peer_manager.connection_router.connections[0]

    def _archive(self, sender: str, file_id: str) -> None:
        done = ProposedFileChangesMessage(sender_email=sender, proposed_file_changes=[])
        done.platform_id = file_id
        self._drive().owner_remove_proposed_filechange_message_from_inbox(done)


def _tree(files: Sequence[Path]) -> Tree:
    """The frame among the files of a part of a data set."""
    return unpack(next(path for path in files if path.name == FRAME).read_bytes())


def _called(name: str, emails: Sequence[str]) -> list[str]:
    """The e-mails equal to ``name``, or with ``name`` before the @: at most one."""
    found = [email for email in emails if name == email]
    found = found or [email for email in emails if name == email.partition("@")[0]]
    if len(found) > 1:
        raise PermissionError(f"{name!r} may be any of {found}: give the whole e-mail")
    return found
