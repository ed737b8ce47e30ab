"""The devices behind the gateway: a simulated heating valve. Replace this module for your own devices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from google.protobuf import json_format

from gateway.v1 import gateway_service_pb2 as wire

DeliveryResult = tuple[wire.CommandResultCode, str, str]


class SimulatedValve:
    """Moves to the commanded position and reports its position regularly."""

    def __init__(self, name: str, interval: float, travel: float) -> None:
        """`interval`: seconds between two uplinks. `travel`: seconds that it needs to move."""
        self._name = name
        self._interval = interval
        self._travel = travel
        self._position = 0.0
        self._moved = asyncio.Event()

    async def deliver(self, command: wire.Command) -> DeliveryResult:
        """Executes a command. Called once per execution, before its deadline, one at a time per device. Returns result, code and message."""
        if command.client_device_id != self._name:
            return wire.COMMAND_RESULT_CODE_UNREACHABLE, "unknown_device", f"this gateway has no device {command.client_device_id}"
        wanted = json_format.MessageToDict(command.json) if command.HasField("json") else None
        position = wanted.get("position") if isinstance(wanted, dict) else None
        if not isinstance(position, (int, float)) or not 0 <= position <= 100:
            return wire.COMMAND_RESULT_CODE_REJECTED, "bad_position", "`position` must be a number from 0 to 100"
        print(f"the valve moves to {position} for {command.execution_id}", flush=True)
        await asyncio.sleep(self._travel)
        self._position = position
        self._moved.set()
        return wire.COMMAND_RESULT_CODE_ACCEPTED, "", f"position is {position}"

    async def uplinks(self) -> AsyncIterator[tuple[str, dict]]:
        """Yields uplinks: the device and its values. This valve sends one at each interval and after each move."""
        while True:
            yield self._name, {"position": self._position}
            try:
                await asyncio.wait_for(self._moved.wait(), self._interval)
            except TimeoutError:
                pass
            self._moved.clear()
