import { checkConfiguration, checkDeviceConfiguration } from '../../src/connections/configurationCheck';
import { toCommand } from '../../src/connections/connectors/chirpstack/chirpStackCommand';
import { ChirpStackTopics, DEFAULT_TOPICS } from '../../src/connections/connectors/chirpstack/chirpStackTopics';
import { CHIRPSTACK } from '../../src/connections/connectors/chirpstack/chirpStackType';
import type { Downlink } from '../../src/connections';
import type { JsonObject } from '../../src/connections/connectorType';

const APPLICATION = '48f13ba9-7a3c-4d56-9e6d-0c6f2c1b7a11';
const VALID_SETTINGS = { url: 'mqtt://broker.example:1883', applicationId: APPLICATION };
const PEM = '-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n';

/** Returns the invalid fields. */
function findInvalidFields(configuration: JsonObject): string[] {
  return checkConfiguration('chirpstack', configuration).map(({ field }) => field);
}

describe('the configuration of a ChirpStack connection', () => {
  it.each([
    [VALID_SETTINGS],
    [
      {
        ...VALID_SETTINGS,
        encoding: 'protobuf',
        username: 'plantroom',
        password: 'secret',
        protocol: '3.1.1',
        clientId: 'plantroom-1',
        keepaliveSeconds: 60,
      },
    ],
    [
      {
        ...VALID_SETTINGS,
        url: 'mqtts://broker.example',
        caCertificate: PEM,
        clientCertificate: PEM,
        clientKey: PEM,
        serverName: 'broker',
      },
    ],
    [{ ...VALID_SETTINGS, eventTopic: 'site/{applicationId}/{devEui}/{event}', commandTopic: 'site/{devEui}/down' }],
  ])('accepts %j', (configuration) => {
    expect(findInvalidFields(configuration)).toEqual([]);
  });

  it.each([
    [{}, ['configuration.url', 'configuration.applicationId']],
    [{ ...VALID_SETTINGS, applicationId: 'mine' }, ['configuration.applicationId']],
    [{ ...VALID_SETTINGS, encoding: 'xml' }, ['configuration.encoding']],
    [{ ...VALID_SETTINGS, url: 'http://broker.example' }, ['configuration.url']],
    [{ ...VALID_SETTINGS, url: 'mqtt://user:word@broker.example' }, ['configuration.url']],
    [{ ...VALID_SETTINGS, password: 'secret' }, ['configuration.username']],
    [{ ...VALID_SETTINGS, caCertificate: PEM }, ['configuration.caCertificate']],
    [{ ...VALID_SETTINGS, url: 'mqtts://broker.example', clientKey: PEM }, ['configuration.clientCertificate']],
    [{ ...VALID_SETTINGS, url: 'mqtts://broker.example', caCertificate: 'none' }, ['configuration.caCertificate']],
    [{ ...VALID_SETTINGS, eventTopic: 'application/{devEui}/event' }, ['configuration.eventTopic']],
    [{ ...VALID_SETTINGS, eventTopic: 'application/x{devEui}/event/{event}' }, ['configuration.eventTopic']],
    [{ ...VALID_SETTINGS, eventTopic: '+/{devEui}/{event}' }, ['configuration.eventTopic']],
    [
      { ...VALID_SETTINGS, eventTopic: '{tenant}/{devEui}/{event}', commandTopic: 'down' },
      ['configuration.eventTopic', 'configuration.commandTopic'],
    ],
    [{ ...VALID_SETTINGS, commandTopic: 'down/{devEui}/#' }, ['configuration.commandTopic']],
    [
      { ...VALID_SETTINGS, eventTopic: '$share/plantroom/{devEui}/{event}', commandTopic: '$SYS/{devEui}' },
      ['configuration.eventTopic', 'configuration.commandTopic'],
    ],
    [{ ...VALID_SETTINGS, applicaton: APPLICATION }, ['configuration.applicaton']],
  ])('rejects %j', (configuration, fields) => {
    expect(findInvalidFields(configuration)).toEqual(fields);
  });

  it('never shows a secret in a violation', () => {
    const said = JSON.stringify(
      checkConfiguration('chirpstack', {
        ...VALID_SETTINGS,
        url: 'mqtt://user:word@broker.example',
        password: 'secret',
        clientKey: 'key',
        extra: 1,
      }),
    );
    for (const secret of ['secret', 'word@', '"key"']) expect(said).not.toContain(secret);
  });

  it('accepts an optional device class', () => {
    expect(checkDeviceConfiguration('chirpstack', {})).toEqual([]);
    expect(checkDeviceConfiguration('chirpstack', { deviceClass: 'C' })).toEqual([]);
    expect(checkDeviceConfiguration('chirpstack', { deviceClass: 'D' }).map(({ field }) => field)).toEqual([
      'physicalDevice.configuration.deviceClass',
    ]);
  });
});

