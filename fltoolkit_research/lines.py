"""How long a run's messages take if each client has a line of its own, given by a table.

Here: the table, and the time of the messages so far. Not here: one link for all clients
(`seconds_on` in analysis.py), and how long clients compute (`fltoolkit.federated.Arrivals`).
"""

import csv
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from fltoolkit.channel import Transfer


class Line(NamedTuple):
    """A client's line: bytes per second in both directions, and seconds for each message.

    >>> Line(rate_up=1e6, rate_down=8e6, latency=0.05).rate_down
    8000000.0
    """

    rate_up: float
    rate_down: float
    latency: float = 0.0


def read_lines(path: str) -> dict[str, Line]:
    """The lines in a CSV file with the columns client, rate_up, rate_down and latency.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "homes.csv"
    >>> _ = path.write_text("client,rate_up,rate_down,latency\\nclient_0,1e6,8e6,0.05\\n")
    >>> read_lines(str(path))
    {'client_0': Line(rate_up=1000000.0, rate_down=8000000.0, latency=0.05)}
    """
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    wanted = {"client", *Line._fields}
    if not rows or not wanted <= rows[0].keys():
        raise ValueError(f"{path}: needs rows with the columns {', '.join(sorted(wanted))}")
    return {row["client"]: Line(*(float(row[name]) for name in Line._fields)) for row in rows}


class Lines:
    """The seconds that messages take on these lines; `Experiment`'s ``lines`` makes one.

    In each round (or step) a client's messages follow one another. If clients work side by side,
    as in averaging, a round takes as long as its slowest client; otherwise the times are added. A
    message between two clients takes the slower of their lines. Computing takes no time here.

    Args:
        table: for each client its `Line`. With fewer lines than clients, the lines are used in
            turn, in the order of the table.
        clients: the names of the clients.
        at_once: whether clients work side by side.

    >>> table = {"client_0": Line(100, 100), "client_1": Line(50, 100, latency=1)}
    >>> sent = [Transfer(1, name, "server", "update", 200, 200) for name in table]
    >>> Lines(table, [*table], at_once=True).until_now(sent)
    5.0
    """

    def __init__(self, table: Mapping[str, Line], clients: Sequence[str], at_once: bool):
        for name, line in table.items():
            if not (line.rate_up > 0 and line.rate_down > 0 and line.latency >= 0):
                raise ValueError(f"lines: {name} has {line}: rates above 0, latency 0 or more")
        if not table:
            raise ValueError("lines: the table is empty")
        in_turn = [*table.values()]
        self.lines = {
            name: table.get(name, in_turn[k % len(in_turn)]) for k, name in enumerate(clients)
        }
        self.at_once = at_once
        self._seconds, self._seen = 0.0, 0

    def until_now(self, transfers: Sequence[Transfer]) -> float:
        """The seconds of all messages; each call reads only the new ones."""
        steps: dict[int, dict[str, float]] = {}
        for transfer in transfers[self._seen :]:
            who = [name for name in (transfer.sender, transfer.receiver) if name in self.lines]
            for name in who[:1]:
                of_step = steps.setdefault(transfer.step, {})
                of_step[name] = of_step.get(name, 0.0) + self._takes(transfer, who)
        self._seen = len(transfers)
        for of_step in steps.values():
            together: Collection[float] = of_step.values()
            self._seconds += max(together) if self.at_once else sum(together)
        return self._seconds

    def _takes(self, transfer: Transfer, who: Sequence[str]) -> float:
        times = []
        for name in who:
            line = self.lines[name]
            rate = line.rate_up if name == transfer.sender else line.rate_down
            times.append(transfer.nbytes / rate + line.latency)
        return max(times)
