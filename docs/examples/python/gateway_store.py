"""What a gateway must not forget: who it is, commands until their result is acknowledged, uplinks until they are. In SQLite, on disk."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.v1 import gateway_service_pb2 as wire

# A command goes this way and never back. `done`: the server has taken the result; only the id is kept, so that it is not done again.
RECEIVED, STARTED, ANSWERED, DONE = "received", "started", "answered", "done"
# So many ids of what is done are kept.
REMEMBERED = 10_000
# Hello can tell of so many commands; beyond that they are refused.
MOST_COMMANDS = 10_000
# So many uplinks are kept that the server has not taken.
MOST_UPLINKS = 100_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS identity (gateway_id TEXT NOT NULL, connection_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS commands (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  execution_id TEXT NOT NULL UNIQUE,
  stage TEXT NOT NULL,
  command BLOB NOT NULL,
  received BLOB NOT NULL,
  machine_boot TEXT NOT NULL,
  expires_at REAL NOT NULL,
  result BLOB
);
CREATE INDEX IF NOT EXISTS commands_by_stage ON commands (stage, sequence);
CREATE TABLE IF NOT EXISTS uplinks (sequence INTEGER PRIMARY KEY AUTOINCREMENT, uplink_id TEXT NOT NULL UNIQUE, uplink BLOB NOT NULL);
"""


@dataclass(frozen=True)
class KeptCommand:
    """A command, and how far it came."""

    stage: str
    command: wire.Command
    received: wire.CommandReceived
    result: wire.CommandResult | None
    machine_boot: str
    expires_at: float

    def is_in_time(self) -> bool:
        """Whether its deadline has provably not passed: the clock that it was counted on ends with the machine's start."""
        return self.machine_boot == machine_boot() and seconds_since_boot() < self.expires_at


def seconds_since_boot() -> float:
    """Counts from the start of the machine, also while it sleeps, and no correction of the time of day moves it (Linux)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def machine_boot() -> str:
    """Another one after each start of the machine (Linux)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class GatewayStore:
    """Each method that changes something returns when it is on disk. Raises sqlite3.Error when the disk takes nothing."""

    def __init__(self, file: str, connection_id: str) -> None:
        """Opens or makes the file, for this process alone. SystemExit if another process has it, or it belongs to another connection."""
        self._db = sqlite3.connect(file, isolation_level=None, timeout=1)
        try:
            for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
                self._db.execute(f"PRAGMA {setting}").fetchall()
            self._db.executescript(SCHEMA)
        except sqlite3.OperationalError as error:
            raise SystemExit(f"{file} cannot be used: {error}; is it another gateway's that is running?") from error
        row = self._db.execute("SELECT gateway_id, connection_id FROM identity").fetchone()
        if row is None:
            row = (f"gateway-{uuid.uuid4()}", connection_id)
            self._db.execute("INSERT INTO identity VALUES (?, ?)", row)
        if row[1] != connection_id:
            raise SystemExit(f"{file} belongs to the connection {row[1]}: give each connection a file of its own")
        self.gateway_id: str = row[0]
        self._uplinks: int = self._db.execute("SELECT count(*) FROM uplinks").fetchone()[0]

    def find(self, execution_id: str) -> KeptCommand | None:
        """None: it never came, or so long ago that its id is forgotten."""
        return next(self._commands("execution_id = ?", execution_id), None)

    def received(self) -> list[KeptCommand]:
        """What has not begun, in the order in which it came."""
        return list(self._commands("stage = ?", RECEIVED))

    def open(self) -> list[KeptCommand]:
        """All that the server has to be told of in Hello."""
        return list(self._commands("stage <> ?", DONE))

    def is_full(self) -> bool:
        """Whether it holds as many commands as Hello can tell of."""
        return self._db.execute("SELECT count(*) FROM commands WHERE stage <> ?", (DONE,)).fetchone()[0] >= MOST_COMMANDS

    def receive(self, command: wire.Command) -> wire.CommandReceived:
        """A command came: from now on it is this gateway's to carry out or to refuse. Returns what to tell the server, now and later."""
        expires_at = seconds_since_boot() + command.expires_in.ToNanoseconds() / 1e9
        received = wire.CommandReceived(execution_id=command.execution_id)
        received.time.GetCurrentTime()
        row = (command.execution_id, RECEIVED, command.SerializeToString(), received.SerializeToString(), machine_boot(), expires_at)
        self._db.execute("INSERT INTO commands (execution_id, stage, command, received, machine_boot, expires_at) VALUES (?, ?, ?, ?, ?, ?)", row)
        return received

    def start(self, execution_id: str) -> None:
        """From now on something may reach the device."""
        self._db.execute("UPDATE commands SET stage = ? WHERE execution_id = ?", (STARTED, execution_id))

    def answer(self, result: wire.CommandResult) -> None:
        """It came to its end here."""
        self._db.execute("UPDATE commands SET stage = ?, result = ? WHERE execution_id = ?", (ANSWERED, result.SerializeToString(), result.execution_id))

    def finish(self, execution_id: str) -> None:
        """The server has taken the result."""
        self._db.execute("UPDATE commands SET stage = ? WHERE execution_id = ? AND stage = ?", (DONE, execution_id, ANSWERED))
        self._db.execute("DELETE FROM commands WHERE stage = ? AND sequence <= (SELECT max(sequence) FROM commands) - ?", (DONE, REMEMBERED))

    def started(self) -> list[KeptCommand]:
        """What had begun and has no result. At the start of the program: nobody knows whether it reached its device."""
        return list(self._commands("stage = ?", STARTED))

    def keep(self, uplink: wire.Uplink) -> None:
        """An uplink waits for the server. OverflowError when too many do."""
        if self._uplinks >= MOST_UPLINKS:
            raise OverflowError(f"{MOST_UPLINKS} uplinks wait for the server: this one is not kept")
        self._db.execute("INSERT INTO uplinks (uplink_id, uplink) VALUES (?, ?)", (uplink.uplink_id, uplink.SerializeToString()))
        self._uplinks += 1

    def uplinks_after(self, sequence: int, limit: int) -> list[tuple[int, wire.Uplink]]:
        """The next ones in the order in which they were kept, with their place in it."""
        rows = self._db.execute("SELECT sequence, uplink FROM uplinks WHERE sequence > ? ORDER BY sequence LIMIT ?", (sequence, limit))
        return [(place, wire.Uplink.FromString(uplink)) for place, uplink in rows]

    def drop(self, uplink_id: str) -> None:
        """The server has taken it, or never will."""
        self._uplinks -= self._db.execute("DELETE FROM uplinks WHERE uplink_id = ?", (uplink_id,)).rowcount

    def _commands(self, condition: str, value: str) -> Iterator[KeptCommand]:
        rows = self._db.execute(f"SELECT stage, command, received, result, machine_boot, expires_at FROM commands WHERE {condition} ORDER BY sequence", (value,))
        for stage, command, received, result, boot, expires_at in rows.fetchall():
            kept = None if result is None else wire.CommandResult.FromString(result)
            yield KeptCommand(stage, wire.Command.FromString(command), wire.CommandReceived.FromString(received), kept, boot, expires_at)
