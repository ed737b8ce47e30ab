"""A small gateway: it attaches to a server, executes commands, and sends uplinks. No command is executed twice, and no stored uplink is lost.

    python small_gateway.py --connection ID --store gateway.db

It exits if it cannot write to the disk. Let systemd or another supervisor restart it: it continues with the stored state. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import uuid

import grpc

from connect import CHANNEL_OPTIONS, PlantroomError, Server, add_server_arguments, server_of
from gateway.v1 import gateway_service_pb2 as wire
from gateway.v1.gateway_service_pb2_grpc import GatewayServiceStub
from gateway_store import RECEIVED, GatewayStore, StoredCommand
from simulated_valve import DeliveryResult, SimulatedValve

# Maximum number of sent, unacknowledged uplinks.
WINDOW = 500
# Timeout of a delivery, in seconds. A delivery that exceeds it is reported as no_answer.
DELIVERY_TIMEOUT = 60
# These need a fix by a person. The gateway still retries, so that it recovers after the fix.
PERMANENT_ERRORS = ("UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "FAILED_PRECONDITION", "INVALID_ARGUMENT", "UNIMPLEMENTED")


class Attachment:
    """One Attach stream. Writes messages one at a time. Messages that cannot be sent are repeated on the next stream."""

    def __init__(self, call: grpc.aio.StreamStreamCall) -> None:
        self._call = call
        self._write_lock = asyncio.Lock()
        self.pending_uplinks: set[str] = set()

    async def send(self, **message) -> None:
        """Sends one AttachRequest."""
        async with self._write_lock:
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                await self._call.write(wire.AttachRequest(**message))


class SmallGateway:
    """Connects the store, the devices and the server. Exists across streams."""

    def __init__(self, server: Server, connection_id: str, store: GatewayStore, devices: SimulatedValve) -> None:
        self._server = server
        self._connection_id = connection_id
        self._store = store
        self._devices = devices
        self._boot_id = str(uuid.uuid4())
        self._attachment: Attachment | None = None
        self._uplinks_changed = asyncio.Event()
        # One lock per device: its commands are executed one at a time.
        self._device_locks: dict[str, asyncio.Lock] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Runs until an unrecoverable error occurs."""
        for stored in self._store.list_started():
            self._store.set_result(create_result(stored.command.execution_id, wire.COMMAND_RESULT_CODE_NO_ANSWER, "gateway_restarted", "the gateway stopped while the command was in progress"))
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for stored in self._store.list_received():
                tasks.create_task(self._execute(stored.command))
            tasks.create_task(self._store_uplinks())
            tasks.create_task(self._stay_attached())

    # The connection to the server.

    async def _stay_attached(self) -> None:
        failures = 0
        while True:
            error = await self._attach()
            failures = 0 if self._attachment else failures + 1
            self._attachment = None
            pause = pause_after(error, failures)
            print(f"detached: {error or 'the server ended the stream'}; retrying in {pause:.1f} s", flush=True)
            await asyncio.sleep(pause)

    async def _attach(self) -> PlantroomError | None:
        """Runs one stream. Returns its error, or None if the server ended it normally."""
        async with grpc.aio.secure_channel(self._server.address, self._server.credentials(), CHANNEL_OPTIONS) as channel:
            call = GatewayServiceStub(channel).Attach()
            attachment = Attachment(call)
            sender: asyncio.Task | None = None
            try:
                await attachment.send(hello=self._hello())
                async for response in call:
                    if response.HasField("welcome"):
                        print(f"attached to {response.welcome.server_version or 'a server'}, protocol {response.welcome.protocol_version or 1}", flush=True)
                        self._attachment = attachment
                        sender = self._tasks.create_task(self._send_stored(attachment))
                    else:
                        await self._handle_response(attachment, response)
                return None
            except grpc.RpcError as error:
                return PlantroomError(error)
            finally:
                if sender:
                    sender.cancel()

    def _hello(self) -> wire.Hello:
        """Returns Hello with the identity of the gateway and its unfinished commands."""
        return wire.Hello(
            connection_id=self._connection_id,
            gateway_id=self._store.gateway_id,
            boot_id=self._boot_id,
            store=wire.GATEWAY_STORE_DURABLE,
            known=[create_snapshot(stored) for stored in self._store.list_unfinished()],
            lowest_protocol_version=1,
            highest_protocol_version=1,
            software="small-gateway/1",
        )

    async def _send_stored(self, attachment: Attachment) -> None:
        """Sends everything that the server has not acknowledged. Hello lists the results too, but only command_result is acknowledged."""
        for stored in self._store.list_unfinished():
            if stored.result:
                await attachment.send(command_result=stored.result)
        await self._send_uplinks(attachment)

    async def _handle_response(self, attachment: Attachment, response: wire.AttachResponse) -> None:
        """Handles a message of the server."""
        match response.WhichOneof("message"):
            case "command":
                await self._handle_command(attachment, response.command)
            case "cancel_command":
                await self._cancel_command(attachment, response.cancel_command.execution_id)
            case "command_result_ack":
                self._store.mark_done(response.command_result_ack.execution_id)
            case "uplink_ack":
                self._handle_uplink_ack(attachment, response.uplink_ack)
            case None:
                pass  # a message type of a newer server

    # Commands.

    async def _handle_command(self, attachment: Attachment, command: wire.Command) -> None:
        """Stores a command, acknowledges it and starts it. For a known command, only repeats its receipt or result."""
        stored = self._store.find(command.execution_id)
        if stored:
            await self._repeat_status(attachment, stored)
        elif self._store.is_full():
            await attachment.send(command_result=create_result(command.execution_id, wire.COMMAND_RESULT_CODE_REFUSED, "gateway_full", "the gateway has too many commands"))
        else:
            await attachment.send(command_received=self._store.add_command(command))
            self._tasks.create_task(self._execute(command))

    async def _repeat_status(self, attachment: Attachment, stored: StoredCommand) -> None:
        if stored.result:
            await attachment.send(command_result=stored.result)
        else:
            await attachment.send(command_received=stored.received)

    async def _execute(self, command: wire.Command) -> None:
        """Waits for earlier commands of the device, then delivers the command unless it was cancelled or has expired."""
        execution_id = command.execution_id
        async with self._device_locks.setdefault(command.client_device_id, asyncio.Lock()):
            stored = self._store.find(execution_id)
            if stored is None or stored.stage != RECEIVED:
                return  # cancelled in the meantime
            if not stored.is_in_time():
                await self._report_result(execution_id, (wire.COMMAND_RESULT_CODE_EXPIRED, "expired", "the deadline passed before the command could start"))
                return
            self._store.mark_started(execution_id)
            await self._report_result(execution_id, await self._deliver(command))

    async def _deliver(self, command: wire.Command) -> DeliveryResult:
        """Delivers a command. Reports errors as no_answer, because it is unknown what reached the device."""
        try:
            return await asyncio.wait_for(self._devices.deliver(command), DELIVERY_TIMEOUT)
        except TimeoutError:
            return wire.COMMAND_RESULT_CODE_NO_ANSWER, "delivery_timeout", f"the device did not answer within {DELIVERY_TIMEOUT} s"
        except Exception as error:  # noqa: BLE001 - any error of the device code
            return wire.COMMAND_RESULT_CODE_NO_ANSWER, "delivery_failed", str(error)

    async def _cancel_command(self, attachment: Attachment, execution_id: str) -> None:
        """Handles the end of an execution on the server: cancels the command if it has not started, otherwise repeats its result."""
        stored = self._store.find(execution_id)
        if stored and stored.stage == RECEIVED:
            await self._report_result(execution_id, (wire.COMMAND_RESULT_CODE_UNREACHABLE, "cancelled", "cancelled before it was done"))
        elif stored and stored.result:
            await attachment.send(command_result=stored.result)

    async def _report_result(self, execution_id: str, delivery: DeliveryResult) -> None:
        result = create_result(execution_id, *delivery)
        self._store.set_result(result)
        if self._attachment:
            await self._attachment.send(command_result=result)

    # Uplinks.

    async def _store_uplinks(self) -> None:
        """Stores the uplinks of the devices."""
        async for device, values in self._devices.uplinks():
            uplink = wire.Uplink(uplink_id=str(uuid.uuid4()), client_device_id=device)
            uplink.json.update(values)
            uplink.time.GetCurrentTime()
            try:
                self._store.add_uplink(uplink)
            except OverflowError as error:
                print(error, flush=True)
                continue
            print(f"kept uplink {uplink.uplink_id} of {uplink.time.ToJsonString()}", flush=True)
            self._uplinks_changed.set()

    async def _send_uplinks(self, attachment: Attachment) -> None:
        """Sends stored and new uplinks in order, with at most WINDOW unacknowledged."""
        last = 0
        while True:
            self._uplinks_changed.clear()
            for sequence, uplink in self._store.uplinks_after(last, WINDOW - len(attachment.pending_uplinks)):
                attachment.pending_uplinks.add(uplink.uplink_id)
                await attachment.send(uplink=uplink)
                last = sequence
            await self._uplinks_changed.wait()

    def _handle_uplink_ack(self, attachment: Attachment, ack: wire.UplinkAck) -> None:
        if ack.outcome == wire.UPLINK_OUTCOME_REJECTED:
            print(f"uplink {ack.uplink_id} was rejected: {ack.reason}", flush=True)
        attachment.pending_uplinks.discard(ack.uplink_id)
        self._store.delete_uplink(ack.uplink_id)
        self._uplinks_changed.set()


