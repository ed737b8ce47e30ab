import { Ajv2020 } from 'ajv/dist/2020';
import fc from 'fast-check';
import {
  checkConfiguration,
  checkConnectionConfiguration,
  checkDeviceConfiguration,
  compileSchemas,
} from '../../src/connections/configurationCheck';
import { CONNECTORS } from '../../src/connections/connectors';
import type { ConnectorType, JsonObject } from '../../src/connections/connectorType';
import { findProfileId, getVariables } from '../../src/connections/deviceConfiguration';
import { FAKE, registerFake } from './fakeConnector';

const SEED = 20_261_121;
const check = (configuration: JsonObject): Record<string, string> =>
  Object.fromEntries(
    checkConnectionConfiguration(FAKE, configuration).map(({ field, description }) => [field, description]),
  );
const url = 'mqtt://broker.example:1883';

describe('the configuration of a connection', () => {
  it('accepts what its schema allows', () => {
    expect(
      check({
        url,
        username: 'u',
        password: 'p',
        keepaliveSeconds: 5,
        protocol: 'auto',
        topic: 'a',
        topics: ['aa'],
        answer: { kind: 'topic', statusPath: 'ok' },
      }),
    ).toEqual({});
    expect(check({ url, answer: { kind: 'none' } })).toEqual({});
  });

  it.each<[string, JsonObject, Record<string, string>]>([
    ['a missing setting', {}, { 'configuration.url': 'is required: set a string: The URL of the other side' }],
    [
      'a setting that another one requires',
      { url, password: 'p' },
      { 'configuration.username': 'is required: set a string (`password` needs it)' },
    ],
    [
      'a mistyped setting',
      { url, usernam: 'u' },
      { 'configuration.usernam': 'is not a known setting; did you mean `username`?' },
    ],
    [
      'an unknown setting',
      { url, colour: 'red' },
      {
        'configuration.colour': expect.stringMatching(
          /^is not a known setting: remove it, or use one of `url`, `username`/,
        ) as string,
      },
    ],
    [
      'a value of the wrong type',
      { url, keepaliveSeconds: '5' },
      { 'configuration.keepaliveSeconds': 'must be an integer' },
    ],
    ['a number out of range', { url, keepaliveSeconds: 4 }, { 'configuration.keepaliveSeconds': 'must be 5 to 600' }],
    [
      'a string that is too long',
      { url, username: 'u'.repeat(21) },
      { 'configuration.username': 'must have 1 to 20 characters' },
    ],
    [
      'a string that is not a URL',
      { url: 'broker' },
      { 'configuration.url': 'must be a URL: The URL of the other side' },
    ],
    [
      'a string that is not a UUID',
      { url, application: '7' },
      { 'configuration.application': expect.stringContaining('a UUID') as string },
    ],
    [
      'a value outside the enumeration',
      { url, protocol: '4' },
      { 'configuration.protocol': 'must be one of `auto`, `5`, `3.1.1`' },
    ],
    [
      'a string that does not match the pattern',
      { url, topic: '#' },
      { 'configuration.topic': 'does not have the right form: A topic without #' },
    ],
    ['an invalid item', { url, topics: ['aa', 'a'] }, { 'configuration.topics[1]': 'must have at least 2 characters' }],
    [
      'too many items',
      { url, topics: ['aa', 'aa', 'aa', 'aa'] },
      { 'configuration.topics': 'must have at most 3 items' },
    ],
    [
      'a missing field of the chosen alternative',
      { url, answer: { kind: 'topic' } },
      { 'configuration.answer.statusPath': 'is required: set a string' },
    ],
    [
      'an unknown alternative',
      { url, answer: { kind: 'post' } },
      { 'configuration.answer.kind': 'must be `none`, or must be `topic`' },
    ],
    [
      'two violations',
      { url: 'broker', protocol: 4 },
      { 'configuration.url': expect.any(String) as string, 'configuration.protocol': expect.any(String) as string },
    ],
    [
      'a violation that only the connector detects',
      { url, username: 'u', password: 'guess' },
      { 'configuration.password': 'can be guessed; choose another one' },
    ],
  ])('reports %s and the allowed value', (_, configuration, violations) => {
    expect(check(configuration)).toEqual(violations);
  });

  it.each<[string, JsonObject, string]>([
    ['missing', {}, 'is required: use one of `response_topic`, `topic`'],
    ['unknown', { kind: 'post' }, 'must be one of `response_topic`, `topic`'],
    ['not a string', { kind: 7 }, 'must be one of `response_topic`, `topic`'],
  ])('lists the alternatives when the chosen one is %s', (_, answer, description) => {
    expect(checkConfiguration('mqtt', { url, uplinkTopic: 'up/{clientDeviceId}', answer })).toEqual([
      { field: 'configuration.answer.kind', description },
    ]);
  });

  it('is checked with schemas that were compiled earlier', async () => {
    const fresh: ConnectorType = {
      ...FAKE,
      id: 'fresh',
      configurationSchema: { ...FAKE.configurationSchema },
      deviceConfigurationSchema: { ...FAKE.deviceConfigurationSchema },
    };
    (CONNECTORS as ConnectorType[]).push(fresh);
    try {
      expect(await compileSchemas()).toBeGreaterThanOrEqual(2);
      expect(await compileSchemas()).toBe(0);
      expect(checkConfiguration('fresh', {})).toMatchObject([{ field: 'configuration.url' }]);
    } finally {
      (CONNECTORS as ConnectorType[]).pop();
    }
  });

  it('never shows a value, because it may be a secret', () => {
    const secret = 'tr0ub4dor';
    fc.assert(
      fc.property(
        fc.constantFrom(
          'url',
          'username',
          'password',
          'token',
          'keepaliveSeconds',
          'application',
          'protocol',
          'topic',
          'topics',
          'answer',
        ),
        fc.constantFrom<unknown>(secret, [secret], { kind: secret }, { secret: [secret] }),
        (name, value) => {
          expect(JSON.stringify(checkConnectionConfiguration(FAKE, { url: 'broker', [name]: value }))).not.toContain(
            secret,
          );
        },
      ),
      { seed: SEED },
    );
  });

  it('is checked for any input, and violations stay within the configuration', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (configuration) => {
        const violations = checkConnectionConfiguration(FAKE, configuration);
        expect(violations.every(({ field }) => field.startsWith('configuration'))).toBe(true);
      }),
      { seed: SEED },
    );
  });

  it('is checked by own properties only, with a limited number of violations', () => {
    const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`k${at}`, at]));
    expect(checkConnectionConfiguration(FAKE, wide).length).toBeLessThanOrEqual(2);
    const many = Object.fromEntries(Array.from({ length: 400 }, (_, at) => [`k${at}`, at]));
    expect(checkConnectionConfiguration(FAKE, many)).toHaveLength(51);
    expect(
      checkConnectionConfiguration(FAKE, JSON.parse('{"url": "mqtt://b", "__proto__": {"username": 1}}') as JsonObject),
    ).toMatchObject([{ field: 'configuration.__proto__' }]);
    expect(check(Object.create({ url }) as JsonObject)).toHaveProperty(['configuration.url']);
    const deep = Array.from({ length: 10_000 }).reduce<unknown>((inner) => [inner], 1);
    expect(check({ url, topics: deep })).toHaveProperty(['configuration.topics[0]']);
  });
});

