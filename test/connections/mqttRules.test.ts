import fc from 'fast-check';
import { checkConfiguration } from '../../src/connections/configurationCheck';
import { valueAt } from '../../src/connections/connectors/mqtt/jsonPath';
import { MQTT } from '../../src/connections/connectors/mqtt/mqttType';
import { fillTopic, filterOfTemplate, fitsFilter, TopicReader } from '../../src/connections/connectors/mqtt/topicTemplate';

const RIGHT = { url: 'mqtts://broker.site.example', uplinkTopic: 'site/{clientDeviceId}/up' };
const STATUS = { statusPath: 'status', okValues: ['ok', 0, true] };

describe('a configuration', () => {
  it.each([
    ['the least', {}],
    ['everything', { downlinkTopic: 'site/{clientDeviceId}/down', allowedCommandTopics: ['site/{clientDeviceId}/#'], timePath: 'meta.at', uplinkIdPath: 'ids[0]', username: 'u', password: 'p' }],
    ['answers by response topic', { answer: { kind: 'response_topic', ...STATUS } }],
    ['answers on a topic', { answer: { kind: 'topic', answerTopic: 'site/{clientDeviceId}/answer', correlationPath: 'id', ...STATUS } }],
  ])('that is right: %s', (_, more) => {
    expect(checkConfiguration('mqtt', { ...RIGHT, ...more })).toEqual([]);
  });

  it.each([
    ['uplinkTopic', { uplinkTopic: 'site/+/up' }],
    ['uplinkTopic', { uplinkTopic: '{clientDeviceId}/{clientDeviceId}' }],
    ['uplinkTopic', { uplinkTopic: 'site/#/{clientDeviceId}' }],
    ['uplinkTopic', { uplinkTopic: 'site+/{clientDeviceId}' }],
    ['downlinkTopic', { downlinkTopic: 'site/down' }],
    ['downlinkTopic', { downlinkTopic: 'site/{clientDeviceId}/#' }],
    ['allowedCommandTopics[0]', { allowedCommandTopics: ['a#'] }],
    ['answer.kind', { protocol: '3.1.1', answer: { kind: 'response_topic' } }],
    ['answer.responseTopic', { answer: { kind: 'response_topic', responseTopic: 'a/+' } }],
    ['answer.answerTopic', { answer: { kind: 'topic', answerTopic: 'a/#/b', correlationPath: 'id' } }],
  ])('names what is wrong: %s', (field, more) => {
    expect(checkConfiguration('mqtt', { ...RIGHT, ...more }).map((violation) => violation.field)).toEqual([`configuration.${field}`]);
  });

  it('refuses what it does not know', () => {
    expect(checkConfiguration('mqtt', { ...RIGHT, topic: 'x' })).toHaveLength(1);
    expect(checkConfiguration('mqtt', { ...RIGHT, answer: { kind: 'topic', answerTopic: 'a' } })).not.toEqual([]);
    expect(checkConfiguration('mqtt', { ...RIGHT, answer: { kind: 'response_topic', statusPath: 'a' } })).not.toEqual([]);
  });

  it('decides what evidence there can be', () => {
    expect(MQTT.kindOf(RIGHT, false)).toBe('mqtt');
    expect(MQTT.kindOf({ ...RIGHT, answer: { kind: 'response_topic' } }, false)).toBe('mqtt_answer');
  });
});

describe('a command', () => {
  const command = { clientDeviceId: 'valve-1', mode: 'direct', fPort: undefined, confirmed: false } as const;
  const check = (topic: string, more: object = {}) => MQTT.checkCommand({ ...RIGHT, ...more }, { ...command, topic }).length === 0;

  it('needs a topic of its own or of the connection', () => {
    expect(check('')).toBe(false);
    expect(check('', { downlinkTopic: 'site/{clientDeviceId}/down' })).toBe(true);
  });

  it('may name only topics that are allowed', () => {
    expect(check('other/{clientDeviceId}')).toBe(true);
    expect(check('other/valve-1')).toBe(false);
    const allowed = { allowedCommandTopics: ['site/{clientDeviceId}/#', 'all/+/cmd'] };
    expect(check('site/{clientDeviceId}/a/b', allowed)).toBe(true);
    expect(check('site/valve-1/a', allowed)).toBe(true);
    expect(check('site/valve-2/a', allowed)).toBe(false);
    expect(check('all/pumps/cmd', allowed)).toBe(true);
    expect(check('all/pumps/other', allowed)).toBe(false);
    expect(check('{clientDeviceId}/+')).toBe(false);
    expect(check('$SYS/{clientDeviceId}')).toBe(false);
  });
});

it.each(['a+b', 'a#', 'a/b', 'a\0b', '', ' a', 'x'.repeat(256)])('%j is no device id', (id) => {
  expect(MQTT.findClientDeviceId(id)).toBeUndefined();
});

it('reads from a topic the device that was filled in', () => {
  const templates = ['{clientDeviceId}', 'site/{clientDeviceId}/up', 'a/dev-{clientDeviceId}.x/b', 'a.*(b)/{clientDeviceId}'];
  const ids = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 }).filter((id) => MQTT.findClientDeviceId(id) !== undefined);
  fc.assert(
    fc.property(fc.constantFrom(...templates), ids, (template, id) => {
      const topic = fillTopic(template, id);
      expect(new TopicReader(template).read(topic)).toBe(id);
      expect(fitsFilter(topic, filterOfTemplate(template))).toBe(true);
    }),
    { seed: 4, numRuns: 300 },
  );
});

it.each([
  ['a/#', 'a', true],
  ['a/#', 'a/b/c', true],
  ['a/+', 'a/', true],
  ['a/+', 'a/b/c', false],
  ['a/+/c', 'a/b/c', true],
  ['a', 'ab', false],
])('the filter %s with the topic %s', (filter, topic, fits) => {
  expect(fitsFilter(topic, filter)).toBe(fits);
});

it.each([
  ['a.b[1]', 2],
  ['a.c', undefined],
  ['a.b.length', undefined],
  ['__proto__', undefined],
  ['toString', undefined],
])('the path %s', (path, value) => {
  expect(valueAt({ a: { b: [1, 2] } }, path)).toBe(value);
});
