import { Option, type Command } from 'commander';
import { withTarget } from '../call/command';
import { parseCommaList, parseDuration, withJson } from '../options';
import type * as simulateChirpStack from './chirpStack/simulateChirpStack';
import type { ChirpStackFlags } from './chirpStack/simulateChirpStack';
import type * as simulateGateway from './gateway/simulateGateway';
import type { GatewayFlags } from './gateway/simulateGateway';
import type * as simulateMqtt from './mqtt/simulateMqtt';
import type { MqttFlags } from './mqtt/simulateMqtt';

// gRPC and the MQTT client are only loaded by the simulation that needs them.
const loadGateway = (): typeof simulateGateway => require('./gateway/simulateGateway');
const loadMqtt = (): typeof simulateMqtt => require('./mqtt/simulateMqtt');
const loadChirpStack = (): typeof simulateChirpStack => require('./chirpStack/simulateChirpStack');

const DEVICES = `Commands of the devices. Each device reports its new state with its next uplink:
  valve  {"position": 0 to 100}, or byte 01 and the position
  relay  {"relay": 0 or 1, "on": true or false}, or two bytes: relay and state
Both store all other fields of an object as settings, and report them too. A room sensor accepts no commands.`;

const BINARY_PAYLOAD = `With --binary-payload a reading is sent as bytes: each number in hundredths, two bytes, big-endian. For a valve: position, temperature and battery.`;

const STORE = `With --store the single binary extracts SQLite's native module (3 MB) next to the file, into .runtime; it can be deleted together with the file.`;

const MQTT_RESPONSES = `The command determines whether devices respond:
  a response topic (MQTT 5)   the response is sent there, with the command's correlation data
  a field "id" in its JSON    the response is sent to --answer-topic, with the same "id"
The response is {"status": "ok", "message": ...}; for a rejected command, the status is an error code.`;

const DEV_EUIS = `A device is identified by its DevEUI: valve-1 is 0200000000000101, relay-1 0200000000000201, room-1 0200000000000301 (the last byte is the number).
An id such as valve-24e124136b502217 contains the DevEUI itself. Relays are class C devices, all others class A: they only receive after an uplink.`;

/** Adds `plantroom simulate` and its subcommands; the default is a gateway. */
export function addSimulate(program: Command): void {
  const simulate = program
    .command('simulate')
    .description('Simulate a gateway, MQTT devices or a ChirpStack, to try Plantroom without hardware');
  addGateway(simulate);
  addMqtt(simulate);
  addChirpStack(simulate);
}

function addGateway(simulate: Command): void {
  withSimulationOptions(
    withTarget(
      withJson(
        simulate
          .command('gateway', { isDefault: true })
          .description('Simulate a gateway with a heating valve, a relay and a room sensor'),
      ),
    ),
  )
    .requiredOption('--connection <id>', 'Connection to attach to, of connector type gateway')
    .option(
      '--gateway-id <gateway-id>',
      'Gateway ID to announce (default: a new one at each start, or the stored one with --store)',
    )
    .option('--no-receipts', 'Do not send command_received, only the result')
    .option('--volatile', 'Report a VOLATILE store (commands are lost on restart)')
    .option(
      '--store <file>',
      'Store commands and uplinks in this SQLite file, so that they survive a restart (default: in memory)',
    )
    .option('--binary-payload', 'Send the readings as undecoded bytes')
    .addHelpText('after', `\n${DEVICES}\n\n${BINARY_PAYLOAD}\n\n${STORE}`)
    .action((flags: GatewayFlags) => loadGateway().simulateGateway(flags));
}

function addMqtt(simulate: Command): void {
  withSimulationOptions(
    withBrokerOptions(
      withJson(
        simulate
          .command('mqtt')
          .description('Simulate MQTT devices on a broker: a heating valve, a relay and a room sensor'),
      ),
    ),
  )
    .option('--uplink-topic <template>', 'Topic for uplinks', 'plantroom/{clientDeviceId}/up')
    .option('--command-topic <template>', 'Topic for commands', 'plantroom/{clientDeviceId}/down')
    .option(
      '--answer-topic <template>',
      'Topic for responses to commands with an "id"',
      'plantroom/{clientDeviceId}/answer',
    )
    .addHelpText('after', `\n${DEVICES}\n\n${MQTT_RESPONSES}`)
    .action((flags: MqttFlags) => loadMqtt().simulateMqtt(flags));
}

function addChirpStack(simulate: Command): void {
  withSimulationOptions(
    withBrokerOptions(
      withJson(
        simulate
          .command('chirpstack')
          .description('Simulate the MQTT integration (JSON) of a ChirpStack v4 with LoRaWAN devices'),
      ),
    ),
  )
    .requiredOption('--application <id>', 'Application of the devices, a UUID')
    .option(
      '--join <time>',
      'Interval at which devices rejoin, which clears their queues without an event',
      parseDuration,
    )
    .option('--binary-payload', 'Send the readings as bytes, like a ChirpStack without a codec for the devices')
    .addHelpText('after', `\n${DEVICES}\n\n${BINARY_PAYLOAD}\n\n${DEV_EUIS}`)
    .action((flags: ChirpStackFlags) => loadChirpStack().simulateChirpStack(flags));
}

function withSimulationOptions(command: Command): Command {
  return command
    .option(
      '--devices <ids>',
      'Devices to simulate: IDs that start with valve, relay or room (default: valve-1,relay-1,room-1)',
      parseCommaList,
    )
    .addOption(
      new Option('--interval <time>', 'Time between two uplinks of a device; 0: only after a command')
        .argParser(parseDuration)
        .default(30_000, '30s'),
    )
    .addOption(
      new Option('--delay <time>', 'Time from a command to its response, for example 2s')
        .argParser(parseDuration)
        .default(0, '0s'),
    )
    .option('--simulate-reject', 'Make devices reject every command')
    .option('--simulate-timeout', 'Make devices never respond to a command')
    .option('--duration <time>', 'Stop after this time', parseDuration);
}

function withBrokerOptions(command: Command): Command {
  return command
    .option('--broker <url>', 'URL of the broker: mqtt://, mqtts://, ws:// or wss://', 'mqtt://localhost:1883')
    .option('--user <name>', 'User name at the broker')
    .option('--password <text>', 'Password at the broker (PLANTROOM_SIMULATE_PASSWORD)')
    .option('--ca <file>', 'CA certificate to verify the broker, PEM (default: the CAs of the system)')
    .option('--cert <file>', 'Client certificate, PEM')
    .option('--cert-key <file>', 'Private key of the client certificate, PEM');
}
