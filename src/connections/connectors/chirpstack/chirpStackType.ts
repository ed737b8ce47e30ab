import type { Violation } from '../../../kernel/errors';
import { type ConnectorType, type JsonObject, type RoutedCommand, SCHEMA_DIALECT } from '../../connectorType';
import { DEVICE_PROPERTIES } from '../../deviceConfiguration';
import { BROKER_PLACE, BROKER_PROPERTIES, BROKER_SECRETS, checkBroker } from '../broker/brokerConfiguration';
import { commandTopicFault, DEFAULT_TOPICS, eventTopicFault } from './chirpStackTopics';
import { findDevEui } from './devEui';

const LARGEST_PORT = 223;

/** ChirpStack v4, the network server of LoRaWAN sites, over its MQTT integration. Commands expire there since ChirpStack 4.14.0. */
export const CHIRPSTACK: ConnectorType = {
  id: 'chirpstack',
  type: 'lorawan',
  name: 'ChirpStack v4 over MQTT',
  description: "The devices of one application of a ChirpStack v4 (4.14 or later, so that commands expire), over the broker of its MQTT integration. Set the integration's QoS to 1, else events get lost while this server is away.",
  capabilities: ['uplink', 'downlink', 'native_ack'],
  configurationSchema: {
    $schema: SCHEMA_DIALECT,
    type: 'object',
    properties: {
      ...BROKER_PROPERTIES,
      applicationId: { type: 'string', format: 'uuid', title: 'Application', description: "The id of the application, from ChirpStack's web interface." },
      encoding: { enum: ['json', 'protobuf'], default: 'json', title: 'Encoding', description: 'How the integration writes: `json=true` or `json=false` in its configuration.' },
      eventTopic: { type: 'string', minLength: 1, maxLength: 512, default: DEFAULT_TOPICS.eventTopic, title: 'Event topic', description: "Where events come, as ChirpStack's event_topic; {applicationId}, {devEui} and {event} stand for what their names say." },
      commandTopic: { type: 'string', minLength: 1, maxLength: 512, default: DEFAULT_TOPICS.commandTopic, title: 'Command topic', description: "Where downlinks go, as ChirpStack's command_topic with the command `down`." },
    },
    required: ['url', 'applicationId'],
    additionalProperties: false,
  },
  deviceConfigurationSchema: {
    $schema: SCHEMA_DIALECT,
    type: 'object',
    properties: {
      deviceClass: { enum: ['A', 'B', 'C'], title: 'Class', description: 'When the device listens: after it has sent (A), at agreed times (B), always (C). Unless given, what ChirpStack says.' },
      ...DEVICE_PROPERTIES,
    },
    additionalProperties: false,
  },
  secretFields: BROKER_SECRETS,
  secretPlaceFields: BROKER_PLACE,
  checkConfiguration: (configuration) => [...checkBroker(configuration), ...checkTopics(configuration)],
  checkDeviceConfiguration: () => [],
  kindOf: (_, confirmed) => (confirmed ? 'chirpstack_confirmed' : 'chirpstack'),
  checkCommand: (_, command) => checkCommand(command),
  findClientDeviceId: findDevEui,
  clientDeviceIdForm: 'a DevEUI: 16 hexadecimal digits, parted by `:`, `-` or spaces or not at all',
};

function checkTopics({ eventTopic, commandTopic }: JsonObject): Violation[] {
  const faults = { eventTopic: typeof eventTopic === 'string' ? eventTopicFault(eventTopic) : undefined, commandTopic: typeof commandTopic === 'string' ? commandTopicFault(commandTopic) : undefined };
  return Object.entries(faults).flatMap(([name, description]) => (description === undefined ? [] : [{ field: `configuration.${name}`, description }]));
}

function checkCommand({ mode, fPort, topic }: RoutedCommand): Violation[] {
  const violations: Violation[] = [];
  // An encoder may return one: whether it does is seen when it has run.
  if (fPort === undefined && mode === 'direct') violations.push({ field: 'command.fPort', description: `is missing; give the port of the device that takes the command, 1 to ${LARGEST_PORT}` });
  if (fPort !== undefined && (fPort < 1 || fPort > LARGEST_PORT)) violations.push({ field: 'command.fPort', description: `must be 1 to ${LARGEST_PORT}` });
  if (topic !== '') violations.push({ field: 'command.mqttTopic', description: 'has no place on a connection of the connector `chirpstack`, which gives the topic; leave it out' });
  return violations;
}
