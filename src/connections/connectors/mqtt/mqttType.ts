import { IANAZone } from 'luxon';
import type { Violation } from '../../../kernel/errors';
import { type ConnectorType, type JsonObject, type RoutedCommand, SCHEMA_DIALECT } from '../../connectorType';
import { DEVICE_PROPERTIES } from '../../deviceConfiguration';
import {
  BROKER_TARGET,
  BROKER_PROPERTIES,
  BROKER_SECRETS,
  checkBroker,
  createViolation,
} from '../broker/brokerConfiguration';
import { getMqttSettings, type MqttSettings } from './mqttSettings';
import {
  countDevicePlaceholders,
  DEVICE,
  doTemplatesOverlap,
  fillTopic,
  matchesFilter,
  isPublishable,
  UNUSABLE_IN_TOPIC,
} from './topicTemplate';

const MAX_ID_LENGTH = 255;
const UNUSABLE_IN_ID = /[+#/]/;
const topicSchema = (title: string, description: string): JsonObject => ({
  type: 'string',
  minLength: 1,
  maxLength: 1024,
  title,
  description,
});
const pathSchema = (title: string, description: string): JsonObject => ({
  type: 'string',
  minLength: 1,
  maxLength: 512,
  pattern: '^[^.\\[\\]]+(?:\\.[^.\\[\\]]+|\\[\\d+\\])*$',
  title,
  description,
});

/** The properties that say how a response reports success, for both kinds of responses. */
const STATUS_PROPERTIES = {
  statusPath: pathSchema(
    'Status',
    'Path of the status in the response, for example status; without it every response is a success.',
  ),
  okValues: {
    type: 'array',
    minItems: 1,
    maxItems: 32,
    items: { type: ['string', 'number', 'boolean', 'null'] },
    title: 'Success statuses',
    description:
      'Status values that mean success. Another status of the same type is a rejection; a missing one, or one of another type, is not understood.',
  },
  messagePath: pathSchema('Message', 'Path of a message for people in the response.'),
};
/** Each of these two properties requires the other one. */
const STATUS_DEPENDENCIES = { statusPath: ['okValues'], okValues: ['statusPath'] };

/** The schema of the property `answer`. */
const ANSWER_SCHEMA: JsonObject = {
  type: 'object',
  title: 'Responses',
  description: 'How devices respond to commands; omit it if they do not.',
  discriminator: { propertyName: 'kind' },
  required: ['kind'],
  oneOf: [
    {
      properties: {
        kind: { const: 'response_topic' },
        responseTopic: topicSchema(
          'Response topic',
          'Topic for responses, MQTT 5 only. Default: a topic derived from the client id.',
        ),
        ...STATUS_PROPERTIES,
      },
      dependentRequired: STATUS_DEPENDENCIES,
      additionalProperties: false,
    },
    {
      properties: {
        kind: { const: 'topic' },
        answerTopic: topicSchema(
          'Response topic',
          `Topic where devices publish responses; may contain ${DEVICE} once and + levels.`,
        ),
        correlationPath: pathSchema(
          'Execution',
          'Path of the execution id in the response; the command sends it with {{execution.id}}.',
        ),
        ...STATUS_PROPERTIES,
      },
      required: ['answerTopic', 'correlationPath'],
      dependentRequired: STATUS_DEPENDENCIES,
      additionalProperties: false,
    },
  ],
};

/** The connector type for devices behind an MQTT broker. */
export const MQTT: ConnectorType = {
  id: 'mqtt',
  type: 'mqtt',
  name: 'MQTT broker',
  description:
    'Devices that publish to an MQTT broker of the site (5 or 3.1.1). Messages are received by a topic template, commands are published with QoS 1, and responses are received if `answer` is configured.',
  capabilities: ['uplink', 'downlink', 'native_ack'],
  configurationSchema: {
    $schema: SCHEMA_DIALECT,
    type: 'object',
    properties: {
      ...BROKER_PROPERTIES,
      uplinkTopic: topicSchema(
        'Uplink topic',
        `Topic where devices publish, for example site/${DEVICE}/up. Must contain ${DEVICE} once; may contain + levels, and # as the last level.`,
      ),
      downlinkTopic: topicSchema(
        'Downlink topic',
        `Topic for commands that do not specify one, for example site/${DEVICE}/down.`,
      ),
      allowedCommandTopics: {
        type: 'array',
        maxItems: 64,
        items: topicSchema('Topic', `May contain ${DEVICE}, + levels, and # as the last level.`),
        title: 'Command topics',
        description: `Topics that a command may specify. Default: topics that contain ${DEVICE}.`,
      },
      timePath: pathSchema(
        'Time',
        'Path of the sample time in a message: ISO 8601 with an offset, or a Unix time in seconds, milliseconds, microseconds or nanoseconds.',
      ),
      timeZone: {
        type: 'string',
        minLength: 1,
        maxLength: 64,
        title: 'Time zone',
        description: 'IANA name of the time zone of sample times without an offset, for example Europe/Rome.',
      },
      uplinkIdPath: pathSchema(
        'Message id',
        'Path of a message id that is unique per device for 7 days. A message that arrives twice is stored once.',
      ),
      answer: ANSWER_SCHEMA,
    },
    required: ['url', 'uplinkTopic'],
    additionalProperties: false,
  },
  deviceConfigurationSchema: { $schema: SCHEMA_DIALECT, type: 'object', properties: DEVICE_PROPERTIES },
  secretFields: BROKER_SECRETS,
  secretPlaceFields: BROKER_TARGET,
  checkConfiguration,
  checkDeviceConfiguration: () => [],
  getKind: (configuration) => (configuration['answer'] === undefined ? 'mqtt' : 'mqtt_answer'),
  checkCommand,
  findClientDeviceId: (text) => (isClientDeviceId(text) ? text : undefined),
  clientDeviceIdForm: `1 to ${MAX_ID_LENGTH} characters without leading or trailing white space, +, #, /, control characters and the text ${DEVICE}`,
};

/** Returns whether a text can be the id of a device, which must be usable inside one level of a topic. */
function isClientDeviceId(text: string): boolean {
  return (
    text !== '' &&
    Array.from(text).length <= MAX_ID_LENGTH &&
    !UNUSABLE_IN_ID.test(text) &&
    !UNUSABLE_IN_TOPIC.test(text) &&
    text.trim() === text &&
    !text.includes(DEVICE)
  );
}

/** Validates the topics of a configuration and the broker properties. */
function checkConfiguration(configuration: JsonObject): Violation[] {
  const settings = getMqttSettings(configuration);
  const { uplinkTopic, timeZone, allowedCommandTopics, answer } = settings;
  return [
    ...checkBroker(configuration),
    ...(countDevicePlaceholders(uplinkTopic) === 1
      ? []
      : [
          createViolation(
            'uplinkTopic',
            `must contain ${DEVICE} exactly once, because it identifies the device of a message`,
          ),
        ]),
    ...checkFilter('uplinkTopic', uplinkTopic),
    ...checkTimeZone(timeZone),
    ...checkDownlinkTopic(settings),
    ...allowedCommandTopics.flatMap((filter, index) => checkFilter(`allowedCommandTopics[${index}]`, filter)),
    ...checkAnswer(answer, configuration['protocol'] === '3.1.1'),
  ];
}

function checkTimeZone(timeZone: string | undefined): Violation[] {
  if (timeZone === undefined || IANAZone.isValidZone(timeZone)) return [];
  return [
    createViolation('timeZone', `must be the IANA name of a time zone, for example Europe/Rome (got ${timeZone})`),
  ];
}

/** Validates how devices respond. `isMqtt3`: the configuration requires MQTT 3.1.1, which has no response topics. */
function checkAnswer(answer: MqttSettings['answer'], isMqtt3: boolean): Violation[] {
  if (answer?.kind === 'topic')
    return [
      ...checkFilter('answer.answerTopic', answer.answerTopic),
      ...(countDevicePlaceholders(answer.answerTopic) > 1
        ? [createViolation('answer.answerTopic', `may contain ${DEVICE} only once`)]
        : []),
    ];
  const { responseTopic } = answer ?? {};
  return [
    ...(responseTopic !== undefined && (/[{}]/.test(responseTopic) || !isPublishable(responseTopic))
      ? [
          createViolation(
            'answer.responseTopic',
            'must not contain +, #, {, } or control characters, and must not start with $: it is one topic for all devices',
          ),
        ]
      : []),
    ...(answer && isMqtt3
      ? [createViolation('answer.kind', 'requires MQTT 5: choose another protocol, or the kind `topic`')]
      : []),
  ];
}

/**
 * Validates the downlink topic. If it matched a subscribed topic, the broker would send our own commands back to us,
 * and they would be taken for messages of the device.
 */
function checkDownlinkTopic({ downlinkTopic, uplinkTopic, answer }: MqttSettings): Violation[] {
  if (downlinkTopic === undefined) return [];
  const isValid = countDevicePlaceholders(downlinkTopic) >= 1 && isPublishable(downlinkTopic);
  if (!isValid)
    return [
      createViolation(
        'downlinkTopic',
        `must contain ${DEVICE}, must not contain +, # or control characters, and must not start with $`,
      ),
    ];
  if (doTemplatesOverlap(downlinkTopic, uplinkTopic))
    return [createViolation('downlinkTopic', describeLoop('uplinkTopic'))];
  const answerTopic = findAnswerTopic(answer);
  return answerTopic !== undefined && doTemplatesOverlap(downlinkTopic, answerTopic)
    ? [createViolation('downlinkTopic', describeLoop('topic of the responses'))]
    : [];
}

/** Describes the violation of a downlink topic whose commands the broker would send back to this server. */
function describeLoop(name: string): string {
  return `must not match the ${name}, because commands would come back as if the devices had sent them; make one of the two narrower`;
}

/** Returns the topic of responses in the configuration; undefined if it is the default or there are no responses. */
function findAnswerTopic(answer: MqttSettings['answer']): string | undefined {
  return answer?.kind === 'topic' ? answer.answerTopic : answer?.responseTopic;
}

/** Validates a filter: wildcards are complete levels, and `#` is only the last level. */
function checkFilter(name: string, filter: string): Violation[] {
  const levels = filter.split('/');
  const areWildcardsValid = levels.every((level, index) => {
    const isLast = index === levels.length - 1;
    return level === '+' || (level === '#' && isLast) || !/[+#]/.test(level);
  });
  const isValid = areWildcardsValid && !UNUSABLE_IN_TOPIC.test(filter) && !filter.startsWith('$');
  return isValid
    ? []
    : [
        createViolation(
          name,
          'may contain + only as a complete level and # only as the last level, must not contain control characters, and must not start with $',
        ),
      ];
}

/** Validates the topic of a command, which is its own or the one of the connection. */
function checkCommand(configuration: JsonObject, command: RoutedCommand): Violation[] {
  const { clientDeviceId, topic: commandTopic } = command;
  const settings = getMqttSettings(configuration);
  const template = commandTopic === '' ? settings.downlinkTopic : commandTopic;
  if (template === undefined)
    return [createCommandViolation('is required because the connection has no downlinkTopic: set one of them')];
  const topic = fillTopic(template, clientDeviceId);
  if (!isPublishable(topic))
    return [
      createCommandViolation(
        'must not contain +, # or control characters, and must not start with $, also after the id of the device is inserted: set one topic',
      ),
    ];
  if (wouldComeBack(settings, topic))
    return [
      createCommandViolation(
        'is a topic from which the connection reads uplinks or responses, so the command would come back as if the device had sent it: set another topic, or make the uplinkTopic narrower',
      ),
    ];
  return commandTopic === '' ? [] : checkAllowedTopic(settings, clientDeviceId, commandTopic);
}

/** Validates that the connection allows the topic that a command specifies. */
function checkAllowedTopic(
  { allowedCommandTopics }: MqttSettings,
  clientDeviceId: string,
  commandTopic: string,
): Violation[] {
  if (allowedCommandTopics.length === 0)
    return commandTopic.includes(DEVICE)
      ? []
      : [createCommandViolation(`must contain ${DEVICE}, because the connection has no allowedCommandTopics`)];
  const isAllowed = allowedCommandTopics.some((filter) =>
    matchesFilter(fillTopic(commandTopic, clientDeviceId), fillTopic(filter, clientDeviceId)),
  );
  return isAllowed
    ? []
    : [
        createCommandViolation(
          'does not match the allowedCommandTopics of the connection: use a topic that does, or add it there',
        ),
      ];
}

/** Returns whether the connection would receive messages on this topic as uplinks or responses. */
function wouldComeBack({ uplinkTopic, answer }: MqttSettings, topic: string): boolean {
  return [uplinkTopic, findAnswerTopic(answer)].some(
    (template) => template !== undefined && matchesFilter(topic, template),
  );
}

function createCommandViolation(description: string): Violation {
  return { field: 'command.mqttTopic', description };
}
