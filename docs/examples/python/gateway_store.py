"""Durable state of a gateway in SQLite: its identity, commands until their result is acknowledged, and uplinks until they are acknowledged."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.v1 import gateway_service_pb2 as wire

# The stages of a command, in order. DONE: the server acknowledged the result, and the ID stays stored so that the command is not repeated.
RECEIVED, STARTED, ANSWERED, DONE = "received", "started", "answered", "done"
# Maximum number of stored IDs of done commands.
MAX_DONE_COMMANDS = 10_000
# Maximum number of commands that Hello can list; further ones are refused.
MAX_COMMANDS = 10_000
# Maximum number of stored unacknowledged uplinks.
MAX_UPLINKS = 100_000

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
class StoredCommand:
    """A stored command with its stage."""

    stage: str
    command: wire.Command
    received: wire.CommandReceived
    result: wire.CommandResult | None
    machine_boot: str
    expires_at: float

    def is_in_time(self) -> bool:
        """Returns whether the deadline has certainly not passed. The clock restarts at each boot, so after a reboot it returns False."""
        return self.machine_boot == machine_boot() and seconds_since_boot() < self.expires_at


def seconds_since_boot() -> float:
    """Returns the seconds since boot, including sleep. Time corrections do not change it (Linux)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def machine_boot() -> str:
    """Returns the boot ID of the machine, which changes at each boot (Linux)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class GatewayStore:
    """Stores commands and uplinks. Each change is on disk when the method returns. Raises sqlite3.Error if a write fails."""

    def __init__(self, file: str, connection_id: str) -> None:
        """Opens or creates the file exclusively. Raises SystemExit if another process uses it, or it belongs to another connection."""
        self._db = sqlite3.connect(file, isolation_level=None, timeout=1)
        try:
            for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
                self._db.execute(f"PRAGMA {setting}").fetchall()
            self._db.executescript(SCHEMA)
        except sqlite3.OperationalError as error:
            raise SystemExit(f"cannot use {file}: {error}. Check that no other gateway uses it.") from error
        row = self._db.execute("SELECT gateway_id, connection_id FROM identity").fetchone()
        if row is None:
            row = (f"gateway-{uuid.uuid4()}", connection_id)
            self._db.execute("INSERT INTO identity VALUES (?, ?)", row)
        if row[1] != connection_id:
            raise SystemExit(f"{file} belongs to connection {row[1]}: use a separate file for each connection")
        self.gateway_id: str = row[0]
        self._uplinks: int = self._db.execute("SELECT count(*) FROM uplinks").fetchone()[0]

    def find(self, execution_id: str) -> StoredCommand | None:
        """Returns a command, or None if it was never received or its ID was deleted."""
        return next(self._commands("execution_id = ?", execution_id), None)

    def list_received(self) -> list[StoredCommand]:
        """Returns the commands that have not started, in the order of receipt."""
        return list(self._commands("stage = ?", RECEIVED))

    def list_unfinished(self) -> list[StoredCommand]:
        """Returns the commands that Hello must list."""
        return list(self._commands("stage <> ?", DONE))

    def is_full(self) -> bool:
        """Returns whether the store has MAX_COMMANDS unfinished commands."""
        return self._db.execute("SELECT count(*) FROM commands WHERE stage <> ?", (DONE,)).fetchone()[0] >= MAX_COMMANDS

    def add_command(self, command: wire.Command) -> wire.CommandReceived:
        """Stores a new command and returns its receipt."""
        expires_at = seconds_since_boot() + command.expires_in.ToNanoseconds() / 1e9
        received = wire.CommandReceived(execution_id=command.execution_id)
        received.time.GetCurrentTime()
        row = (command.execution_id, RECEIVED, command.SerializeToString(), received.SerializeToString(), machine_boot(), expires_at)
        self._db.execute("INSERT INTO commands (execution_id, stage, command, received, machine_boot, expires_at) VALUES (?, ?, ?, ?, ?, ?)", row)
        return received

    def mark_started(self, execution_id: str) -> None:
        """Marks a command as started: from now on it may reach the device."""
        self._db.execute("UPDATE commands SET stage = ? WHERE execution_id = ?", (STARTED, execution_id))

    def set_result(self, result: wire.CommandResult) -> None:
        """Stores the result of a command."""
        self._db.execute("UPDATE commands SET stage = ?, result = ? WHERE execution_id = ?", (ANSWERED, result.SerializeToString(), result.execution_id))

    def mark_done(self, execution_id: str) -> None:
        """Marks a command as done, because the server acknowledged its result."""
        self._db.execute("UPDATE commands SET stage = ? WHERE execution_id = ? AND stage = ?", (DONE, execution_id, ANSWERED))
        self._db.execute("DELETE FROM commands WHERE stage = ? AND sequence <= (SELECT max(sequence) FROM commands) - ?", (DONE, MAX_DONE_COMMANDS))

    def list_started(self) -> list[StoredCommand]:
        """Returns started commands without a result. After a restart it is unknown whether they reached their devices."""
        return list(self._commands("stage = ?", STARTED))

    def add_uplink(self, uplink: wire.Uplink) -> None:
        """Stores an uplink until it is acknowledged. Raises OverflowError if MAX_UPLINKS are stored."""
        if self._uplinks >= MAX_UPLINKS:
            raise OverflowError(f"{MAX_UPLINKS} uplinks are waiting for the server: discarded this one")
        self._db.execute("INSERT INTO uplinks (uplink_id, uplink) VALUES (?, ?)", (uplink.uplink_id, uplink.SerializeToString()))
        self._uplinks += 1

    def uplinks_after(self, sequence: int, limit: int) -> list[tuple[int, wire.Uplink]]:
        """Returns the next uplinks in storage order, with their sequence numbers."""
        rows = self._db.execute("SELECT sequence, uplink FROM uplinks WHERE sequence > ? ORDER BY sequence LIMIT ?", (sequence, limit))
        return [(number, wire.Uplink.FromString(uplink)) for number, uplink in rows]

    def delete_uplink(self, uplink_id: str) -> None:
        """Deletes an uplink that the server acknowledged or rejected."""
        self._uplinks -= self._db.execute("DELETE FROM uplinks WHERE uplink_id = ?", (uplink_id,)).rowcount

    def _commands(self, condition: str, value: str) -> Iterator[StoredCommand]:
        rows = self._db.execute(f"SELECT stage, command, received, result, machine_boot, expires_at FROM commands WHERE {condition} ORDER BY sequence", (value,))
        for stage, command, received, result, boot, expires_at in rows.fetchall():
            stored_result = None if result is None else wire.CommandResult.FromString(result)
            yield StoredCommand(stage, wire.Command.FromString(command), wire.CommandReceived.FromString(received), stored_result, boot, expires_at)
