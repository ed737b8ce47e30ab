import fc from 'fast-check';
import { checkConfiguration } from '../../src/connections/configurationCheck';
import { getConnectorKeyValue } from '../../src/connections/connectors/mqtt/jsonPath';
import { MQTT } from '../../src/connections/connectors/mqtt/mqttType';
import {
  doTemplatesOverlap,
  fillTopic,
  toFilter,
  matchesFilter,
  TopicReader,
} from '../../src/connections/connectors/mqtt/topicTemplate';

const VALID_SETTINGS = { url: 'mqtts://broker.site.example', uplinkTopic: 'site/{clientDeviceId}/up' };
const STATUS = { statusPath: 'status', okValues: ['ok', 0, true] };

describe('an MQTT configuration', () => {
  it.each([
    ['the minimal settings', {}],
    [
      'everything',
      {
        downlinkTopic: 'site/{clientDeviceId}/down',
        allowedCommandTopics: ['site/{clientDeviceId}/#'],
        timePath: 'meta.at',
        timeZone: 'America/Argentina/Buenos_Aires',
        uplinkIdPath: 'ids[0]',
        username: 'u',
        password: 'p',
      },
    ],
    ['answers by response topic', { answer: { kind: 'response_topic', ...STATUS } }],
    [
      'answers on a topic',
      { answer: { kind: 'topic', answerTopic: 'site/{clientDeviceId}/answer', correlationPath: 'id', ...STATUS } },
    ],
  ])('is valid: %s', (_, more) => {
    expect(checkConfiguration('mqtt', { ...VALID_SETTINGS, ...more })).toEqual([]);
  });

  it.each([
    ['uplinkTopic', { uplinkTopic: 'site/+/up' }],
    ['timeZone', { timePath: 'at', timeZone: 'Europe/Atlantis' }],
    ['timeZone', { timePath: 'at', timeZone: '' }],
    ['uplinkTopic', { uplinkTopic: '{clientDeviceId}/{clientDeviceId}' }],
    ['uplinkTopic', { uplinkTopic: 'site/#/{clientDeviceId}' }],
    ['uplinkTopic', { uplinkTopic: 'site+/{clientDeviceId}' }],
    ['downlinkTopic', { downlinkTopic: 'site/down' }],
    ['downlinkTopic', { downlinkTopic: 'site/{clientDeviceId}/#' }],
    ['uplinkTopic', { uplinkTopic: '$share/group/site/{clientDeviceId}/up' }],
    ['uplinkTopic', { uplinkTopic: 'site/{clientDeviceId}/\uffff' }],
    ['downlinkTopic', { downlinkTopic: 'site/{clientDeviceId}/up' }],
    ['downlinkTopic', { uplinkTopic: 'site/{clientDeviceId}/#', downlinkTopic: 'site/{clientDeviceId}/command' }],
    [
      'downlinkTopic',
      {
        downlinkTopic: 'site/{clientDeviceId}/answer',
        answer: { kind: 'topic', answerTopic: 'site/+/answer', correlationPath: 'id' },
      },
    ],
    [
      'downlinkTopic',
      { downlinkTopic: 'answers/{clientDeviceId}', answer: { kind: 'response_topic', responseTopic: 'answers/all' } },
    ],
    ['answer.responseTopic', { answer: { kind: 'response_topic', responseTopic: '$SYS/a' } }],
    ['allowedCommandTopics[0]', { allowedCommandTopics: ['a#'] }],
    ['answer.kind', { protocol: '3.1.1', answer: { kind: 'response_topic' } }],
    ['answer.responseTopic', { answer: { kind: 'response_topic', responseTopic: 'a/+' } }],
    ['answer.answerTopic', { answer: { kind: 'topic', answerTopic: 'a/#/b', correlationPath: 'id' } }],
  ])('is rejected with the invalid field: %s', (field, more) => {
    expect(checkConfiguration('mqtt', { ...VALID_SETTINGS, ...more }).map((violation) => violation.field)).toEqual([
      `configuration.${field}`,
    ]);
  });

  it('is rejected with unknown fields', () => {
    expect(checkConfiguration('mqtt', { ...VALID_SETTINGS, topic: 'x' })).toHaveLength(1);
    expect(checkConfiguration('mqtt', { ...VALID_SETTINGS, answer: { kind: 'topic', answerTopic: 'a' } })).not.toEqual(
      [],
    );
    expect(
      checkConfiguration('mqtt', { ...VALID_SETTINGS, answer: { kind: 'response_topic', statusPath: 'a' } }),
    ).not.toEqual([]);
  });

  it('determines the possible evidence', () => {
    expect(MQTT.getKind(VALID_SETTINGS, false)).toBe('mqtt');
    expect(MQTT.getKind({ ...VALID_SETTINGS, answer: { kind: 'response_topic' } }, false)).toBe('mqtt_answer');
  });
});