describe('a DevEUI', () => {
  it.each([
    '0101FEff01010203',
    ' 0101feff01010203 ',
    '0x0101FEFF01010203',
    '01:01:FE:FF:01:01:02:03',
    '01-01-fe-ff-01-01-02-03',
    '0101 FEFF 0101 0203',
  ])('accepts the notation %j', (text) => {
    expect(CHIRPSTACK.findClientDeviceId(text)).toBe('0101feff01010203');
  });

  it.each(['', '0101feff0101020', '0101feff010102033', '0101feff0101020g', 'device', '0101/feff01010203'])(
    'rejects the notation %j',
    (text) => {
      expect(CHIRPSTACK.findClientDeviceId(text)).toBeUndefined();
    },
  );
});

describe('a command to ChirpStack', () => {
  const COMMAND = {
    clientDeviceId: '0101feff01010203',
    mode: 'direct',
    topic: '',
    fPort: 10,
    confirmed: false,
    networkCodec: 'present',
  } as const;
  const DOWNLINK: Downlink = {
    organizationId: 'org-1',
    connectionId: 'c',
    executionId: 'e',
    attempt: 1,
    clientDeviceId: COMMAND.clientDeviceId,
    deadline: 5000,
    payload: { kind: 'json', value: { on: true } },
    fPort: 10,
    confirmed: true,
    topic: '',
  };

  it.each([
    [{}, []],
    [{ mode: 'encoded', fPort: 223 } as const, []],
    [{ mode: 'encoded', fPort: undefined } as const, []],
    [{ mode: 'encoded', fPort: 224 } as const, ['command.fPort']],
    [{ fPort: undefined }, ['command.fPort']],
    [{ fPort: 0 }, ['command.fPort']],
    [{ fPort: 224 }, ['command.fPort']],
    [{ topic: 'my/topic' }, ['command.mqttTopic']],
    [{ networkCodec: 'unknown' } as const, []],
    [{ networkCodec: 'missing' } as const, ['command.mode']],
    [{ networkCodec: 'missing', mode: 'encoded' } as const, []],
  ])('is validated with %j before it is admitted', (overrides, fields) => {
    expect(CHIRPSTACK.checkCommand(VALID_SETTINGS, { ...COMMAND, ...overrides }).map(({ field }) => field)).toEqual(
      fields,
    );
  });

  it('expects its own acknowledgement when it is confirmed', () => {
    expect([CHIRPSTACK.getKind(VALID_SETTINGS, true), CHIRPSTACK.getKind(VALID_SETTINGS, false)]).toEqual([
      'chirpstack_confirmed',
      'chirpstack',
    ]);
  });

  it('is identified by its execution and expires with it', () => {
    expect(toCommand(DOWNLINK)).toEqual({
      id: 'e',
      devEui: COMMAND.clientDeviceId,
      confirmed: true,
      fPort: 10,
      expiresAt: 5000,
      payload: { kind: 'json', value: { on: true } },
    });
    expect(toCommand({ ...DOWNLINK, payload: { kind: 'json', value: [1] } })).toMatchObject({
      code: 'payload_no_object',
    });
    expect(toCommand({ ...DOWNLINK, fPort: undefined })).toMatchObject({ code: 'f_port_missing' });
  });
});

describe('the topics of an application', () => {
  it('are subscribed to and parsed by their template', () => {
    const topics = new ChirpStackTopics(
      'a/{applicationId}/{event}/of/{devEui}',
      'a/{applicationId}/{devEui}/down',
      'app',
    );
    expect(topics.filter).toBe('a/app/+/of/+');
    expect(topics.readEvent('a/app/up/of/01')).toEqual({ devEui: '01', event: 'up' });
    expect(topics.getCommandTopic('01')).toBe('a/app/01/down');
    for (const other of ['a/app/up/of', 'a/app/up/of/01/more', 'b/app/up/of/01', 'a/other/up/of/01'])
      expect(topics.readEvent(other)).toBeUndefined();
  });

  it('default to those of ChirpStack', () => {
    const topics = new ChirpStackTopics(DEFAULT_TOPICS.eventTopic, DEFAULT_TOPICS.commandTopic, APPLICATION);
    expect(topics.filter).toBe(`application/${APPLICATION}/device/+/event/+`);
    expect(topics.getCommandTopic('01')).toBe(`application/${APPLICATION}/device/01/command/down`);
  });
});
