"""A small gateway: it attaches to a Plantroom, carries out commands, and sends uplinks. Nothing is done twice, nothing that was kept is lost.

    python small_gateway.py --connection ID --store gateway.db

It ends when its disk takes nothing: start it again by systemd or the like, and it goes on with what the store holds. For Linux.
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
from gateway_store import RECEIVED, GatewayStore, KeptCommand
from simulated_valve import Answer, SimulatedValve

# So many uplinks are on their way without an acknowledgement.
WINDOW = 500
# A delivery that takes longer is told as no_answer, in seconds.
DELIVERY_TIMEOUT = 60
# The server will not take it as it is: a person must act. It is tried again all the same, for what is mended should work.
REFUSALS = ("UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "FAILED_PRECONDITION", "INVALID_ARGUMENT", "UNIMPLEMENTED")


class Attachment:
    """One Attach stream. Writes one message after another; what cannot leave any more is told again on the next stream."""

    def __init__(self, call: grpc.aio.StreamStreamCall) -> None:
        self._call = call
        self._turn = asyncio.Lock()
        self.uplinks_under_way: set[str] = set()

    async def tell(self, **message) -> None:
        """Sends one AttachRequest."""
        async with self._turn:
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                await self._call.write(wire.AttachRequest(**message))


class SmallGateway:
    """Holds the store and the field together. It outlives the streams."""

    def __init__(self, server: Server, connection_id: str, store: GatewayStore, field: SimulatedValve) -> None:
        self._server = server
        self._connection_id = connection_id
        self._store = store
        self._field = field
        self._boot_id = str(uuid.uuid4())
        self._attachment: Attachment | None = None
        self._uplinks_changed = asyncio.Event()
        # One after another for each device.
        self._turns: dict[str, asyncio.Lock] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Runs until something fails that it cannot mend."""
        for kept in self._store.started():
            self._store.answer(result_of(kept.command.execution_id, wire.COMMAND_RESULT_CODE_NO_ANSWER, "gateway_restarted", "the gateway ended while the command was under way"))
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for kept in self._store.received():
                tasks.create_task(self._carry_out(kept.command))
            tasks.create_task(self._keep_uplinks())
            tasks.create_task(self._stay_attached())

    # The link.

    async def _stay_attached(self) -> None:
        failures = 0
        while True:
            error = await self._attach()
            failures = 0 if self._attachment else failures + 1
            self._attachment = None
            pause = pause_after(error, failures)
            print(f"detached: {error or 'the server ended the stream'}; again in {pause:.1f} s", flush=True)
            await asyncio.sleep(pause)

    async def _attach(self) -> PlantroomError | None:
        """One stream from Hello to its end. The error that it ended with; None: it ended in peace."""
        async with grpc.aio.secure_channel(self._server.address, self._server.credentials(), CHANNEL_OPTIONS) as channel:
            call = GatewayServiceStub(channel).Attach()
            attachment = Attachment(call)
            sender: asyncio.Task | None = None
            try:
                await attachment.tell(hello=self._hello())
                async for response in call:
                    if response.HasField("welcome"):
                        print(f"attached to {response.welcome.server_version or 'a server'}, protocol {response.welcome.protocol_version or 1}", flush=True)
                        self._attachment = attachment
                        sender = self._tasks.create_task(self._send_kept(attachment))
                    else:
                        await self._take(attachment, response)
                return None
            except grpc.RpcError as error:
                return PlantroomError(error)
            finally:
                if sender:
                    sender.cancel()

    def _hello(self) -> wire.Hello:
        """Who this is, and every command that it holds."""
        return wire.Hello(
            connection_id=self._connection_id,
            gateway_id=self._store.gateway_id,
            boot_id=self._boot_id,
            store=wire.GATEWAY_STORE_DURABLE,
            known=[known_of(kept) for kept in self._store.open()],
            lowest_protocol_version=1,
            highest_protocol_version=1,
            software="small-gateway/1",
        )

    async def _send_kept(self, attachment: Attachment) -> None:
        """All that the server has not acknowledged. Hello told the results already, but only command_result is answered by an acknowledgement."""
        for kept in self._store.open():
            if kept.result:
                await attachment.tell(command_result=kept.result)
        await self._send_uplinks(attachment)

    async def _take(self, attachment: Attachment, response: wire.AttachResponse) -> None:
        """What the server sends."""
        match response.WhichOneof("message"):
            case "command":
                await self._take_command(attachment, response.command)
            case "withdraw":
                await self._withdraw(attachment, response.withdraw.execution_id)
            case "command_result_ack":
                self._store.finish(response.command_result_ack.execution_id)
            case "uplink_ack":
                self._take_uplink_ack(attachment, response.uplink_ack)
            case None:
                pass  # a newer server says something that this gateway does not know yet

    # Commands.

    async def _take_command(self, attachment: Attachment, command: wire.Command) -> None:
        """Keeps a command, says so, and has it carried out. One that is known is told of again, never done again."""
        kept = self._store.find(command.execution_id)
        if kept:
            await self._tell_again(attachment, kept)
        elif self._store.is_full():
            await attachment.tell(command_result=result_of(command.execution_id, wire.COMMAND_RESULT_CODE_REFUSED, "gateway_full", "the gateway holds too many commands"))
        else:
            await attachment.tell(command_received=self._store.receive(command))
            self._tasks.create_task(self._carry_out(command))

    async def _tell_again(self, attachment: Attachment, kept: KeptCommand) -> None:
        if kept.result:
            await attachment.tell(command_result=kept.result)
        else:
            await attachment.tell(command_received=kept.received)

    async def _carry_out(self, command: wire.Command) -> None:
        """Its turn among the commands of its device; then it is delivered, if it is still wanted and in time."""
        execution_id = command.execution_id
        async with self._turns.setdefault(command.client_device_id, asyncio.Lock()):
            kept = self._store.find(execution_id)
            if kept is None or kept.stage != RECEIVED:
                return  # withdrawn meanwhile
            if not kept.is_in_time():
                await self._answer(execution_id, (wire.COMMAND_RESULT_CODE_EXPIRED, "expired", "its deadline passed before it could be done"))
                return
            self._store.start(execution_id)
            await self._answer(execution_id, await self._deliver(command))

    async def _deliver(self, command: wire.Command) -> Answer:
        """What goes wrong from here on is told as no_answer: nobody knows what reached the device."""
        try:
            return await asyncio.wait_for(self._field.deliver(command), DELIVERY_TIMEOUT)
        except TimeoutError:
            return wire.COMMAND_RESULT_CODE_NO_ANSWER, "delivery_timeout", f"the device did not answer within {DELIVERY_TIMEOUT} s"
        except Exception as error:  # noqa: BLE001 - whatever the field throws
            return wire.COMMAND_RESULT_CODE_NO_ANSWER, "delivery_failed", str(error)

    async def _withdraw(self, attachment: Attachment, execution_id: str) -> None:
        """The execution ended on the server. What has not begun is dropped; of the rest its end is told."""
        kept = self._store.find(execution_id)
        if kept and kept.stage == RECEIVED:
            await self._answer(execution_id, (wire.COMMAND_RESULT_CODE_UNREACHABLE, "withdrawn", "withdrawn before it was done"))
        elif kept and kept.result:
            await attachment.tell(command_result=kept.result)

    async def _answer(self, execution_id: str, answer: Answer) -> None:
        result = result_of(execution_id, *answer)
        self._store.answer(result)
        if self._attachment:
            await self._attachment.tell(command_result=result)

    # Uplinks.

    async def _keep_uplinks(self) -> None:
        """From the field to the disk. What is kept reaches the server."""
        async for device, values in self._field.uplinks():
            uplink = wire.Uplink(uplink_id=str(uuid.uuid4()), client_device_id=device)
            uplink.json.update(values)
            uplink.time.GetCurrentTime()
            try:
                self._store.keep(uplink)
            except OverflowError as error:
                print(error, flush=True)
                continue
            print(f"kept uplink {uplink.uplink_id} of {uplink.time.ToJsonString()}", flush=True)
            self._uplinks_changed.set()

    async def _send_uplinks(self, attachment: Attachment) -> None:
        """All that are kept, in their order, and what comes; never more than a window without an acknowledgement."""
        last = 0
        while True:
            self._uplinks_changed.clear()
            for sequence, uplink in self._store.uplinks_after(last, WINDOW - len(attachment.uplinks_under_way)):
                attachment.uplinks_under_way.add(uplink.uplink_id)
                await attachment.tell(uplink=uplink)
                last = sequence
            await self._uplinks_changed.wait()

    def _take_uplink_ack(self, attachment: Attachment, ack: wire.UplinkAck) -> None:
        if ack.outcome == wire.UPLINK_OUTCOME_REJECTED:
            print(f"uplink {ack.uplink_id} was rejected: {ack.reason}", flush=True)
        attachment.uplinks_under_way.discard(ack.uplink_id)
        self._store.drop(ack.uplink_id)
        self._uplinks_changed.set()


