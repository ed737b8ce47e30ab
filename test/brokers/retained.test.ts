import { connectAsync } from 'mqtt';
import type { Json } from '../../src/cli/call/jsonClient';
import { BrokerSite } from './brokerSite';

let site: BrokerSite | undefined;

afterEach(async () => {
  await site?.stop();
  site = undefined;
});

it('stores what a device published as retained while the server was away, once and marked', async () => {
  site = await BrokerSite.start();
  const { api } = site;
  const id = await site.createMqttConnection({ timePath: 'time' });
  await site.waitForStatus(id, 'connected');
  const valve = await site.createValve(id);
  const device = await connectAsync(site.broker.url, { protocolVersion: 5, reconnectPeriod: 0 });
  site.onStop(async () => await device.endAsync(true));
  const publish = async (position: number, time: number, qos: 0 | 1, clientDeviceId = 'valve-1'): Promise<unknown> =>
    await device.publishAsync(`plantroom/${clientDeviceId}/up`, JSON.stringify({ position, time }), {
      qos,
      retain: true,
    });
  const getLatest = async (): Promise<Json> => {
    const { sensors } = await api.call('SensorQueryService/QueryLatest', { sensorIds: [valve.sensorId] });
    return ((sensors as Json[])[0]?.['reading'] ?? {}) as Json;
  };
  /** Disables the connection, runs the action, and enables it again. The broker keeps the session. */
  const runWhileAway = async (action: () => Promise<unknown>): Promise<void> => {
    await api.call('ConnectionService/UpdateConnection', { id, enabled: false });
    await site?.waitForStatus(id, 'disabled');
    await action();
    await api.call('ConnectionService/UpdateConnection', { id, enabled: true });
    await site?.waitForStatus(id, 'connected');
  };
  const waitForPosition = async (position: number, clientDeviceId = 'valve-1'): Promise<void> =>
    await site?.waitForKey(valve, id, clientDeviceId, 'position', position);
  const start = Date.now() - 600_000;
  await publish(10, start, 1);
  await waitForPosition(10);
  expect(await getLatest()).toMatchObject({ number: 10 });
  await runWhileAway(async () => await publish(20, start + 60_000, 0)); // the broker queues no messages with QoS 0
  await waitForPosition(20);
  expect(await getLatest()).toMatchObject({ number: 20, retained: true, time: new Date(start + 60_000).toISOString() });
  const getLastSeen = async () =>
    (await api.call('DigitalDeviceService/GetDigitalDevice', { id: valve.deviceId }))['lastSeen'];
  const lastSeen = await getLastSeen();
  await runWhileAway(async () => {}); // the broker sends the message again
  await publish(1, Date.now(), 1, 'another');
  await waitForPosition(1, 'another');
  expect(await getLastSeen()).toEqual(lastSeen);
  await runWhileAway(async () => await publish(30, start + 120_000, 1)); // queued, and retained
  await publish(2, Date.now(), 1, 'another');
  await waitForPosition(2, 'another');
  const { readings } = await api.call('SensorQueryService/QueryRange', {
    sensorIds: [valve.sensorId],
    from: new Date(start - 1000).toISOString(),
    to: new Date().toISOString(),
  });
  expect((readings as Json[]).map((reading) => reading['number'])).toEqual([10, 20, 30]);
});
