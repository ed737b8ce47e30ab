import { Ajv2020 } from 'ajv/dist/2020';
import fc from 'fast-check';
import { checkConfiguration, checkConfigurationOf, checkDeviceConfiguration, compileSchemas } from '../../src/connections/configurationCheck';
import { CONNECTORS } from '../../src/connections/connectors';
import type { ConnectorType, JsonObject } from '../../src/connections/connectorType';
import { profileIdOf, variablesOf } from '../../src/connections/deviceConfiguration';
import { FAKE, registerFake } from './fakeConnector';

const SEED = 20_261_121;
const check = (configuration: JsonObject): Record<string, string> => Object.fromEntries(checkConfigurationOf(FAKE, configuration).map(({ field, description }) => [field, description]));
const url = 'mqtt://broker.example:1883';

describe('the configuration of a connection', () => {
  it('may be what its schema allows', () => {
    expect(check({ url, username: 'u', password: 'p', keepaliveSeconds: 5, protocol: 'auto', topic: 'a', topics: ['aa'], answer: { kind: 'topic', statusPath: 'ok' } })).toEqual({});
    expect(check({ url, answer: { kind: 'none' } })).toEqual({});
  });

  it.each<[string, JsonObject, Record<string, string>]>([
    ['a missing setting', {}, { 'configuration.url': 'is missing; give a text: The URL of the other side' }],
    ['one that another one needs', { url, password: 'p' }, { 'configuration.username': 'is missing; give a text (`password` needs it)' }],
    ['a mistyped setting', { url, usernam: 'u' }, { 'configuration.usernam': 'is no setting here; did you mean `username`?' }],
    ['an unknown setting', { url, colour: 'red' }, { 'configuration.colour': expect.stringMatching(/^is no setting here; leave it out, or give one of `url`, `username`/) as string }],
    ['another type', { url, keepaliveSeconds: '5' }, { 'configuration.keepaliveSeconds': 'must be a whole number' }],
    ['a number out of range', { url, keepaliveSeconds: 4 }, { 'configuration.keepaliveSeconds': 'must be 5 to 600' }],
    ['a text that is too long', { url, username: 'u'.repeat(21) }, { 'configuration.username': 'must have 1 to 20 characters' }],
    ['a text that is no URL', { url: 'broker' }, { 'configuration.url': 'must be a URL: The URL of the other side' }],
    ['a text that is no UUID', { url, application: '7' }, { 'configuration.application': expect.stringContaining('a UUID') as string }],
    ['another word', { url, protocol: '4' }, { 'configuration.protocol': 'must be one of `auto`, `5`, `3.1.1`' }],
    ['a text of another form', { url, topic: '#' }, { 'configuration.topic': 'does not have the right form: A topic without #' }],
    ['an item', { url, topics: ['aa', 'a'] }, { 'configuration.topics[1]': 'must have at least 2 characters' }],
    ['too many items', { url, topics: ['aa', 'aa', 'aa', 'aa'] }, { 'configuration.topics': 'must have at most 3 items' }],
    ['a member of the alternative that was meant', { url, answer: { kind: 'topic' } }, { 'configuration.answer.statusPath': 'is missing; give a text' }],
    ['no alternative', { url, answer: { kind: 'post' } }, { 'configuration.answer.kind': 'must be `none`, or must be `topic`' }],
    ['two things at once', { url: 'broker', protocol: 4 }, { 'configuration.url': expect.any(String) as string, 'configuration.protocol': expect.any(String) as string }],
    ['what the connector says beyond the schema', { url, username: 'u', password: 'guess' }, { 'configuration.password': 'can be guessed; choose another one' }],
  ])('says %s, and what would be right', (_, configuration, violations) => {
    expect(check(configuration)).toEqual(violations);
  });

  it.each<[string, JsonObject, string]>([
    ['missing', {}, 'is missing; give one of `response_topic`, `topic`'],
    ['another one', { kind: 'post' }, 'must be one of `response_topic`, `topic`'],
    ['no text', { kind: 7 }, 'must be one of `response_topic`, `topic`'],
  ])('says which alternatives there are where the chosen one is %s', (_, answer, description) => {
    expect(checkConfiguration('mqtt', { url, uplinkTopic: 'up/{clientDeviceId}', answer })).toEqual([{ field: 'configuration.answer.kind', description }]);
  });

  it('is held against schemas that were made ready before', async () => {
    const fresh: ConnectorType = { ...FAKE, id: 'fresh', configurationSchema: { ...FAKE.configurationSchema }, deviceConfigurationSchema: { ...FAKE.deviceConfigurationSchema } };
    (CONNECTORS as ConnectorType[]).push(fresh);
    try {
      expect(await compileSchemas()).toBeGreaterThanOrEqual(2);
      expect(await compileSchemas()).toBe(0);
      expect(checkConfiguration('fresh', {})).toMatchObject([{ field: 'configuration.url' }]);
    } finally {
      (CONNECTORS as ConnectorType[]).pop();
    }
  });

  it('never shows a value: it may be a secret', () => {
    const secret = 'tr0ub4dor';
    fc.assert(
      fc.property(fc.constantFrom('url', 'username', 'password', 'token', 'keepaliveSeconds', 'application', 'protocol', 'topic', 'topics', 'answer'), fc.constantFrom<unknown>(secret, [secret], { kind: secret }, { secret: [secret] }), (name, value) => {
        expect(JSON.stringify(checkConfigurationOf(FAKE, { url: 'broker', [name]: value }))).not.toContain(secret);
      }),
      { seed: SEED },
    );
  });

  it('takes whatever comes, and never says too much of it', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (configuration) => {
        const violations = checkConfigurationOf(FAKE, configuration);
        expect(violations.every(({ field }) => field.startsWith('configuration'))).toBe(true);
      }),
      { seed: SEED },
    );
  });

  it('counts members of its own only, and says little of a hostile one', () => {
    const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`k${at}`, at]));
    expect(checkConfigurationOf(FAKE, wide).length).toBeLessThanOrEqual(2);
    const many = Object.fromEntries(Array.from({ length: 400 }, (_, at) => [`k${at}`, at]));
    expect(checkConfigurationOf(FAKE, many)).toHaveLength(51);
    expect(checkConfigurationOf(FAKE, JSON.parse('{"url": "mqtt://b", "__proto__": {"username": 1}}') as JsonObject)).toMatchObject([{ field: 'configuration.__proto__' }]);
    expect(check(Object.create({ url }) as JsonObject)).toHaveProperty(['configuration.url']);
    const deep = Array.from({ length: 10_000 }).reduce<unknown>((inner) => [inner], 1);
    expect(check({ url, topics: deep })).toHaveProperty(['configuration.topics[0]']);
  });
});

