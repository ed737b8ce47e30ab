"""The field behind the gateway: a heating valve that is played. This is what you write for your own devices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from google.protobuf import json_format

from gateway.v1 import gateway_service_pb2 as wire

Answer = tuple[wire.CommandResultCode, str, str]


class SimulatedValve:
    """Moves to a position when it is told to, and says every now and then where it stands."""

    def __init__(self, name: str, interval: float, travel: float) -> None:
        """`interval`: seconds between two uplinks. `travel`: seconds that it takes to move."""
        self._name = name
        self._interval = interval
        self._travel = travel
        self._position = 0.0
        self._moved = asyncio.Event()

    async def deliver(self, command: wire.Command) -> Answer:
        """Does a command: called once for an execution, in time, one after another for a device. Result, code and message for the server."""
        if command.client_device_id != self._name:
            return wire.COMMAND_RESULT_CODE_UNREACHABLE, "unknown_device", f"this gateway has no device {command.client_device_id}"
        wanted = json_format.MessageToDict(command.json) if command.HasField("json") else None
        position = wanted.get("position") if isinstance(wanted, dict) else None
        if not isinstance(position, (int, float)) or not 0 <= position <= 100:
            return wire.COMMAND_RESULT_CODE_REJECTED, "bad_position", 'the valve takes {"position": 0 to 100}'
        print(f"the valve moves to {position} for {command.execution_id}", flush=True)
        await asyncio.sleep(self._travel)
        self._position = position
        self._moved.set()
        return wire.COMMAND_RESULT_CODE_ACCEPTED, "", f"position is {position}"

    async def uplinks(self) -> AsyncIterator[tuple[str, dict]]:
        """What devices send: the device, and what it says. Here at an interval, and at once when it has moved."""
        while True:
            yield self._name, {"position": self._position}
            try:
                await asyncio.wait_for(self._moved.wait(), self._interval)
            except TimeoutError:
                pass
            self._moved.clear()
