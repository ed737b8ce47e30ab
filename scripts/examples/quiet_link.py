"""An idle watch with the channel of docs/examples/python/client.py, which sends pings every second instead of every 30.

    python quiet_link.py --address HOST:PORT --ca FILE

Prints `watching` when the watch has started, and `lost` when the connection is reported as broken.
"""

from __future__ import annotations

import argparse
import sys

import grpc

sys.path.insert(0, "docs/examples/python")

import client
import connect
from actuator_command.v2 import actuator_command_service_pb2 as commands
from actuator_command.v2.actuator_command_service_pb2_grpc import ActuatorCommandServiceStub

SHORTER = {"grpc.keepalive_time_ms": 1000, "grpc.keepalive_timeout_ms": 1000, "grpc.http2.ping_timeout_ms": 1000}

client.CHANNEL_OPTIONS = tuple((name, SHORTER.get(name, value)) for name, value in connect.CHANNEL_OPTIONS)
parser = argparse.ArgumentParser()
connect.add_server_arguments(parser)
with client.open_channel(connect.server_of(parser.parse_args())) as channel:
    try:
        for _ in ActuatorCommandServiceStub(channel).WatchExecutions(commands.WatchExecutionsRequest()):
            print("watching", flush=True)
    except grpc.RpcError as error:
        print("lost", error.details(), flush=True)
