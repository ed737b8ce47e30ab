"""Lists the devices, executes a command on one of them, and watches the execution until it is final.

    python client.py --device ID --command ID --params '{"position": 40}'

Without --device it only lists the devices. Exit code 0: the command succeeded; 1: it did not, or a call failed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import uuid
from collections.abc import Iterator

import grpc
from google.protobuf import json_format, struct_pb2

from actuator_command.v2 import actuator_command_service_pb2 as commands
from actuator_command.v2.actuator_command_service_pb2_grpc import ActuatorCommandServiceStub
from connect import CHANNEL_OPTIONS, PlantroomError, Server, add_server_arguments, server_of
from digitaldevice.v2 import digital_device_service_pb2 as devices
from digitaldevice.v2.digital_device_service_pb2_grpc import DigitalDeviceServiceStub

# Deadline of a call, in seconds. Streams have no deadline.
DEADLINE = 30
# A watch is resumed after these: the server is unreachable or temporarily overloaded.
RETRYABLE_STATUSES = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED")

# gRPC retries these automatically, with up to 5 attempts: reads, and ExecuteCommand, which is safe only because it has a trigger ID.
SAFE_TO_REPEAT = [
    {"service": "digitaldevice.v2.DigitalDeviceService", "method": "ListDigitalDevices"},
    {"service": "actuator_command.v2.ActuatorCommandService", "method": "GetExecution"},
    {"service": "actuator_command.v2.ActuatorCommandService", "method": "ExecuteCommand"},
]
RETRIES = {
    "methodConfig": [
        {
            "name": SAFE_TO_REPEAT,
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.2s",
                "maxBackoff": "5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


def open_channel(server: Server) -> grpc.Channel:
    """Opens a channel. Open one and use it for all calls."""
    return grpc.secure_channel(server.address, server.credentials(), (*CHANNEL_OPTIONS, ("grpc.service_config", json.dumps(RETRIES))))


def list_devices(stub: DigitalDeviceServiceStub, page_size: int = 100) -> Iterator[devices.DigitalDevice]:
    """Yields all devices, page by page."""
    page_token = ""
    while True:
        page = stub.ListDigitalDevices(devices.ListDigitalDevicesRequest(limit=page_size, page_token=page_token), timeout=DEADLINE)
        yield from page.devices
        page_token = page.next_page_token
        if not page_token:
            return


def execute(stub: ActuatorCommandServiceStub, device_id: str, command_id: str, params: dict) -> str:
    """Executes a command and returns the execution ID. Exits the program if the command was rejected."""
    request = commands.ExecuteCommandRequest(
        id=device_id,
        command_id=command_id,
        params=json_format.ParseDict(params, struct_pb2.Struct()),
        # If this request is repeated within 7 days, the server returns the execution that it already created for this ID.
        trigger_id=str(uuid.uuid4()),
    )
    response = stub.ExecuteCommand(request, timeout=DEADLINE)
    if not response.accepted:
        violations = [f"{violation.field}: {violation.description}" for violation in response.violations]
        raise SystemExit(f"not admitted: {commands.RejectionReason.Name(response.rejection_reason)} {'; '.join(violations)}")
    return response.execution_id


def watch(stub: ActuatorCommandServiceStub, execution_id: str) -> Iterator[commands.Execution]:
    """Yields the execution after each event until it is final. Resumes after a lost connection without missing an event."""
    token, final, failures = "", False, 0
    while not final:
        wait = 0.0
        try:
            request = commands.WatchExecutionsRequest(execution_id=execution_id, resume_token=token, ends_when_final=True)
            for response in stub.WatchExecutions(request):
                if token:
                    execution = response.execution if response.HasField("execution") else None
                else:
                    # The first response to a request without a token only marks the start of the watch. Read the state from before it.
                    execution = stub.GetExecution(commands.GetExecutionRequest(execution_id=execution_id), timeout=DEADLINE)
                # Store the token only now: if the read failed, the next stream must also start without a token.
                token, failures = response.resume_token, 0
                if execution is not None:
                    final = execution.HasField("finished_at")
                    yield execution
        except grpc.RpcError as error:
            failure = PlantroomError(error)
            if failure.reason == "resume_token_expired":
                token = ""
            elif failure.status not in RETRYABLE_STATUSES:
                raise
            wait = failure.retry_after.total_seconds() if failure.retry_after else 0.0
            print(f"the link was lost; going on ({failure.message})", file=sys.stderr, flush=True)
        if not final:
            time.sleep(max(wait, 0.5 * 2 ** min(failures, 6) * random.uniform(0.5, 1)))
            failures += 1


def format_state(execution: commands.Execution) -> str:
    """Returns the state name as in docs/executions.md, such as `converged`."""
    return commands.ExecutionState.Name(execution.state).removeprefix("EXECUTION_STATE_").lower()


def run(arguments: argparse.Namespace) -> int:
    """Lists, executes, watches. Returns the exit code."""
    with open_channel(server_of(arguments)) as channel:
        for device in list_devices(DigitalDeviceServiceStub(channel)):
            print(f"device {device.id} {device.name}", flush=True)
        if arguments.device is None:
            return 0
        stub = ActuatorCommandServiceStub(channel)
        execution_id = execute(stub, arguments.device, arguments.command, arguments.params)
        print(f"execution {execution_id}", flush=True)
        state = ""
        for execution in watch(stub, execution_id):
            state = format_state(execution)
            print(f"state {state} {execution.detail}".rstrip(), flush=True)
        return 0 if state in ("converged", "accepted_no_l4") else 1


def main() -> int:
    """Parses the command line and prints errors."""
    parser = argparse.ArgumentParser(description="Lists devices, executes a command, and watches it until it is final.")
    add_server_arguments(parser)
    parser.add_argument("--device", help="the device to execute the command on")
    parser.add_argument("--command", help="a command of the device")
    parser.add_argument("--params", type=json.loads, default={}, help="its parameters as JSON")
    arguments = parser.parse_args()
    if (arguments.device is None) != (arguments.command is None):
        parser.error("give both --device and --command, or neither")
    try:
        return run(arguments)
    except grpc.RpcError as error:
        failure = PlantroomError(error)
        print(failure, file=sys.stderr)
        for name, description in failure.violations:
            print(f"  {name} {description}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