describe('every connector of the catalogue', () => {
  it.each(CONNECTORS.map((connector) => [connector.id, connector] as const))(
    '%s has valid schemas that contain its secret fields',
    (id, connector) => {
      const ajv = new Ajv2020();
      for (const schema of [connector.configurationSchema, connector.deviceConfigurationSchema])
        expect([ajv.validateSchema(schema), ajv.errors]).toEqual([true, null]);
      const properties = Object.keys(connector.configurationSchema['properties'] ?? {});
      expect(connector.secretFields.filter((name) => !properties.includes(name))).toEqual([]);
      expect(checkConnectionConfiguration(connector, { 'no setting': 1 })).toContainEqual({
        field: 'configuration.no setting',
        description: expect.stringContaining('is not a known setting'),
      });
      expect(checkDeviceConfiguration(id, {})).toEqual([]);
    },
  );
});

/** Creates an object with this number of properties. */
const texts = (count: number, name = 'v', value = 'x'): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`${name}${at}`, value]));

describe.each(['gateway', 'mqtt', 'chirpstack'])('the configuration of a device on %s', (connector) => {
  const findViolations = (configuration: JsonObject): Record<string, string> =>
    Object.fromEntries(
      checkDeviceConfiguration(connector, configuration).map(({ field, description }) => [
        field.replace('physicalDevice.configuration', ''),
        description,
      ]),
    );

  it('may name a profile and variables, which are validated', () => {
    expect(
      findViolations({ profileId: 'p'.repeat(512), variables: texts(64, 'n'.repeat(62), 'ü'.repeat(256)) }),
    ).toEqual({});
    expect(findViolations({ profileId: '', variables: {} })).toEqual({ '.profileId': 'must have 1 to 512 characters' });
    expect(findViolations({ profileId: 'p'.repeat(513) })).toEqual({ '.profileId': 'must have 1 to 512 characters' });
    expect(findViolations({ profileId: 7, variables: [] })).toEqual({
      '.profileId': 'must be a string',
      '.variables': 'must be an object',
    });
    expect(findViolations({ variables: { a: 1, b: 'y'.repeat(257), c: '' } })).toEqual({
      '.variables.a': 'must be a string',
      '.variables.b': 'must have at most 256 characters',
    });
    expect(findViolations({ variables: texts(65) })).toEqual({ '.variables': 'must have at most 64 fields' });
    expect(findViolations({ variables: { ['n'.repeat(65)]: '' } })).toEqual({
      '.variables': expect.stringMatching(
        /^has a field `n{64}… \(1 more characters\)`, whose name must have 1 to 64 characters$/,
      ) as unknown,
    });
  });
});

describe('the variables and profile of a stored configuration', () => {
  it('include only valid values, because older records may contain any value under these names', () => {
    expect(getVariables({ variables: { a: 'x', b: 1, c: null, d: '' } })).toEqual({ a: 'x', d: '' });
    expect([{}, { variables: null }, { variables: ['x'] }, { variables: 'x' }].map(getVariables)).toEqual([
      {},
      {},
      {},
      {},
    ]);
    expect(
      Object.keys(
        getVariables({ variables: Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`v${at}`, 'x'])) }),
      ),
    ).toHaveLength(64);
    expect([{}, { profileId: 7 }, { profileId: 'a/b/c/EU868' }].map(findProfileId)).toEqual([
      undefined,
      undefined,
      'a/b/c/EU868',
    ]);
  });
});

describe('the configuration of a device', () => {
  beforeAll(registerFake);

  it('is checked with the schema of its connector', () => {
    expect(checkDeviceConfiguration('fake', { deviceClass: 'A', more: 1 })).toEqual([]);
    expect(checkDeviceConfiguration('fake', { deviceClass: 'D' })).toEqual([
      { field: 'physicalDevice.configuration.deviceClass', description: 'must be one of `A`, `B`, `C`' },
    ]);
  });
});
