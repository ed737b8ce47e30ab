"""Tests the small gateway of docs/examples/python against a fake server that behaves as a real one does only rarely.

    python gateway_rules.py GATEWAY.py CERTIFICATE KEY CA FOLDER

It sends repeated, cancelled and expired commands, cuts the stream, and kills the gateway while a command is in progress.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import Process
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import grpc

from gateway.v1 import gateway_service_pb2 as wire
from gateway.v1 import gateway_service_pb2_grpc as service

# Seconds that the valve needs to move, and the maximum time to wait for a message of the gateway.
TRAVEL = 1
MAX_WAIT = 10


class Stream:
    """The server side of one Attach stream."""

    def __init__(self) -> None:
        self.received: asyncio.Queue = asyncio.Queue()
        self.to_send: asyncio.Queue = asyncio.Queue()
        self.uplinks: list[str] = []

    async def next(self, name: str):
        """Returns the next message of this kind. Acknowledges uplinks and skips other kinds."""
        while True:
            message = await asyncio.wait_for(self.received.get(), MAX_WAIT)
            if message.HasField("uplink"):
                self.uplinks.append(message.uplink.uplink_id)
                self.send(uplink_ack=wire.UplinkAck(uplink_id=message.uplink.uplink_id, outcome=wire.UPLINK_OUTCOME_STORED))
            if message.HasField(name):
                return getattr(message, name)

    def send(self, **message) -> None:
        self.to_send.put_nowait(wire.AttachResponse(**message))

    def command(self, execution_id: str, seconds: float = 60, attempt: int = 1, device: str = "valve-1") -> None:
        command = wire.Command(execution_id=execution_id, attempt=attempt, client_device_id=device)
        command.expires_in.FromMilliseconds(int(seconds * 1000))
        command.json.struct_value.update({"position": 5})
        self.send(command=command)

    async def results(self, count: int) -> dict[str, str]:
        """Returns the next results by execution: result name and code."""
        results = {}
        while len(results) < count:
            result = await self.next("command_result")
            assert result.HasField("time"), "a result must contain its time"
            name = wire.CommandResultCode.Name(result.result).removeprefix("COMMAND_RESULT_CODE_")
            results[result.execution_id] = f"{name} {result.code}".strip()
        return results

    def cut(self) -> None:
        self.to_send.put_nowait(None)


class FakeServer(service.GatewayServiceServicer):
    """Passes each stream to the test."""

    def __init__(self) -> None:
        self.streams: asyncio.Queue[Stream] = asyncio.Queue()

    async def Attach(self, requests, context):  # noqa: N802 - named by the proto
        stream = Stream()
        metadata = dict(context.invocation_metadata())
        assert (metadata["x-api-key"], metadata["x-organization-id"]) == ("key", "organization")
        await self.streams.put(stream)
        reader = asyncio.create_task(self._read(requests, stream))
        while (message := await stream.to_send.get()) is not None:
            await context.write(message)
        reader.cancel()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "cut")

    @staticmethod
    async def _read(requests, stream: Stream) -> None:
        async for request in requests:
            stream.received.put_nowait(request)


def list_known(hello: wire.Hello) -> dict[str, str]:
    """Returns the commands that Hello lists, by execution."""
    assert all(command.HasField("time") for command in hello.known), "a known command must contain its time"
    return {command.execution_id: f"{wire.CommandSnapshotStatus.Name(command.status).removeprefix('COMMAND_SNAPSHOT_STATUS_')} {command.code}".strip() for command in hello.known}


def assert_equal(what: str, found, expected) -> None:
    if found != expected:
        raise SystemExit(f"{what}: got {found}, expected {expected}")


async def start(program: str, address: str, ca: str, folder: str) -> Process:
    """Starts the gateway. Its output is appended to one file across starts."""
    environment = {**os.environ, "PLANTROOM_API_KEY": "key", "PLANTROOM_ORGANIZATION_ID": "organization"}
    flags = ("--address", address, "--ca", ca, "--connection", "c", "--store", f"{folder}/rules.db", "--interval", "0.2", "--travel", str(TRAVEL))
    with open(f"{folder}/rules.log", "a", encoding="utf8") as log:
        return await asyncio.create_subprocess_exec(sys.executable, program, *flags, env=environment, stdout=log)


async def check_repeated_commands(stream: Stream) -> None:
    """A repeated command gets the same receipt and result, and is not carried out again."""
    stream.command("again")
    first = await stream.next("command_received")
    stream.command("again", attempt=2)
    assert_equal("the receipt of a repeated command", await stream.next("command_received"), first)
    result = await stream.next("command_result")
    stream.command("again", attempt=3)
    assert_equal("the result of a repeated command", await stream.next("command_result"), result)
    stream.send(command_result_ack=wire.CommandResultAck(execution_id="again", outcome=wire.RESULT_OUTCOME_APPLIED))


async def check_waiting_commands(stream: Stream) -> None:
    """While the valve moves, its other commands wait; one expires and one is cancelled."""
    stream.command("moves")
    stream.command("late", seconds=0.3)
    stream.command("cancelled")
    stream.command("elsewhere", device="nobody")
    stream.send(cancel_command=wire.CancelCommand(execution_id="cancelled"))
    assert_equal("results", await stream.results(4), {"moves": "ACCEPTED", "late": "EXPIRED expired", "cancelled": "UNREACHABLE cancelled", "elsewhere": "UNREACHABLE unknown_device"})


async def main(program: str, certificate: str, key: str, ca: str, folder: str) -> None:
    server = FakeServer()
    grpc_server = grpc.aio.server()
    service.add_GatewayServiceServicer_to_server(server, grpc_server)
    credentials = grpc.ssl_server_credentials([(Path(key).read_bytes(), Path(certificate).read_bytes())])
    address = f"localhost:{grpc_server.add_secure_port('localhost:0', credentials)}"
    await grpc_server.start()
    gateway = await start(program, address, ca, folder)
    try:
        stream = await server.streams.get()
        hello = await stream.next("hello")
        assert_equal("the first Hello", (hello.store, list_known(hello)), (wire.GATEWAY_STORE_DURABLE, {}))
        stream.send(welcome=wire.Welcome(max_in_flight=10))
        await check_repeated_commands(stream)
        await check_waiting_commands(stream)

        stream.command("under-way")
        stream.command("next")
        stream.command("too-late", seconds=0.8)
        for _ in range(3):
            await stream.next("command_received")
        gateway.kill()
        await gateway.wait()
        await asyncio.sleep(0.8)
        gateway = await start(program, address, ca, folder)
        second_stream = await server.streams.get()
        second = await second_stream.next("hello")
        assert_equal("gateway and boot id", (second.gateway_id, second.boot_id != hello.boot_id), (hello.gateway_id, True))
        kept = list_known(second)
        assert_equal("the command that had started", kept["under-way"], "NO_ANSWER gateway_restarted")
        assert_equal("the acknowledged command", "again" in kept, False)
        second_stream.send(welcome=wire.Welcome(max_in_flight=10, protocol_version=1, server_version="next"))
        results = await second_stream.results(7)
        assert_equal("results after the kill", (results["under-way"], results["next"], results["too-late"]), ("NO_ANSWER gateway_restarted", "ACCEPTED", "EXPIRED expired"))

        second_stream.cut()
        last = await server.streams.get()
        assert_equal("Hello after a cut", list_known(await last.next("hello")), results)
        last.send(welcome=wire.Welcome(max_in_flight=10))
        assert_equal("results after a cut", await last.results(len(results)), results)
        await check_log(Path(folder, "rules.log"), [stream, second_stream, last])
    finally:
        gateway.kill()
        await gateway.wait()
        await grpc_server.stop(0)


def check_retry_delay(program: str) -> None:
    """The retry delay of the server overrides the gateway's own delays."""
    sys.path.insert(0, str(Path(program).parent))
    from small_gateway import pause_after

    refusal = SimpleNamespace(status="RESOURCE_EXHAUSTED", reason="rate_limited", retry_after=timedelta(seconds=45))
    assert_equal("the pause after a refusal", pause_after(refusal, 1), 45)


async def check_log(log: Path, streams: list[Stream]) -> None:
    """The valve moved once for each command that was reported as done or started; every stored uplink arrives."""
    lines = log.read_text(encoding="utf8").splitlines()
    assert_equal("moves of the valve", sorted(line.split()[-1] for line in lines if line.startswith("the valve moves")), ["again", "moves", "next", "under-way"])
    missing = {line.split()[2] for line in lines if line.startswith("kept uplink")}
    while missing := missing - {uplink for stream in streams for uplink in stream.uplinks}:
        uplink = (await asyncio.wait_for(streams[-1].received.get(), MAX_WAIT)).uplink
        streams[-1].uplinks.append(uplink.uplink_id)


if __name__ == "__main__":
    check_retry_delay(sys.argv[1])
    asyncio.run(main(*sys.argv[1:]))
    print("all rules are followed")
