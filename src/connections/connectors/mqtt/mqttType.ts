import type { Violation } from '../../../kernel/errors';
import { type ConnectorType, type JsonObject, type RoutedCommand, SCHEMA_DIALECT } from '../../connectorType';
import { DEVICE_PROPERTIES } from '../../deviceConfiguration';
import { BROKER_PLACE, BROKER_PROPERTIES, BROKER_SECRETS, checkBroker } from '../broker/brokerConfiguration';
import { mqttSettingsOf, type MqttSettings } from './mqttSettings';
import { countDevices, DEVICE, doTemplatesOverlap, fillTopic, fitsFilter, isPublishable, UNUSABLE_IN_TOPIC } from './topicTemplate';

const LONGEST_ID = 255;
const UNUSABLE_IN_ID = /[+#/]/;
const topic = (title: string, description: string): JsonObject => ({ type: 'string', minLength: 1, maxLength: 1024, title, description });
const path = (title: string, description: string): JsonObject => ({ type: 'string', minLength: 1, maxLength: 512, pattern: '^[^.\\[\\]]+(?:\\.[^.\\[\\]]+|\\[\\d+\\])*$', title, description });

const STATUS = {
  statusPath: path('Status', 'Where the answer says whether it worked, for example status; without it every answer is a good one.'),
  okValues: { type: 'array', minItems: 1, maxItems: 32, items: { type: ['string', 'number', 'boolean', 'null'] }, title: 'Good statuses', description: 'The statuses of a good answer; any other is a negative one.' },
  messagePath: path('Message', 'Where the answer says in words what happened.'),
};
const NEEDS_STATUS = { statusPath: ['okValues'], okValues: ['statusPath'] };

const ANSWER: JsonObject = {
  type: 'object',
  title: 'Answers',
  description: 'How devices answer commands; leave it out where they do not.',
  discriminator: { propertyName: 'kind' },
  required: ['kind'],
  oneOf: [
    {
      properties: { kind: { const: 'response_topic' }, responseTopic: topic('Response topic', 'Where answers are sent, MQTT 5 only; unless given, a topic made of the client id.'), ...STATUS },
      dependentRequired: NEEDS_STATUS,
      additionalProperties: false,
    },
    {
      properties: {
        kind: { const: 'topic' },
        answerTopic: topic('Answer topic', `Where devices publish answers; may hold ${DEVICE} once and + levels.`),
        correlationPath: path('Execution', 'Where the answer repeats the id of the execution that the command gave it with {{execution.id}}.'),
        ...STATUS,
      },
      required: ['answerTopic', 'correlationPath'],
      dependentRequired: NEEDS_STATUS,
      additionalProperties: false,
    },
  ],
};

/** Devices behind an MQTT broker. */
export const MQTT: ConnectorType = {
  id: 'mqtt',
  type: 'mqtt',
  name: 'MQTT broker',
  description: 'Devices that publish to an MQTT broker of the site (5 or 3.1.1): their messages come in by a topic template, commands go out with QoS 1, and answers come back where an answer mapping is configured.',
  capabilities: ['uplink', 'downlink', 'native_ack'],
  configurationSchema: {
    $schema: SCHEMA_DIALECT,
    type: 'object',
    properties: {
      ...BROKER_PROPERTIES,
      uplinkTopic: topic('Uplink topic', `Where devices publish, for example site/${DEVICE}/up: holds ${DEVICE} once, may hold + levels, and # as the last one.`),
      downlinkTopic: topic('Downlink topic', `Where commands are published that name no topic of their own, for example site/${DEVICE}/down.`),
      allowedCommandTopics: { type: 'array', maxItems: 64, items: topic('Topic', `May hold ${DEVICE}, + levels, and # as the last one.`), title: 'Topics of commands', description: `The topics that a command may name; unless given, those that hold ${DEVICE}.` },
      timePath: path('Time', 'Where a message says when it was taken: ISO 8601, in UTC where it names no offset, or Unix seconds or milliseconds.'),
      uplinkIdPath: path('Message id', 'Where a message has an id that is unique for its device for 7 days, so that one that comes twice is stored once.'),
      answer: ANSWER,
    },
    required: ['url', 'uplinkTopic'],
    additionalProperties: false,
  },
  deviceConfigurationSchema: { $schema: SCHEMA_DIALECT, type: 'object', properties: DEVICE_PROPERTIES },
  secretFields: BROKER_SECRETS,
  secretPlaceFields: BROKER_PLACE,
  checkConfiguration,
  checkDeviceConfiguration: () => [],
  kindOf: (configuration) => (configuration['answer'] === undefined ? 'mqtt' : 'mqtt_answer'),
  checkCommand,
  findClientDeviceId: (text) => (isClientDeviceId(text) ? text : undefined),
  clientDeviceIdForm: `1 to ${LONGEST_ID} characters without white space around them, none of them +, #, / or a control character, and ${DEVICE} not among them`,
};

function isClientDeviceId(text: string): boolean {
  return text !== '' && Array.from(text).length <= LONGEST_ID && !UNUSABLE_IN_ID.test(text) && !UNUSABLE_IN_TOPIC.test(text) && text.trim() === text && !text.includes(DEVICE);
}

function checkConfiguration(configuration: JsonObject): Violation[] {
  const settings = mqttSettingsOf(configuration);
  const { uplinkTopic, allowedCommandTopics, answer } = settings;
  return [
    ...checkBroker(configuration),
    ...(countDevices(uplinkTopic) === 1 ? [] : [violation('uplinkTopic', `must hold ${DEVICE} exactly once, for it says which device a message is of`)]),
    ...checkFilter('uplinkTopic', uplinkTopic),
    ...checkDownlinkTopic(settings),
    ...allowedCommandTopics.flatMap((filter, at) => checkFilter(`allowedCommandTopics[${at}]`, filter)),
    ...checkAnswer(answer, configuration['protocol'] === '3.1.1'),
  ];
}

function checkAnswer(answer: ReturnType<typeof mqttSettingsOf>['answer'], isOld: boolean): Violation[] {
  if (answer?.kind === 'topic') return [...checkFilter('answer.answerTopic', answer.answerTopic), ...(countDevices(answer.answerTopic) > 1 ? [violation('answer.answerTopic', `may hold ${DEVICE} once`)] : [])];
  const { responseTopic } = answer ?? {};
  return [
    ...(responseTopic !== undefined && (/[{}]/.test(responseTopic) || !isPublishable(responseTopic)) ? [violation('answer.responseTopic', 'may hold no +, #, {, } or control characters, and may not begin with $; it is one topic for all devices')] : []),
    ...(answer && isOld ? [violation('answer.kind', 'needs MQTT 5; choose another protocol, or the kind `topic`')] : []),
  ];
}

/** Where it fits what we read, the broker would send us our own commands, and what we wished for would pass for what the device says. */
function checkDownlinkTopic({ downlinkTopic, uplinkTopic, answer }: MqttSettings): Violation[] {
  if (downlinkTopic === undefined) return [];
  const isRight = countDevices(downlinkTopic) >= 1 && isPublishable(downlinkTopic);
  if (!isRight) return [violation('downlinkTopic', `must hold ${DEVICE}, and no +, # or control characters, and may not begin with $`)];
  const answerTopic = answerTopicOf(answer);
  if (doTemplatesOverlap(downlinkTopic, uplinkTopic)) return [violation('downlinkTopic', comesBack('uplinkTopic'))];
  return answerTopic !== undefined && doTemplatesOverlap(downlinkTopic, answerTopic) ? [violation('downlinkTopic', comesBack('topic of the answers'))] : [];
}

function comesBack(name: string): string {
  return `may not fit the ${name}, for commands would come back as if the devices had sent them; make one of the two narrower`;
}

function answerTopicOf(answer: MqttSettings['answer']): string | undefined {
  return answer?.kind === 'topic' ? answer.answerTopic : answer?.responseTopic;
}

/** Wildcards are whole levels, `#` the last one. */
function checkFilter(name: string, filter: string): Violation[] {
  const levels = filter.split('/');
  const isRight = levels.every((level, at) => level === '+' || (level === '#' && at === levels.length - 1) || !/[+#]/.test(level)) && !UNUSABLE_IN_TOPIC.test(filter) && !filter.startsWith('$');
  return isRight ? [] : [violation(name, 'may hold + only as a whole level, # only as the last level, and no control characters, and may not begin with $')];
}

function checkCommand(configuration: JsonObject, command: RoutedCommand): Violation[] {
  const { clientDeviceId, topic: named } = command;
  const settings = mqttSettingsOf(configuration);
  const template = named === '' ? settings.downlinkTopic : named;
  if (template === undefined) return [commandViolation('is missing, and the connection has no downlinkTopic; give one of them')];
  const topic = fillTopic(template, clientDeviceId);
  if (!isPublishable(topic)) return [commandViolation('may hold no +, # and control characters, and may not begin with $, also not with the id of the device in it; give one topic')];
  if (isReadBack(settings, topic)) return [commandViolation('is one that the connection reads uplinks or answers from, so the command would come back as if the device had sent it; give another, or make the uplinkTopic narrower')];
  return named === '' ? [] : checkAllowed(settings, clientDeviceId, named);
}

function checkAllowed({ allowedCommandTopics }: MqttSettings, clientDeviceId: string, named: string): Violation[] {
  if (allowedCommandTopics.length === 0) return named.includes(DEVICE) ? [] : [commandViolation(`must hold ${DEVICE}, for the connection has no allowedCommandTopics`)];
  const isAllowed = allowedCommandTopics.some((filter) => fitsFilter(fillTopic(named, clientDeviceId), fillTopic(filter, clientDeviceId)));
  return isAllowed ? [] : [commandViolation('is none of the allowedCommandTopics of the connection; give one that is, or allow it there')];
}

function isReadBack({ uplinkTopic, answer }: MqttSettings, topic: string): boolean {
  return [uplinkTopic, answerTopicOf(answer)].some((template) => template !== undefined && fitsFilter(topic, template));
}

function violation(name: string, description: string): Violation {
  return { field: `configuration.${name}`, description };
}

function commandViolation(description: string): Violation {
  return { field: 'command.mqttTopic', description };
}
