import type { Violation } from '../../../kernel/errors';
import { type ConnectorType, type JsonObject, type RoutedCommand, SCHEMA_DIALECT } from '../../connectorType';
import { DEVICE_PROPERTIES } from '../../deviceConfiguration';
import { BROKER_TARGET, BROKER_PROPERTIES, BROKER_SECRETS, checkBroker } from '../broker/brokerConfiguration';
import { checkCommandTopic, DEFAULT_TOPICS, checkEventTopic } from './chirpStackTopics';
import { findDevEui } from './devEui';

const MAX_F_PORT = 223;

/**
 * ChirpStack v4, the network server of LoRaWAN sites, over its MQTT integration. Commands expire there since ChirpStack
 * 4.14.0.
 */
export const CHIRPSTACK: ConnectorType = {
  id: 'chirpstack',
  type: 'lorawan',
  name: 'ChirpStack v4 over MQTT',
  description:
    'The devices of one ChirpStack v4 application (4.14 or later, so that commands expire), through the broker of its MQTT integration. Set the QoS of the integration to 1; otherwise events are lost while this server is disconnected.',
  capabilities: ['uplink', 'downlink', 'native_ack'],
  configurationSchema: {
    $schema: SCHEMA_DIALECT,
    type: 'object',
    properties: {
      ...BROKER_PROPERTIES,
      applicationId: {
        type: 'string',
        format: 'uuid',
        title: 'Application',
        description: "ID of the application, shown in ChirpStack's web interface.",
      },
      encoding: {
        enum: ['json', 'protobuf'],
        default: 'json',
        title: 'Encoding',
        description:
          'Encoding of the integration: json for `json=true` in its configuration, protobuf for `json=false`.',
      },
      eventTopic: {
        type: 'string',
        minLength: 1,
        maxLength: 512,
        default: DEFAULT_TOPICS.eventTopic,
        title: 'Event topic',
        description:
          "Topic template of events, the same as ChirpStack's event_topic, with the placeholders {applicationId}, {devEui} and {event}.",
      },
      commandTopic: {
        type: 'string',
        minLength: 1,
        maxLength: 512,
        default: DEFAULT_TOPICS.commandTopic,
        title: 'Command topic',
        description: "Topic template of downlinks, the same as ChirpStack's command_topic with the command `down`.",
      },
    },
    required: ['url', 'applicationId'],
    additionalProperties: false,
  },
  deviceConfigurationSchema: {
    $schema: SCHEMA_DIALECT,
    type: 'object',
    properties: {
      deviceClass: {
        enum: ['A', 'B', 'C'],
        title: 'Class',
        description:
          'When the device listens: after it has sent (A), at scheduled times (B), always (C). Default: the class that ChirpStack reports.',
      },
      ...DEVICE_PROPERTIES,
    },
    additionalProperties: false,
  },
  secretFields: BROKER_SECRETS,
  secretPlaceFields: BROKER_TARGET,
  checkConfiguration: (configuration) => [...checkBroker(configuration), ...checkTopics(configuration)],
  checkDeviceConfiguration: () => [],
  getKind: (_, confirmed) => (confirmed ? 'chirpstack_confirmed' : 'chirpstack'),
  checkCommand: (_, command) => checkCommand(command),
  findClientDeviceId: findDevEui,
  clientDeviceIdForm: 'a DevEUI: 16 hexadecimal digits, optionally separated by `:`, `-` or spaces',
};

/** Validates the topic templates of a configuration. */
function checkTopics({ eventTopic, commandTopic }: JsonObject): Violation[] {
  const problemByField = {
    eventTopic: typeof eventTopic === 'string' ? checkEventTopic(eventTopic) : undefined,
    commandTopic: typeof commandTopic === 'string' ? checkCommandTopic(commandTopic) : undefined,
  };
  return Object.entries(problemByField).flatMap(([name, description]) =>
    description === undefined ? [] : [{ field: `configuration.${name}`, description }],
  );
}

/** Validates the port, the topic and the mode of a command. */
function checkCommand({ mode, fPort, topic, networkCodec }: RoutedCommand): Violation[] {
  const violations: Violation[] = [];
  // ChirpStack logs no error in this case: it sends an empty frame.
  if (mode === 'direct' && networkCodec === 'missing')
    violations.push({
      field: 'command.mode',
      description:
        'is `direct`, which requires a codec in ChirpStack, and there is none for this device: its uplinks arrive as bytes, or are decoded by a profile in Plantroom. Use `encoded` with an encoder or a profile, or add a codec to the device profile in ChirpStack',
    });
  // An encoder may return a port, which is only known after it has run.
  if (fPort === undefined && mode === 'direct')
    violations.push({
      field: 'command.fPort',
      description: `is required: set the port of the device that receives the command, 1 to ${MAX_F_PORT}`,
    });
  if (fPort !== undefined && (fPort < 1 || fPort > MAX_F_PORT))
    violations.push({ field: 'command.fPort', description: `must be 1 to ${MAX_F_PORT}` });
  if (topic !== '')
    violations.push({
      field: 'command.mqttTopic',
      description: 'is not allowed on a `chirpstack` connection, which determines the topic: omit it',
    });
  return violations;
}