def result_of(execution_id: str, result: wire.CommandResultCode, code: str, message: str) -> wire.CommandResult:
    """A result that happened now. Longer texts would break a rule of the server, which ends the stream."""
    told = wire.CommandResult(execution_id=execution_id, result=result, code=code[:128], message=message[:2000])
    told.time.GetCurrentTime()
    return told


def known_of(kept: KeptCommand) -> wire.KnownCommand:
    """A command as Hello lists it."""
    if kept.result is None:
        return wire.KnownCommand(execution_id=kept.command.execution_id, status=wire.KNOWN_STATUS_RECEIVED, time=kept.received.time)
    # KnownStatus is RECEIVED, then the codes of CommandResultCode in their order.
    status = kept.result.result + 1
    return wire.KnownCommand(execution_id=kept.result.execution_id, status=status, code=kept.result.code, message=kept.result.message, time=kept.result.time)


def pause_after(error: PlantroomError | None, failures: int) -> float:
    """Seconds until the next attempt."""
    if error and error.reason == "gateway_replaced":
        return 30  # another one serves the connection; sooner it would be refused
    if error and error.status in REFUSALS:
        return 60
    wait = error.retry_after.total_seconds() if error and error.retry_after else 0.0
    return max(wait, min(30.0, 2.0 ** min(failures, 5)) * random.uniform(0.5, 1))


def main() -> None:
    """Reads the command line and runs until it is stopped."""
    parser = argparse.ArgumentParser(description="A small gateway with a heating valve that is played.")
    add_server_arguments(parser)
    parser.add_argument("--connection", required=True, help="the connection that it serves, of connector type gateway")
    parser.add_argument("--store", required=True, help="its file; one for each gateway")
    parser.add_argument("--device", default="valve-1", help="the valve, as the connection knows it (%(default)s)")
    parser.add_argument("--interval", type=float, default=30, help="seconds between two uplinks (%(default)s)")
    parser.add_argument("--travel", type=float, default=0.2, help="seconds that the valve takes to move (%(default)s)")
    arguments = parser.parse_args()
    store = GatewayStore(arguments.store, arguments.connection)
    valve = SimulatedValve(arguments.device, arguments.interval, arguments.travel)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(SmallGateway(server_of(arguments), arguments.connection, store, valve).run())


if __name__ == "__main__":
    sys.exit(main())
