import {
  GetDeviceProfileTemplateRequest,
  type DeviceProfileTemplate,
  DigitalDeviceServiceService,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { CommandResultCode, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { APPLICATION, startBroker, type TestBroker } from '../connections/chirpStackFixture';
import type { TestGateway } from '../executions/testGateway';
import { ChirpStackServer } from '../support/chirpStack/chirpStackServer';
import { call } from '../support/edge';
import { sqliteOnly } from '../support/engines';
import { answerJson } from '../support/restCalls';
import { descriptors } from '../support/testApp';
import { pollUntil } from '../support/waitUntil';
import { ProfileSite, VALVE, valveCodec, type ProfiledValve } from './profileSite';

const TEMPLATE = '/api/v2/device-profile-template';
const query = new URLSearchParams({ brand: VALVE.brand, model: VALVE.model, band: VALVE.band }).toString();

/** The life of one device from the import to the removal, in order: each step depends on the previous one. */
describe.each(sqliteOnly())('a valve with a device profile behind a gateway, on $name', (engine) => {
  let site: ProfileSite;
  let gateway: TestGateway;
  let valve: ProfiledValve;
  beforeAll(async () => {
    site = await ProfileSite.start(engine);
  });
  afterAll(async () => {
    await gateway?.cut();
    await site.stop();
  });

  const sendUplink = async (...bytes: number[]): Promise<UplinkOutcome> =>
    await gateway.uplink(valve.clientDeviceId, Uint8Array.from(bytes), { fPort: 1 });

  /** Executes the command; returns what the gateway received, and the execution. */
  const moved = async (to: string): Promise<{ executionId: string; bytes: number[]; fPort: number | undefined }> => {
    const executionId = await site.move(valve, to);
    await gateway.untilCommand(executionId);
    const given = gateway.commands.find((command) => command.executionId === executionId);
    if (given?.payload?.$case !== 'bytes') throw new Error('the gateway was given no bytes');
    return { executionId, bytes: [...given.payload.value], fPort: given.fPort };
  };

  it('is unknown before the import, and known afterwards over both protocols', async () => {
    expect((await site.http.get(`${TEMPLATE}?${query}`)).json).toMatchObject({
      error: { code: 'profile_not_found', message: expect.stringContaining('plantroom profiles import') },
    });
    await site.importEdition(1);
    const { brand, model, band } = VALVE;
    const answer = await call<GetDeviceProfileTemplateRequest, DeviceProfileTemplate>(
      site.devices.getDeviceProfileTemplate.bind(site.devices),
      GetDeviceProfileTemplateRequest.fromPartial({ brand, model, band }),
      site.headers,
    );
    expect(answer).toMatchObject({
      id: VALVE.id,
      name: 'Valve 2 2.0',
      region: 'EU868',
      macVersion: '1.0.3',
      payloadCodecRuntime: 'JS',
      codec: valveCodec(1),
      uplinkInterval: 3600,
      supportsOtaa: true,
    });
    const descriptor = descriptors.methods.get(DigitalDeviceServiceService.getDeviceProfileTemplate.path);
    if (!descriptor) throw new Error('there is no GetDeviceProfileTemplate');
    expect(await site.http.call('GET', `${TEMPLATE}?${query}`)).toEqual(
      answerJson(descriptor, DigitalDeviceServiceService.getDeviceProfileTemplate.responseSerialize(answer)),
    );
  });

  it('is decoded by the profile: paths and readings appear without an external codec', async () => {
    const connectionId = await site.connection('gateway');
    gateway = await site.gateway(connectionId);
    valve = await site.valve(connectionId, 'valve-at-the-tank');
    expect(await sendUplink(0, 4)).toBe(UplinkOutcome.UPLINK_OUTCOME_STORED);
    expect(await site.keys(valve)).toEqual({
      bytes: '0004',
      fPort: 1,
      'object.valve': 'closed',
      'object.litres': 40,
      'object.edition': 1,
    });
    expect(await site.shows(valve)).toEqual(['closed', 40]);
  });

  it('is moved by the profile: the gateway receives the bytes of its encoder, and the next uplink confirms it', async () => {
    const { executionId, bytes, fPort } = await moved('open');
    expect([bytes, fPort]).toEqual([[1, 1, 30], 2]);
    gateway.received(executionId);
    await gateway.result(executionId, CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED);
    expect(await sendUplink(1, 5)).toBe(UplinkOutcome.UPLINK_OUTCOME_STORED);
    expect(await site.state(executionId)).toBe('converged');
    expect(await site.shows(valve)).toEqual(['open', 50]);
  });

  it('keeps the script of its command when an import changes the codec, and is decoded by the new one at once', async () => {
    await site.importEdition(2);
    expect((await site.http.call('GET', `${TEMPLATE}?${query}`))['codec']).toBe(valveCodec(2));
    expect(await sendUplink(1, 6)).toBe(UplinkOutcome.UPLINK_OUTCOME_STORED);
    expect(await site.keys(valve)).toMatchObject({ 'object.edition': 2, 'object.litres': 60 });
    const path = `/api/v2/devices/${valve.id}/commands/${valve.commandId}`;
    expect(await site.http.call('GET', path)).toMatchObject({
      customEncoder: valveCodec(1),
      encoderProfileId: VALVE.id,
    });
    const { executionId, bytes } = await moved('closed');
    expect(bytes).toEqual([1, 0, 30]);
    gateway.received(executionId);
    await gateway.result(executionId, CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED);
    await sendUplink(0, 7);
    expect(await site.state(executionId)).toBe('converged');

    const { customEncoder, ...definition } = await site.http.call<Record<string, unknown>>('GET', path);
    expect(customEncoder).toBe(valveCodec(1));
    const { id, organizationId, deviceId, revision, createdAt, updatedAt, etag, warnings, ...command } = definition;
    expect([id, organizationId, deviceId]).toEqual([valve.commandId, site.server.organizationId, valve.id]);
    expect(await site.http.call('PATCH', path, { command })).toMatchObject({
      customEncoder: valveCodec(2),
      revision: Number(revision) + 1,
      createdAt,
    });
    expect([updatedAt, etag, warnings]).not.toContain(undefined);
    expect((await moved('open')).bytes).toEqual([2, 1, 30]);
  });

  it('prevents the removal of its profile until it is unbound', async () => {
    const refused = await site.profiles('remove', VALVE.id);
    expect(refused.code).toBe(1);
    expect(`${refused.stdout}${refused.stderr}`).toContain(VALVE.id);
    expect((await site.http.get(`${TEMPLATE}?${query}`)).status).toBe(200);
    await sendUplink(1, 8);
    expect(await site.keys(valve)).toMatchObject({ 'object.litres': 80 });

    await site.http.call('PATCH', `/api/v2/devices/${valve.id}`, { physicalDevice: null });
    const removed = await site.profiles('remove', VALVE.id);
    expect([removed.code, removed.stderr]).toEqual([0, '']);
    expect((await site.http.get(`${TEMPLATE}?${query}`)).json).toMatchObject({ error: { code: 'profile_not_found' } });
    expect((await site.http.call('GET', `${TEMPLATE}?${query.replace(VALVE.band, 'AS923')}`))['id']).toBe(
      'northmoor/valve-2/2.0/AS923',
    );
    expect(await site.http.call('GET', `/api/v2/devices/${valve.id}/commands/${valve.commandId}`)).toMatchObject({
      customEncoder: valveCodec(2),
      encoderProfileId: VALVE.id,
    });
  });
});

describe.each(sqliteOnly())('a valve with a device profile behind a ChirpStack without a codec, on $name', (engine) => {
  const devEui = '0102030405060708';
  let site: ProfileSite;
  let broker: TestBroker;
  let network: ChirpStackServer;
  let valve: ProfiledValve;
  beforeAll(async () => {
    site = await ProfileSite.start(engine);
    broker = await startBroker();
    network = new ChirpStackServer({ url: broker.url, applicationId: APPLICATION, encoding: 'json' });
    network.addDevice(devEui);
    await network.start();
  });
  afterAll(async () => {
    await network.stop();
    await site.stop();
    await broker.stop();
  });

  /** Sends an undecoded uplink; resolves when it is stored, as its litres show. */
  const sendUplink = async (...bytes: [state: number, pulses: number]): Promise<void> => {
    await network.uplink(devEui, { data: Uint8Array.from(bytes) });
    await pollUntil(
      async () => await site.shows(valve),
      ([, litres]) => litres === bytes[1] * 10,
    );
  };

  it('is decoded, moved and verified by its profile', async () => {
    await site.importEdition(1);
    const connectionId = await site.connection('chirpstack', {
      url: broker.url,
      protocol: '3.1.1',
      applicationId: APPLICATION,
      encoding: 'json',
    });
    await pollUntil(
      async () =>
        (await site.http.call<{ status: { state: string } }>('GET', `/api/v2/connections/${connectionId}`)).status
          .state,
      (state) => state === 'connected',
    );
    valve = await site.valve(connectionId, devEui);
    await sendUplink(0, 4);
    expect(await site.keys(valve)).toMatchObject({
      data: '0004',
      fPort: 1,
      'object.valve': 'closed',
      'object.litres': 40,
      'object.edition': 1,
    });

    const executionId = await site.move(valve, 'open');
    await network.until(() => network.commands.length > 0);
    expect(network.commands).toMatchObject([{ id: executionId, devEui, fPort: 2, object: undefined }]);
    expect([...(network.commands[0]?.data ?? [])]).toEqual([1, 1, 30]);
    await sendUplink(0, 5); // opens the receive window
    await network.txAck(devEui);
    await pollUntil(
      async () => await site.state(executionId),
      (state) => state === 'delivered' || state === 'accepted',
    );
    await sendUplink(1, 6);
    expect(await site.state(executionId)).toBe('converged');
    expect(await site.shows(valve)).toEqual(['open', 60]);

    await site.importEdition(2);
    await sendUplink(1, 7);
    expect(await site.keys(valve)).toMatchObject({ data: '0107', 'object.edition': 2 });
    expect(network.errors).toEqual([]);
  });
});
