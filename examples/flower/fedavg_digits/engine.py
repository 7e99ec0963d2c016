"""Federated averaging over Flower: `fedavg` at the server, its clients on Flower's nodes.

Here: a ClientApp and a ServerApp for any model and data; copy this file into an app of your own.
The server runs `fltoolkit.federated.fedavg` unchanged, with a channel whose messages Flower
carries, as bytes in a ConfigRecord named ``fltoolkit``. Not here: split learning, because a Flower
message takes seconds when deployed, which is too slow for it. Notebook 10 runs this engine.
"""

import io
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_to_proto
from flwr.serverapp import Grid, ServerApp
from torch import Tensor, nn

import fltoolkit
from fltoolkit.channel import Channel, Delivery
from fltoolkit.codecs.base import Codec
from fltoolkit.federated.client import Local, LocalUpdate
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.federated.rounds import fedavg
from fltoolkit.federated.server import SERVER
from fltoolkit.federated.workers import Fleet, send_update
from fltoolkit.history import Record
from fltoolkit.links import Link
from fltoolkit.party import LossFn, uncompiled
from fltoolkit.trees import Tree
from fltoolkit_engines.flower_meter import check_codecs
from fltoolkit_engines.remote import absent

__all__ = ["ClientSetup", "FlowerError", "Letters", "ServerSetup", "client_app", "server_app"]

RECORD = "fltoolkit"  # the name of the record in Flower's messages and in a node's state
HOW = ("lr", "prox", "batch_size", "epochs", "steps")  # settings of clients that the server decides


class FlowerError(RuntimeError):
    """A node has other settings than the server, or its training failed because of a mistake."""


class Addressed(dict):
    """A stand-in for what another process has decoded: an empty dict with the receiver's name."""

    def __init__(self, receiver: str):
        super().__init__()
        self.receiver = receiver


@dataclass
class ClientSetup:
    """What a node has: the client's name, its data, and a model of the server's shape.

    ``codecs`` and ``loss_fn`` must be the same as at the server. The learning rate and the other
    settings come with each message. Two nodes must not have the same name.
    """

    name: str
    model: nn.Module
    x: Tensor
    y: Tensor
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    loss_fn: LossFn = nn.functional.nll_loss


@dataclass
class ServerSetup:
    """What the server has: the model, the codecs, and the settings of `fedavg`.

    ``settings`` are keyword arguments of `fedavg`: ``rounds``, ``cohort``, ``local`` and so on; a
    ``server`` among them has neither ``tune`` nor a name of its own. The clients take steps of
    plain SGD with the settings of ``local``; each node uses its own ``loss_fn``. A node that does
    not answer within ``reply_seconds`` (of real time) is left out of the round.
    """

    model: nn.Module
    settings: Mapping[str, Any]
    num_nodes: int  # the server waits for this many nodes before it begins
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    on_record: Callable[[Record], None] = print  # e.g. ``History(path="run.jsonl").append``
    on_end: "Callable[[Letters], None]" = lambda channel: None
    reply_seconds: float = 600.0


# ---------------------------------------------------------------------------------- the channel


class Letters(Channel):
    """A channel with one end in this process: messages wait in ``out`` and ``come`` for Flower.

    >>> server, node = Letters({}, here="server"), Letters({}, here="alice")
    >>> _ = server.send("server", "alice", "model", {"w": torch.ones(2)})
    >>> _, node.come["server"] = server.out["alice"]  # this is what Flower does
    >>> node.send("server", "alice", "model", {})
    {'w': tensor([1., 1.])}
    """

    def __init__(self, codecs: Mapping[str, Codec], here: str):
        super().__init__(codecs)
        self.here = here
        self.out: dict[str, tuple[str, bytes]] = {}  # by receiver: kind and message
        self.come: dict[str, bytes] = {}  # by sender
        self.nbytes_moved = 0  # all bytes that Flower carried, as protobuf

    def cross(self, link: Link, tree: Tree) -> Delivery:
        """Encode a message that is sent from here, or decode one that has come from elsewhere."""
        sender, receiver, kind = link
        if sender == self.here:
            message = self.links.codecs_of(link).sending.encode(tree)
            self.out[receiver] = kind, message
            self.count(link, message, tree)
            return Delivery(Addressed(receiver), b"")
        if sender not in self.come:  # the node did not answer, so nothing was sent
            return Delivery({}, b"")
        message = self.come.pop(sender)
        received = self.decode(link, message)
        self.count(link, message, received)
        return Delivery(received, message)


