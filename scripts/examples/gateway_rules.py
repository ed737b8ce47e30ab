"""The small gateway of docs/examples/python against a server that is played: what a real one does seldom, and what no gateway may get wrong.

    python gateway_rules.py GATEWAY.py CERTIFICATE KEY CA FOLDER

Commands that come again, are withdrawn, or wait until it is too late; a stream that is cut; a kill while a command is under way.
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

# Seconds that the valve takes to move, and within which the gateway must say what is waited for.
TRAVEL = 1
PATIENCE = 10


class Stream:
    """One Attach stream, as the server sees it."""

    def __init__(self) -> None:
        self.received: asyncio.Queue = asyncio.Queue()
        self.to_send: asyncio.Queue = asyncio.Queue()
        self.uplinks: list[str] = []

    async def next(self, name: str):
        """The next message of this kind; uplinks are acknowledged, other kinds are passed over."""
        while True:
            message = await asyncio.wait_for(self.received.get(), PATIENCE)
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
        """The next results by execution: their name, and their code."""
        told = {}
        while len(told) < count:
            result = await self.next("command_result")
            assert result.HasField("time"), "a result must say when it was"
            name = wire.CommandResultCode.Name(result.result).removeprefix("COMMAND_RESULT_CODE_")
            told[result.execution_id] = f"{name} {result.code}".strip()
        return told

    def cut(self) -> None:
        self.to_send.put_nowait(None)


class PlayedServer(service.GatewayServiceServicer):
    """Gives each stream to the test."""

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


def known(hello: wire.Hello) -> dict[str, str]:
    """What Hello lists, by execution."""
    assert all(command.HasField("time") for command in hello.known), "what is known must say since when"
    return {command.execution_id: f"{wire.KnownStatus.Name(command.status).removeprefix('KNOWN_STATUS_')} {command.code}".strip() for command in hello.known}


def same(what: str, found, wanted) -> None:
    if found != wanted:
        raise SystemExit(f"{what}: found {found}, wanted {wanted}")


async def start(program: str, address: str, ca: str, folder: str) -> Process:
    """Starts the gateway. What it writes is kept over its starts."""
    environment = {**os.environ, "PLANTROOM_API_KEY": "key", "PLANTROOM_ORGANIZATION_ID": "organization"}
    flags = ("--address", address, "--ca", ca, "--connection", "c", "--store", f"{folder}/rules.db", "--interval", "0.2", "--travel", str(TRAVEL))
    with open(f"{folder}/rules.log", "a", encoding="utf8") as log:
        return await asyncio.create_subprocess_exec(sys.executable, program, *flags, env=environment, stdout=log)


async def repeated(stream: Stream) -> None:
    """A command that comes again is told of again, in the same words, and not done again."""
    stream.command("again")
    first = await stream.next("command_received")
    stream.command("again", attempt=2)
    same("the receipt of a repeated command", await stream.next("command_received"), first)
    result = await stream.next("command_result")
    stream.command("again", attempt=3)
    same("the result of a repeated command", await stream.next("command_result"), result)
    stream.send(command_result_ack=wire.CommandResultAck(execution_id="again", outcome=wire.RESULT_OUTCOME_APPLIED))


async def waiting(stream: Stream) -> None:
    """While the valve moves, others of its commands wait: one too long, one until it is withdrawn."""
    stream.command("moves")
    stream.command("late", seconds=0.3)
    stream.command("withdrawn")
    stream.command("elsewhere", device="nobody")
    stream.send(withdraw=wire.Withdraw(execution_id="withdrawn"))
    same("results", await stream.results(4), {"moves": "ACCEPTED", "late": "EXPIRED expired", "withdrawn": "UNREACHABLE withdrawn", "elsewhere": "UNREACHABLE unknown_device"})


async def main(program: str, certificate: str, key: str, ca: str, folder: str) -> None:
    server = PlayedServer()
    grpc_server = grpc.aio.server()
    service.add_GatewayServiceServicer_to_server(server, grpc_server)
    credentials = grpc.ssl_server_credentials([(Path(key).read_bytes(), Path(certificate).read_bytes())])
    address = f"localhost:{grpc_server.add_secure_port('localhost:0', credentials)}"
    await grpc_server.start()
    gateway = await start(program, address, ca, folder)
    try:
        stream = await server.streams.get()
        hello = await stream.next("hello")
        same("the first Hello", (hello.store, known(hello)), (wire.GATEWAY_STORE_DURABLE, {}))
        stream.send(welcome=wire.Welcome(max_in_flight=10))
        await repeated(stream)
        await waiting(stream)

        stream.command("under-way")
        stream.command("next")
        stream.command("too-late", seconds=0.8)
        for _ in range(3):
            await stream.next("command_received")
        gateway.kill()
        await gateway.wait()
        await asyncio.sleep(0.8)
        gateway = await start(program, address, ca, folder)
        then = await server.streams.get()
        second = await then.next("hello")
        same("who it is", (second.gateway_id, second.boot_id != hello.boot_id), (hello.gateway_id, True))
        kept = known(second)
        same("what had begun", kept["under-way"], "NO_ANSWER gateway_restarted")
        same("what was acknowledged", "again" in kept, False)
        then.send(welcome=wire.Welcome(max_in_flight=10, protocol_version=1, server_version="next"))
        told = await then.results(7)
        same("results after the kill", (told["under-way"], told["next"], told["too-late"]), ("NO_ANSWER gateway_restarted", "ACCEPTED", "EXPIRED expired"))

        then.cut()
        last = await server.streams.get()
        same("Hello after a cut", known(await last.next("hello")), told)
        last.send(welcome=wire.Welcome(max_in_flight=10))
        same("results after a cut", await last.results(len(told)), told)
        await check_log(Path(folder, "rules.log"), [stream, then, last])
    finally:
        gateway.kill()
        await gateway.wait()
        await grpc_server.stop(0)


def pauses(program: str) -> None:
    """What the server says of when to come again counts more than the gateway's own pauses."""
    sys.path.insert(0, str(Path(program).parent))
    from small_gateway import pause_after

    refusal = SimpleNamespace(status="RESOURCE_EXHAUSTED", reason="rate_limited", retry_after=timedelta(seconds=45))
    same("the pause after a refusal", pause_after(refusal, 1), 45)


async def check_log(log: Path, streams: list[Stream]) -> None:
    """The valve moved once for each command that was told as done or as begun; every uplink that was kept comes."""
    lines = log.read_text(encoding="utf8").splitlines()
    same("moves of the valve", sorted(line.split()[-1] for line in lines if line.startswith("the valve moves")), ["again", "moves", "next", "under-way"])
    missing = {line.split()[2] for line in lines if line.startswith("kept uplink")}
    while missing := missing - {uplink for stream in streams for uplink in stream.uplinks}:
        uplink = (await asyncio.wait_for(streams[-1].received.get(), PATIENCE)).uplink
        streams[-1].uplinks.append(uplink.uplink_id)


if __name__ == "__main__":
    pauses(sys.argv[1])
    asyncio.run(main(*sys.argv[1:]))
    print("rules kept")