describe('every connector of the catalogue', () => {
  it.each(CONNECTORS.map((connector) => [connector.id, connector] as const))('%s has schemas that can be used, and its secret fields in them', (id, connector) => {
    const ajv = new Ajv2020();
    for (const schema of [connector.configurationSchema, connector.deviceConfigurationSchema]) expect([ajv.validateSchema(schema), ajv.errors]).toEqual([true, null]);
    const properties = Object.keys(connector.configurationSchema['properties'] ?? {});
    expect(connector.secretFields.filter((name) => !properties.includes(name))).toEqual([]);
    expect(checkConfigurationOf(connector, { 'no setting': 1 })).toContainEqual({ field: 'configuration.no setting', description: expect.stringContaining('is no setting here') });
    expect(checkDeviceConfiguration(id, {})).toEqual([]);
  });
});

/** So many members. */
const texts = (count: number, name = 'v', value = 'x'): JsonObject => Object.fromEntries(Array.from({ length: count }, (_, at) => [`${name}${at}`, value]));

describe.each(['gateway', 'mqtt', 'chirpstack'])('the configuration of a device on %s', (connector) => {
  const wrong = (configuration: JsonObject): Record<string, string> => Object.fromEntries(checkDeviceConfiguration(connector, configuration).map(({ field, description }) => [field.replace('physicalDevice.configuration', ''), description]));

  it('may name a profile and variables, and is told what is wrong with them', () => {
    expect(wrong({ profileId: 'p'.repeat(512), variables: texts(64, 'n'.repeat(62), 'ü'.repeat(256)) })).toEqual({});
    expect(wrong({ profileId: '', variables: {} })).toEqual({ '.profileId': 'must have 1 to 512 characters' });
    expect(wrong({ profileId: 'p'.repeat(513) })).toEqual({ '.profileId': 'must have 1 to 512 characters' });
    expect(wrong({ profileId: 7, variables: [] })).toEqual({ '.profileId': 'must be a text', '.variables': 'must be an object' });
    expect(wrong({ variables: { a: 1, b: 'y'.repeat(257), c: '' } })).toEqual({ '.variables.a': 'must be a text', '.variables.b': 'must have at most 256 characters' });
    expect(wrong({ variables: texts(65) })).toEqual({ '.variables': 'must have at most 64 members' });
    expect(wrong({ variables: { ['n'.repeat(65)]: '' } })).toEqual({ '.variables': expect.stringMatching(/^has a member `n{64}… \(1 more characters\)`, whose name must have 1 to 64 characters$/) as unknown });
  });
});

describe('variables and profile of a stored configuration', () => {
  it('are what has the right form; anything may have had these names before', () => {
    expect(variablesOf({ variables: { a: 'x', b: 1, c: null, d: '' } })).toEqual({ a: 'x', d: '' });
    expect([{}, { variables: null }, { variables: ['x'] }, { variables: 'x' }].map(variablesOf)).toEqual([{}, {}, {}, {}]);
    expect(Object.keys(variablesOf({ variables: Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`v${at}`, 'x'])) }))).toHaveLength(64);
    expect([{}, { profileId: 7 }, { profileId: 'a/b/c/EU868' }].map(profileIdOf)).toEqual([undefined, undefined, 'a/b/c/EU868']);
  });
});

describe('the configuration of a device', () => {
  beforeAll(registerFake);

  it('is held against the schema of its connector', () => {
    expect(checkDeviceConfiguration('fake', { deviceClass: 'A', more: 1 })).toEqual([]);
    expect(checkDeviceConfiguration('fake', { deviceClass: 'D' })).toEqual([{ field: 'physicalDevice.configuration.deviceClass', description: 'must be one of `A`, `B`, `C`' }]);
  });
});