# ----------------------------------------------------------------------------------- the client


def client_app(setup: Callable[[Context], ClientSetup]) -> ClientApp:
    """A ClientApp that learns by `local_updates` and sends what `fedavg`'s clients send.

    What its codecs remember, such as residuals, stays in the node's state.

    Args:
        setup: makes the `ClientSetup` from Flower's context, e.g. with the data of
            ``context.node_config["partition-id"]``. It is called for each message.
    """
    app = ClientApp()

    @app.query()
    def introduce(message: Message, context: Context) -> Message:
        client = setup(context)
        about = ConfigRecord({"name": client.name, "num_samples": len(client.y), **_fits(client)})
        return Message(RecordDict({RECORD: about}), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = setup(context)
        channel = Letters(client.codecs, client.name)
        if RECORD in context.state.config_records:
            saved = io.BytesIO(context.state[RECORD]["channel"])
            channel.load_state_dict(torch.load(saved, weights_only=True))
        letter = dict(message.content[RECORD])
        channel.step, channel.transfers = letter["step"], []
        channel.come[SERVER] = letter["message"]
        update = _learn(client, channel, letter)
        kind, answer = channel.out.pop(SERVER)
        channel.transfers = []
        file = io.BytesIO()
        torch.save(channel.state_dict(), file)
        context.state[RECORD] = ConfigRecord({"channel": file.getvalue()})
        content = RecordDict({RECORD: ConfigRecord({"kind": kind, "message": answer})})
        loss = update.loss if isinstance(update, LocalUpdate) else math.nan
        content["metrics"] = MetricRecord({"loss": loss})  # for the experimenter's records
        return Message(content, reply_to=message)

    return app


def _learn(
    client: ClientSetup, channel: Letters, letter: Mapping[str, Any]
) -> LocalUpdate | FloatingPointError:
    """A client's round: the update that it sends, or why it sends that its training failed."""
    start = channel.send(SERVER, client.name, letter["kind"], {})
    how: dict[str, Any] = {name: letter.get(name) for name in HOW}
    local = Local(**how, loss_fn=client.loss_fn)
    samples = [(client.x, client.y)]
    (update,) = local_updates(
        uncompiled(client.model), [start], samples, local, seeds=[letter["seed"]], chunk=1
    )
    send_update(client.name, SERVER, update, channel)
    return update


# ----------------------------------------------------------------------------------- the server


def server_app(setup: Callable[[Context], ServerSetup]) -> ServerApp:
    """A ServerApp that runs `fedavg` with Flower's nodes as clients, sorted by name.

    With the same settings, clients and seed as in process, the weights and the ledger are the same
    (to the bit where `fedavg` trains clients one by one, ``partial(local_updates, chunk=1)``).
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        serve(grid, setup(context))

    return app


def serve(grid: Grid, server: ServerSetup) -> Letters:
    """Run the ServerApp; returns the channel, whose ledger holds every message."""
    _check(server)
    channel = Letters(server.codecs, SERVER)
    nodes, sizes = _introduced(grid, server, channel)
    clients = {name: (absent(sizes[name]), absent(sizes[name])) for name in sorted(nodes)}

    def train(
        model: nn.Module,
        starts: Sequence[Tree],
        data: Sequence[Any],
        local: Local,
        *,
        seeds: Sequence[int],
    ) -> list[LocalUpdate | FloatingPointError]:
        names = [start.receiver for start in starts if isinstance(start, Addressed)]
        how = {name: getattr(local, name) for name in HOW}
        chosen = {name: value for name, value in how.items() if value is not None}
        letters = {}
        for name, seed in zip(names, seeds, strict=True):
            kind, message = channel.out.pop(name)
            letter = {"kind": kind, "message": message, "step": channel.step, "seed": seed}
            letters[nodes[name]] = letter | chosen
        channel.out.clear()
        answers = _ask(grid, letters, "train", channel, server.reply_seconds)
        return [_outcome(channel, name, answers.get(nodes[name])) for name in names]

    for record in fedavg(server.model, Fleet(clients, train), channel, **server.settings):
        server.on_record(record)
    server.on_end(channel)
    return channel


def _check(server: ServerSetup) -> None:
    """Raise ValueError for settings and codecs that cannot be used over Flower."""
    central, local = (server.settings.get(name) for name in ("server", "local"))
    if central and (central.tune or central.name != SERVER):
        raise ValueError(f"{central}: over Flower there is no tune and no other name: leave it out")
    if local and (local.optimizer or local.clip_norm):
        raise ValueError(f"{local}: over Flower clients take steps of plain SGD, without clip_norm")
    check_codecs(server.codecs)


def _outcome(
    channel: Letters, name: str, answer: Message | None
) -> LocalUpdate | FloatingPointError:
    """Store a node's answer in the channel, where `send_update` will read it."""
    if answer is None:
        return FloatingPointError("the node did not answer")
    letter = answer.content[RECORD]
    channel.come[name] = letter["message"]
    if letter["kind"] == "control":
        return FloatingPointError("the client reports that its training failed")
    return LocalUpdate({}, answer.content["metrics"]["loss"], num_samples=0, num_steps=0)


def _introduced(
    grid: Grid, server: ServerSetup, channel: Letters
) -> tuple[dict[str, int], dict[str, int]]:
    """Ask all nodes who they are; returns {name: node id} and {name: number of samples}."""
    end = time.monotonic() + server.reply_seconds
    while len(ids := sorted(grid.get_node_ids())) < server.num_nodes:
        if time.monotonic() > end:
            raise FlowerError(
                f"{len(ids)} nodes have come in {server.reply_seconds:g} s, num_nodes="
                f"{server.num_nodes}: start more SuperNodes, or wait for fewer"
            )
        time.sleep(0.5)
    nodes: dict[str, int] = {}
    sizes = {}
    answers = _ask(grid, {node: {} for node in ids}, "query", channel, server.reply_seconds)
    if len(answers) < len(ids):
        raise FlowerError(
            f"{len(ids) - len(answers)} of the nodes {ids} did not introduce themselves"
        )
    for node, answer in answers.items():
        about = answer.content[RECORD]
        name = about["name"]
        for what, mine in _fits(server).items():
            if about[what] != mine:
                raise FlowerError(
                    f"{name!r} (node {node}) has {what} {about[what]}, the server has {mine}. Both "
                    "must be the same"
                )
        if name in nodes:
            raise FlowerError(f"nodes {nodes[name]} and {node} are both called {name!r}")
        nodes[name], sizes[name] = node, about["num_samples"]
    return nodes, sizes


def _ask(
    grid: Grid,
    letters: Mapping[int, Mapping[str, Any]],
    what: str,
    channel: Letters,
    seconds: float,
) -> dict[int, Message]:
    """Send each node its message and wait; returns the answers that came, by node."""
    messages = [
        Message(
            RecordDict({RECORD: ConfigRecord(dict(letter))}),
            dst_node_id=node,
            message_type=what,
            group_id=str(channel.step),
        )
        for node, letter in letters.items()
    ]
    channel.nbytes_moved += sum(message_to_proto(message).ByteSize() for message in messages)
    answers = {}
    for answer in grid.send_and_receive(messages, timeout=seconds):
        node = answer.metadata.src_node_id
        if not answer.has_error():
            channel.nbytes_moved += message_to_proto(answer).ByteSize()
            answers[node] = answer
        elif answer.error.code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION:
            raise FlowerError(f"step {channel.step}, node {node}: {answer.error.reason}")
        else:
            warnings.warn(f"node {node}, step {channel.step}: {answer.error.reason}", stacklevel=2)
    return answers


def _fits(side: ClientSetup | ServerSetup) -> dict[str, str]:
    """The values that must be equal at server and client, as texts."""
    shapes = {
        name: list(tensor.shape) for name, tensor in uncompiled(side.model).state_dict().items()
    }
    codecs = {kind: repr(codec) for kind, codec in sorted(side.codecs.items())}
    return {"fltoolkit": fltoolkit.__version__, "codecs": str(codecs), "shapes": str(shapes)}
