import { fromBinary, toBinary, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import fc from 'fast-check';
import { readAsset } from '../../src/kernel/assets';
import { Descriptors, getApiDescriptors } from '../../src/api/descriptors/descriptors';
import { FieldRuleChecks } from '../../src/api/validation/fieldRuleChecks';
import { computeReceiveLimit } from '../../src/api/validation/receiveLimit';
import * as access from '../../src/gen/organization_access_control/access_control_service';
import * as commands from '../../src/gen/actuator_command/v2/actuator_command_service';
import * as connections from '../../src/gen/connection/connection_service';
import * as connectors from '../../src/gen/connector/connector_service';
import * as dashboards from '../../src/gen/dashboard/v2/dashboard_service';
import * as devices from '../../src/gen/digitaldevice/v2/digital_device_service';
import * as gateways from '../../src/gen/gateway/v1/gateway_service';
import * as media from '../../src/gen/media/v1/media_service';
import * as organizations from '../../src/gen/organizations_service';
import * as readings from '../../src/gen/sensorquery/v1/sensor_query_service';
import * as templates from '../../src/gen/sensor_template/v2/sensor_template_service';
import * as widgets from '../../src/gen/widget/v2/widget_service';
import * as users from '../../src/gen/userprofile/user_profile_service';
import { listViolations } from '../support/listViolations';

const descriptors = getApiDescriptors();
const checks = new FieldRuleChecks(descriptors);

interface MessageType {
  fromPartial(partial: object): Record<string, unknown>;
  decode(bytes: Uint8Array): Record<string, unknown>;
  encode(message: Record<string, unknown>): { finish(): Uint8Array };
}
const PACKAGES: Record<string, object> = {
  organization_access_control: access,
  'actuator_command.v2': commands,
  connection: connections,
  connector: connectors,
  'dashboard.v2': dashboards,
  'widget.v2': widgets,
  'digitaldevice.v2': devices,
  'gateway.v1': gateways,
  'media.v1': media,
  'sensor_template.v2': templates,
  'sensorquery.v1': readings,
  '': organizations,
  userprofile: users,
};

function getType(desc: DescMessage): MessageType {
  const { package: name } = desc.file.proto;
  const inner = (name === '' ? desc.typeName : desc.typeName.slice(name.length + 1)).replaceAll('.', '_');
  return (PACKAGES[name] as Record<string, MessageType>)[inner] as MessageType;
}

/** Returns the violations of a request of a type, by field. */
function wrong(typeName: string, partial: object): Record<string, string> {
  const desc = descriptors.registry.getMessage(typeName) as DescMessage;
  const found = listViolations(checks, desc, getType(desc).fromPartial(partial));
  return Object.fromEntries(found.map((one) => [one.field, one.description]));
}

const COMMAND = { id: 'd', organizationId: '', command: { name: 'Open', mode: 1, verificationStrategy: 1 } };
const inCommand = (more: object) => ({ ...COMMAND, command: { ...COMMAND.command, ...more } });
const create = (more: object) => wrong('actuator_command.v2.CreateCommandRequest', inCommand(more));
const plantroomMethods = [...descriptors.methods.values()].filter(({ service }) => !service.startsWith('grpc.'));

describe('the protos', () => {
  it('give every method a scope; an image that lacks one is rejected', () => {
    const image = fromBinary(FileDescriptorSetSchema, readAsset('image.binpb'));
    const method = image.file.find((file) => file.package === 'userprofile')?.service[0]?.method[0];
    if (method?.options) method.options.$unknown = [];
    expect(() => new Descriptors(toBinary(FileDescriptorSetSchema, image))).toThrow(
      '/userprofile.UserProfileService/GetPersonalUser (missing)',
    );
  });

  it('declare route, status and scope of a method', () => {
    expect(descriptors.methods.get('/actuator_command.v2.ActuatorCommandService/CreateCommand')).toMatchObject({
      scope: 'commands:write',
      successStatus: 201,
      routes: [{ verb: 'POST', route: '/api/v2/devices/{id}/commands', body: '*' }],
      kind: 'unary',
      namesOrganization: true,
    });
    expect(
      descriptors.methods.get('/sensor_template.v2.SensorTemplateService/DeleteSensorTemplate')?.routes,
    ).toHaveLength(2);
  });

  it('name all fields of every request as ts-proto does', () => {
    const visited = new Set<string>();
    const compare = (desc: DescMessage): void => {
      if (visited.has(desc.typeName) || desc.typeName.startsWith('google.')) return;
      visited.add(desc.typeName);
      const keys = desc.members.map((member) => member.localName);
      expect([desc.typeName, Object.keys(getType(desc).fromPartial({})).toSorted()]).toEqual([
        desc.typeName,
        keys.toSorted(),
      ]);
      for (const field of desc.fields as readonly DescField[]) if (field.message) compare(field.message);
    };
    for (const method of plantroomMethods) compare(method.request);
    expect(visited.size).toBeGreaterThan(30);
  });
});

const limit = (name: string): number =>
  computeReceiveLimit(descriptors.registry.getMessage(name) as DescMessage, descriptors);

describe('the maximum size of a request message', () => {
  it('is below that of the server and small for small requests', () => {
    const all = plantroomMethods.map(({ request }) => [request.typeName, limit(request.typeName)] as const);
    expect(all.filter(([, bytes]) => bytes > 2.5 * 1024 * 1024)).toEqual([]);
    expect(limit('userprofile.GetPersonalUserRequest')).toBeLessThan(75_000);
    expect(limit('digitaldevice.v2.GetDigitalDeviceRequest')).toBeLessThan(75_000);
    expect(limit('digitaldevice.v2.CreateDigitalDeviceRequest')).toBeLessThan(660_000);
    // The fields together may hold twice as much: a message may declare its own maximum.
    expect(limit('actuator_command.v2.CreateCommandRequest')).toBeLessThan(1_120_000);
  });

  it.each<[string, string, object]>([
    [
      'the JSON that is largest on the wire',
      'digitaldevice.v2.CreateDigitalDeviceRequest',
      {
        physicalDevice: {
          clientDeviceId: 'c',
          connectionId: 'c',
          configuration: { a: Array.from({ length: 32_700 }, () => 1) },
        },
      },
    ],
    [
      'nested lists',
      'digitaldevice.v2.CreateDigitalDeviceRequest',
      {
        physicalDevice: {
          clientDeviceId: 'c',
          connectionId: 'c',
          configuration: { a: Array.from({ length: 21_800 }, () => []) },
        },
      },
    ],
    [
      'all commands that a gateway may know',
      'gateway.v1.AttachRequest',
      {
        message: {
          $case: 'hello',
          value: {
            known: Array.from({ length: 10_000 }, () => ({
              executionId: 'x'.repeat(40),
              status: 1,
              code: 'done',
              message: 'done',
            })),
          },
        },
      },
    ],
    [
      'an uplink of 64 KiB',
      'gateway.v1.AttachRequest',
      { message: { $case: 'uplink', value: { payload: { $case: 'bytes', value: new Uint8Array(65_536) } } } },
    ],
    [
      'all mappings, with multi-byte characters',
      'digitaldevice.v2.SetSensorMappingsRequest',
      { mappings: Array.from({ length: 500 }, () => ({ sensorId: 'x'.repeat(128), sourcePath: '😀'.repeat(512) })) },
    ],
    [
      'a schema of 64 KiB with numbers',
      'actuator_command.v2.CreateCommandRequest',
      inCommand({
        paramsSchema: Object.fromEntries(
          Array.from({ length: 64 }, (_, at) => [
            `p${at}`,
            { enum: Array.from({ length: 200 }, (__, value) => value), description: 'x'.repeat(200) },
          ]),
        ),
      }),
    ],
    [
      'states with multi-byte characters',
      'actuator_command.v2.CreateCommandRequest',
      inCommand({
        expectedSensorStates: Array.from({ length: 50 }, () => ({ sensorId: 's', valueTemplate: '😀'.repeat(4096) })),
        customEncoder: 'x'.repeat(262_144),
      }),
    ],
  ])('is enough for %s', (_, name, partial) => {
    const type = getType(descriptors.registry.getMessage(name) as DescMessage);
    expect(type.encode(type.fromPartial(partial)).finish().length).toBeLessThan(limit(name));
  });
});

describe('field rules', () => {
  it('accept a valid request', () => {
    expect(create({})).toEqual({});
  });

  it.each<[string, object, string]>([
    ['an empty required string', { name: '' }, 'command.name'],
    ['a name of white space', { name: ' \t ' }, 'command.name'],
    ['a name of 256 characters', { name: 'x'.repeat(256) }, 'command.name'],
    ['a name of invisible characters', { name: '\u200b\u2060\u00ad' }, 'command.name'],
    ['a control character in a name', { name: 'a\nb' }, 'command.name'],
    ['NUL in any string', { description: 'a\0b' }, 'command.description'],
    ['an unpaired surrogate', { description: 'a\ud800' }, 'command.description'],
    ['a string that is too long', { description: 'x'.repeat(2001) }, 'command.description'],
    ['an unknown enum number', { mode: 77 }, 'command.mode'],
    ['a missing required enum', { mode: 0 }, 'command.mode'],
    ['a number below the minimum', { fPort: 0 }, 'command.fPort'],
    ['a number above the maximum', { fPort: 224 }, 'command.fPort'],
    ['text of too many bytes', { mqttTopic: 'ä'.repeat(513) }, 'command.mqttTopic'],
    ['an empty text with a minimum length', { mqttTopic: '' }, 'command.mqttTopic'],
    ['an id with a space', { queryCommandId: 'a b' }, 'command.queryCommandId'],
    ['an empty id that was set', { queryCommandId: '' }, 'command.queryCommandId'],
    [
      'a list that is too long',
      { expectedSensorStates: Array.from({ length: 51 }, () => ({ sensorId: 's', valueTemplate: '1' })) },
      'command.expectedSensorStates',
    ],
    [
      'a map that is too large',
      { paramsSchema: Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`p${at}`, { type: 1 }])) },
      'command.paramsSchema',
    ],
    [
      'a number in a map that is not finite',
      { paramsSchema: { x: { type: 3, min: NaN } } },
      'command.paramsSchema.x.min',
    ],
    [
      'JSON that is too deep',
      { encodedParamsTemplate: JSON.parse('{"a":'.repeat(40) + '1' + '}'.repeat(40)) as object },
      'command.encodedParamsTemplate',
    ],
    ['JSON that is too large', { encodedParamsTemplate: { a: 'x'.repeat(65_536) } }, 'command.encodedParamsTemplate'],
    ['NUL inside JSON', { encodedParamsTemplate: { a: ['\0'] } }, 'command.encodedParamsTemplate.a[0]'],
    [
      'a number that is not finite inside JSON',
      { encodedParamsTemplate: { a: { b: Infinity } } },
      'command.encodedParamsTemplate.a.b',
    ],
  ])('reject %s', (_, more, field) => {
    expect(Object.keys(create(more))).toEqual([field]);
  });

  it('do not descend into JSON that is already too large', () => {
    const trap = Object.defineProperty({}, 'x', {
      enumerable: true,
      get: () => {
        throw new Error('looked further');
      },
    });
    expect(create({ encodedParamsTemplate: { a: ['x'.repeat(65_536), trap] } })).toEqual({
      'command.encodedParamsTemplate': 'is too large: at most 65536 bytes of JSON are allowed',
    });
    expect(create({ encodedParamsTemplate: { a: Array.from({ length: 65_536 }, () => trap) } })).toEqual({
      'command.encodedParamsTemplate': 'is too large: at most 65536 bytes of JSON are allowed',
    });
  });

  it('count code points, not code units', () => {
    expect(create({ name: '😀'.repeat(255) })).toEqual({});
    expect(Object.keys(create({ name: '😀'.repeat(256) }))).toEqual(['command.name']);
  });

  it('name items of lists and maps by their position', () => {
    expect(
      Object.keys(
        wrong('digitaldevice.v2.SetSensorMappingsRequest', {
          id: 'd',
          mappings: [
            { sensorId: 's', sourcePath: 'a' },
            { sensorId: '', sourcePath: '' },
          ],
        }),
      ),
    ).toEqual(['mappings[1].sensorId', 'mappings[1].sourcePath']);
    expect(
      Object.keys(wrong('organization_access_control.CreateApiKeyRequest', { name: 'n', scopes: ['a', 'b', 'a'] })),
    ).toEqual(['scopes[2]']);
  });

  it('reject impossible times and prototypes', () => {
    const desc = descriptors.registry.getMessage('gateway.v1.AttachRequest') as DescMessage;
    const message = {
      message: { $case: 'commandReceived', value: { executionId: 'e', time: { seconds: 9e12, nanos: 0 } } },
    };
    expect(listViolations(checks, desc, message).map((one) => one.field)).toEqual(['commandReceived.time']);
    const polluted = commands.CreateCommandRequest.fromPartial(inCommand({}));
    Object.setPrototypeOf(polluted.command?.paramsSchema, { x: 1 });
    expect(
      listViolations(
        checks,
        descriptors.registry.getMessage('actuator_command.v2.CreateCommandRequest') as DescMessage,
        polluted,
      ),
    ).toHaveLength(1);
    expect(Object.keys(create({ encodedParamsTemplate: { a: JSON.parse('{"__proto__": 1}') as object } }))).toEqual([
      'command.encodedParamsTemplate.a',
    ]);
  });

  it('report all violations at once', () => {
    const fields = Object.keys(
      wrong('actuator_command.v2.CreateCommandRequest', {
        id: '',
        command: { name: '', mode: 9, fPort: 500, paramsSchema: { x: { type: 99 } } },
      }),
    );
    expect(fields.toSorted()).toEqual([
      'command.fPort',
      'command.mode',
      'command.name',
      'command.paramsSchema.x.type',
      'command.verificationStrategy',
      'id',
    ]);
  });

  it('trim names in place', () => {
    const request = commands.CreateCommandRequest.fromPartial(inCommand({ name: '  Open\u3000' }));
    expect(
      listViolations(
        checks,
        descriptors.registry.getMessage('actuator_command.v2.CreateCommandRequest') as DescMessage,
        request,
      ),
    ).toEqual([]);
    expect(request.command?.name).toBe('Open');
  });

  it('truncate what is too large to the allowed size for later readers of the message', () => {
    const long = 'x'.repeat(1_000_000);
    const states = Array.from({ length: 70_000 }, (_, at) => ({
      sensorId: at === 1 ? long : `s${at}`,
      valueTemplate: at === 2 ? long : '1',
    }));
    const schema = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`p${at}`, { pattern: long }]));
    const request = commands.CreateCommandRequest.fromPartial(
      inCommand({
        name: long,
        directPayload: long,
        customEncoder: long,
        expectedSensorStates: states,
        paramsSchema: schema,
        encodedParamsTemplate: { a: [long] },
      }),
    );
    listViolations(
      checks,
      descriptors.registry.getMessage('actuator_command.v2.CreateCommandRequest') as DescMessage,
      request,
    );
    const {
      name,
      directPayload,
      customEncoder,
      expectedSensorStates = [],
      paramsSchema = {},
      encodedParamsTemplate,
    } = request.command ?? {};
    expect([name, directPayload, customEncoder].map((text) => text?.length)).toEqual([255, 65_536, 262_144]);
    expect([
      expectedSensorStates.length,
      expectedSensorStates[1]?.sensorId.length,
      expectedSensorStates[2]?.valueTemplate.length,
      expectedSensorStates[49]?.sensorId,
    ]).toEqual([50, 128, 4096, 's49']);
    expect(Object.entries(paramsSchema).map(([key, entry]) => [key, entry.pattern?.length])).toEqual(
      Array.from({ length: 64 }, (_, at) => [`p${at}`, 1000]),
    );
    expect(encodedParamsTemplate).toEqual({});
    const key = access.CreateApiKeyRequest.fromPartial({
      name: 'n',
      scopes: ['a'],
      connectionIds: Array.from({ length: 5000 }, () => long),
    });
    listViolations(
      checks,
      descriptors.registry.getMessage('organization_access_control.CreateApiKeyRequest') as DescMessage,
      key,
    );
    expect(key.connectionIds.map((id) => id.length)).toEqual(Array.from({ length: 100 }, () => 128));
  });

  it('never throw for any decodable request of any method', () => {
    fc.assert(
      fc.property(fc.constantFrom(...plantroomMethods), fc.uint8Array({ maxLength: 64 }), ({ request }, bytes) => {
        let message: Record<string, unknown>;
        try {
          message = getType(request).decode(bytes);
        } catch {
          return; // the adapter rejects what cannot be decoded
        }
        expect(listViolations(checks, request, message)).toBeInstanceOf(Array);
      }),
      { seed: 20_262, numRuns: 3000 },
    );
  });
});