describe('an MQTT command', () => {
  const command = {
    clientDeviceId: 'valve-1',
    mode: 'direct',
    fPort: undefined,
    confirmed: false,
    networkCodec: 'unknown',
  } as const;
  const check = (topic: string, more: object = {}) =>
    MQTT.checkCommand({ ...VALID_SETTINGS, ...more }, { ...command, topic }).length === 0;

  it('needs its own topic or one of the connection', () => {
    expect(check('')).toBe(false);
    expect(check('', { downlinkTopic: 'site/{clientDeviceId}/down' })).toBe(true);
  });

  it('may use only allowed topics', () => {
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
    expect(check('a\u0001/{clientDeviceId}')).toBe(false);
  });

  it('must not use a topic on which it would return as if the device had sent it', () => {
    expect(check('site/{clientDeviceId}/up')).toBe(false);
    expect(check('site/{clientDeviceId}/set', { uplinkTopic: 'site/{clientDeviceId}/#' })).toBe(false);
    const answer = { kind: 'topic', answerTopic: '+/answer', correlationPath: 'id' };
    expect(check('{clientDeviceId}/answer', { answer })).toBe(false);
    expect(
      check('answers', {
        allowedCommandTopics: ['answers'],
        answer: { kind: 'response_topic', responseTopic: 'answers' },
      }),
    ).toBe(false);
    expect(check('', { uplinkTopic: 'site/{clientDeviceId}/#', downlinkTopic: 'site/{clientDeviceId}/set' })).toBe(
      false,
    ); // This is a connection from before this rule existed.
  });

  it('is never sent to a topic of the broker itself, whatever the device id is', () => {
    expect(
      MQTT.checkCommand(
        { ...VALID_SETTINGS, downlinkTopic: '{clientDeviceId}/d' },
        { ...command, topic: '', clientDeviceId: '$SYS' },
      ),
    ).toHaveLength(1);
  });
});

it('reports topics that can overlap', () => {
  const levels = fc.array(
    fc.constantFrom(
      '{clientDeviceId}',
      'dev-{clientDeviceId}',
      '{clientDeviceId}.x',
      'd{clientDeviceId}x',
      'dev-1.x',
      'a',
      'up',
      '+',
    ),
    { minLength: 1, maxLength: 4 },
  );
  const filter = fc.tuple(levels, fc.boolean()).map(([all, isOpen]) => [...all, ...(isOpen ? ['#'] : [])].join('/'));
  const ids = fc.constantFrom('1', 'a', 'up', 'dev-1', 'dev-1.x', '1.x');
  fc.assert(
    fc.property(
      levels.filter((all) => !all.includes('+')),
      filter,
      ids,
      (all, other, id) => {
        const template = all.join('/');
        if (matchesFilter(fillTopic(template, id), other)) expect(doTemplatesOverlap(template, other)).toBe(true);
        expect(doTemplatesOverlap(other, template)).toBe(doTemplatesOverlap(template, other));
      },
    ),
    { seed: 9, numRuns: 2000 },
  );
  expect(doTemplatesOverlap('zigbee2mqtt/{clientDeviceId}/set', 'zigbee2mqtt/{clientDeviceId}')).toBe(false);
  expect(doTemplatesOverlap('a/in-{clientDeviceId}', 'a/out-{clientDeviceId}')).toBe(false);
});

it.each(['x{clientDeviceId}', 'a\uffff', 'a+b', 'a#', 'a/b', 'a\0b', '', ' a', 'x'.repeat(256)])(
  '%j is not a valid device id',
  (id) => {
    expect(MQTT.findClientDeviceId(id)).toBeUndefined();
  },
);

it('reads the device id from a topic', () => {
  const templates = [
    '{clientDeviceId}',
    'site/{clientDeviceId}/up',
    'a/dev-{clientDeviceId}.x/b',
    'a.*(b)/{clientDeviceId}',
  ];
  const ids = fc
    .string({ unit: 'binary', minLength: 1, maxLength: 40 })
    .filter((id) => MQTT.findClientDeviceId(id) !== undefined);
  fc.assert(
    fc.property(fc.constantFrom(...templates), ids, (template, id) => {
      const topic = fillTopic(template, id);
      expect(new TopicReader(template).findDeviceId(topic)).toBe(id);
      expect(matchesFilter(topic, toFilter(template))).toBe(true);
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
  expect(matchesFilter(topic, filter)).toBe(fits);
});

it.each([
  ['a.b[1]', 2],
  ['a.c', undefined],
  ['a.b.length', undefined],
  ['__proto__', undefined],
  ['toString', undefined],
])('the path %s', (path, value) => {
  expect(getConnectorKeyValue({ a: { b: [1, 2] } }, path)).toBe(value);
});
