import { Option, type Command } from 'commander';
import { withTarget } from '../call/command';
import { commaList, duration, withJson } from '../options';
import type * as simulateChirpStack from './chirpStack/simulateChirpStack';
import type { ChirpStackFlags } from './chirpStack/simulateChirpStack';
import type * as simulateGateway from './gateway/simulateGateway';
import type { GatewayFlags } from './gateway/simulateGateway';
import type * as simulateMqtt from './mqtt/simulateMqtt';
import type { MqttFlags } from './mqtt/simulateMqtt';

// gRPC and the MQTT client are loaded only by the simulation that needs them.
const lazyGateway = (): typeof simulateGateway => require('./gateway/simulateGateway');
const lazyMqtt = (): typeof simulateMqtt => require('./mqtt/simulateMqtt');
const lazyChirpStack = (): typeof simulateChirpStack => require('./chirpStack/simulateChirpStack');

const DEVICES = `What the devices take, and show with their next uplink:
  valve  {"position": 0 to 100}, or the bytes 01 and the position
  relay  {"relay": 0 or 1, "on": true or false}, or two bytes, relay and state
Both keep what else an object holds as settings, and show it too. A room sensor takes nothing.`;

const RAW = `With --raw a reading is its numbers in hundredths, two bytes each, the higher one first: of a valve its position, temperature and battery.`;

const STORE = `With --store the single binary lays SQLite's machine code (3 MB) beside the file, in .runtime; it may be removed with the file.`;

const MQTT_ANSWERS = `Whether a command is answered is up to the command:
  a response topic (MQTT 5)   the answer goes there, with the command's correlation data
  a member "id" in its JSON   the answer goes to --answer-topic, with the same "id"
The answer is {"status": "ok", "message": ...}; the status of a command that is not done is a word for why.`;

const EUIS = `A device is known by its DevEUI: valve-1 is 0200000000000101, relay-1 0200000000000201, room-1 0200000000000301 (the last byte counts).
An id such as valve-24e124136b502217 names the DevEUI itself. Relays are of class C, all others of class A: they hear after an uplink only.`;

/** Adds `plantroom simulate` with what it can play; without a word it plays a gateway. */
export function addSimulate(program: Command): void {
  const simulate = program.command('simulate').description('play a gateway, MQTT devices or a ChirpStack, so that no hardware is needed to try things');
  addGateway(simulate);
  addMqtt(simulate);
  addChirpStack(simulate);
}

function addGateway(simulate: Command): void {
  withPlay(withTarget(withJson(simulate.command('gateway', { isDefault: true }).description('play a gateway with a heating valve, a relay and a room sensor'))))
    .requiredOption('--connection <id>', 'the connection to attach to, of connector type gateway')
    .option('--gateway-id <id>', 'who the gateway says it is (default: another one with each start, with --store the one that the file keeps)')
    .option('--drop-received', 'do not say command_received, only the result')
    .option('--volatile', 'say that a restart forgets what was received')
    .option('--store <file>', 'keep commands and uplinks in this SQLite file, so that they survive a restart (default: in memory)')
    .option('--raw', 'send the readings as bytes, which nobody decoded')
    .addHelpText('after', `\n${DEVICES}\n\n${RAW}\n\n${STORE}`)
    .action((flags: GatewayFlags) => lazyGateway().simulateGateway(flags));
}

function addMqtt(simulate: Command): void {
  withPlay(withBroker(withJson(simulate.command('mqtt').description('play devices that speak MQTT with a broker: a heating valve, a relay and a room sensor'))))
    .option('--uplink-topic <template>', 'where the devices send', 'plantroom/{clientDeviceId}/up')
    .option('--command-topic <template>', 'where they take commands', 'plantroom/{clientDeviceId}/down')
    .option('--answer-topic <template>', 'where they answer commands that have an "id"', 'plantroom/{clientDeviceId}/answer')
    .addHelpText('after', `\n${DEVICES}\n\n${MQTT_ANSWERS}`)
    .action((flags: MqttFlags) => lazyMqtt().simulateMqtt(flags));
}

function addChirpStack(simulate: Command): void {
  withPlay(withBroker(withJson(simulate.command('chirpstack').description('play a ChirpStack v4 with LoRaWAN devices, as its MQTT integration (JSON) shows it'))))
    .requiredOption('--application <id>', 'the application that its devices belong to, a UUID')
    .option('--join <time>', 'let the devices join anew this often, which flushes their queues without a word', duration)
    .option('--raw', 'send the readings as bytes, as a ChirpStack without a codec for its devices')
    .addHelpText('after', `\n${DEVICES}\n\n${RAW}\n\n${EUIS}`)
    .action((flags: ChirpStackFlags) => lazyChirpStack().simulateChirpStack(flags));
}

function withPlay(command: Command): Command {
  return command
    .option('--devices <ids>', 'devices to play: ids that begin with valve, relay or room (default: valve-1,relay-1,room-1)', commaList)
    .addOption(new Option('--interval <time>', 'between two uplinks of a device; 0: only after a command').argParser(duration).default(30_000, '30s'))
    .addOption(new Option('--delay <time>', 'from a command to its answer, for example 2s').argParser(duration).default(0, '0s'))
    .option('--reject', 'devices answer no')
    .option('--no-answer', 'devices do not answer')
    .option('--for <time>', 'stop after this time', duration);
}

function withBroker(command: Command): Command {
  return command
    .option('--broker <url>', 'the broker: mqtt://, mqtts://, ws:// or wss://', 'mqtt://localhost:1883')
    .option('--user <name>', 'who to sign in as')
    .option('--password <text>', 'the password (PLANTROOM_SIMULATE_PASSWORD)')
    .option('--ca <file>', 'the CA certificate to check the broker with, PEM (default: those that the system trusts)')
    .option('--cert <file>', 'the certificate to show to the broker, PEM')
    .option('--cert-key <file>', 'its private key, PEM');
}