def create_result(execution_id: str, result: wire.CommandResultCode, code: str, message: str) -> wire.CommandResult:
    """Creates a result with the current time. Cuts long texts, because the server would reject them and end the stream."""
    command_result = wire.CommandResult(execution_id=execution_id, result=result, code=code[:128], message=message[:2000])
    command_result.time.GetCurrentTime()
    return command_result


def create_snapshot(stored: StoredCommand) -> wire.CommandSnapshot:
    """Creates the entry of a command in Hello."""
    if stored.result is None:
        return wire.CommandSnapshot(execution_id=stored.command.execution_id, status=wire.COMMAND_SNAPSHOT_STATUS_RECEIVED, time=stored.received.time)
    # CommandSnapshotStatus has RECEIVED first, then the codes of CommandResultCode in the same order.
    status = stored.result.result + 1
    return wire.CommandSnapshot(execution_id=stored.result.execution_id, status=status, code=stored.result.code, message=stored.result.message, time=stored.result.time)


def pause_after(error: PlantroomError | None, failures: int) -> float:
    """Returns the delay before the next attempt, in seconds."""
    if error and error.reason == "gateway_replaced":
        return 30  # another gateway serves the connection; an earlier attempt would be rejected
    if error and error.status in PERMANENT_ERRORS:
        return 60
    wait = error.retry_after.total_seconds() if error and error.retry_after else 0.0
    return max(wait, min(30.0, 2.0 ** min(failures, 5)) * random.uniform(0.5, 1))


def main() -> None:
    """Parses the command line and runs until stopped."""
    parser = argparse.ArgumentParser(description="A small gateway with a simulated heating valve.")
    add_server_arguments(parser)
    parser.add_argument("--connection", required=True, help="the ID of a connection of connector type gateway")
    parser.add_argument("--store", required=True, help="the store file; use one per gateway")
    parser.add_argument("--device", default="valve-1", help="the client device ID of the valve (%(default)s)")
    parser.add_argument("--interval", type=float, default=30, help="seconds between two uplinks (%(default)s)")
    parser.add_argument("--travel", type=float, default=0.2, help="seconds that the valve needs to move (%(default)s)")
    arguments = parser.parse_args()
    store = GatewayStore(arguments.store, arguments.connection)
    valve = SimulatedValve(arguments.device, arguments.interval, arguments.travel)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(SmallGateway(server_of(arguments), arguments.connection, store, valve).run())


if __name__ == "__main__":
    sys.exit(main())
