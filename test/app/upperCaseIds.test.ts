import { fromBinary } from '@bufbuild/protobuf';
import { newId } from '../../src/kernel/ids';
import { sqliteOnly } from '../support/engines';
import { HttpClient } from '../support/http';
import { as, descriptors, encode, startTestApp, type TestApp } from '../support/testApp';

const GET_DEVICE = '/digitaldevice.v2.DigitalDeviceService/GetDigitalDevice';
const LIST_DEVICES = '/digitaldevice.v2.DigitalDeviceService/ListDigitalDevices';

describe.each(sqliteOnly())('a UUID in upper case is the same id, on $name', (engine) => {
  let server: TestApp;
  let http: HttpClient;
  let deviceId: string;
  let sensorId: string;
  let templateId: string;
  beforeAll(async () => {
    server = await startTestApp(engine);
    http = new HttpClient(
      server.app.addresses.http ?? '',
      server.app.ca ?? '',
      as(server.key, server.organizationId.toUpperCase()),
    );
    const connection = await http.call('POST', '/api/v2/connections', { connectorId: 'gateway', name: 'Plant room' });
    const connectionId = String(connection['id']).toUpperCase();
    const physicalDevice = { connectionId, clientDeviceId: 'valve' };
    deviceId = String((await http.call('POST', '/api/v2/devices', { name: 'Valve', physicalDevice }))['id']);
    const { sensorTemplates } = await http.call('GET', '/api/v2/devices/sensor-templates');
    templateId = (sensorTemplates as { id: string }[])[0]?.id ?? '';
    const { sensors } = await http.call('POST', `/api/v2/devices/${deviceId.toUpperCase()}/sensors`, {
      organizationId: server.organizationId.toUpperCase(),
      sensorTemplateIds: [templateId.toUpperCase()],
    });
    sensorId = (sensors as { id: string }[])[0]?.id ?? '';
  });
  afterAll(async () => {
    http.close();
    await server.stop();
  });

  it('in the path, the body and the query of REST', async () => {
    const path = `/api/v2/devices/${deviceId.toUpperCase()}`;
    await http.call('PUT', `${path}/sensor-mappings`, {
      mappings: [{ sensorId: sensorId.toUpperCase(), sourcePath: 'a' }],
    });
    expect(await http.call('GET', path)).toMatchObject({ id: deviceId, name: 'Valve' });
    const query = new URLSearchParams({
      organizationId: server.organizationId.toUpperCase(),
      deviceIds: deviceId.toUpperCase(),
      sensorIds: sensorId.toUpperCase(),
    });
    expect((await http.call('GET', `/api/v2/readings:latest?${query.toString()}`))['sensors']).toMatchObject([
      { sensorId, deviceId },
    ]);
  });

  it('twice in a list, in different letters, is a duplicate', async () => {
    const query = new URLSearchParams([
      ['deviceIds', deviceId],
      ['deviceIds', deviceId.toUpperCase()],
    ]);
    expect(await http.get(`/api/v2/readings:latest?${query.toString()}`)).toMatchObject({ status: 400 });
  });

  it('in the limits of a key, which then reaches the device under both spellings', async () => {
    const { key } = await http.call<{ key: string }>('POST', '/api/v2/api-keys', {
      name: 'limited',
      scopes: ['devices:read'],
      restrictions: { deviceIds: [deviceId.toUpperCase()] },
    });
    const headers = { 'x-api-key': key };
    for (const id of [deviceId, deviceId.toUpperCase()])
      expect(await http.get(`/api/v2/devices/${id}`, headers)).toMatchObject({ status: 200 });
  });

  it.each([
    ['the organization in upper case', (key: string, organizationId: string) => as(key, organizationId.toUpperCase())],
    ['blanks around the key', (key: string, organizationId: string) => as(` ${key} `, organizationId)],
    ['blanks around the organization', (key: string, organizationId: string) => as(key, ` ${organizationId} `)],
  ])('over gRPC, with %s', async (_name, getHeaders) => {
    const descriptor = descriptors.methods.get(GET_DEVICE);
    if (!descriptor) throw new Error(`${GET_DEVICE} is unknown`);
    const request = encode(descriptor.request, { id: deviceId.toUpperCase() });
    const { code, answer } = await server.send(descriptor, request, getHeaders(server.key, server.organizationId));
    expect(code).toBe(0);
    expect(fromBinary(descriptor.response, answer ?? Buffer.alloc(0))).toMatchObject({ id: deviceId });
  });

  it('but the letters of another organization stay another organization', async () => {
    const descriptor = descriptors.methods.get(LIST_DEVICES);
    if (!descriptor) throw new Error(`${LIST_DEVICES} is unknown`);
    const { error } = await server.send(
      descriptor,
      encode(descriptor.request, {}),
      as(server.key, newId().toUpperCase()),
    );
    expect(error).toMatchObject({ reason: 'organization_mismatch' });
  });
});
