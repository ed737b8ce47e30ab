import { connectAsync } from 'mqtt';
import type { Json } from '../../src/cli/call/jsonClient';
import { BrokerSite } from './brokerSite';

let site: BrokerSite | undefined;

afterEach(async () => {
  await site?.stop();
  site = undefined;
});

describe('a real broker that accepts only QoS 0', () => {
  beforeEach(async () => {
    site = await BrokerSite.start({ listenerLines: ['max_qos 0'] });
  });

  it('rejects commands at once and keeps the connection, which says why', async () => {
    const at = site as BrokerSite;
    const connectionId = await at.createMqttConnection();
    const { since } = await at.waitForWarning(connectionId, 'qos_not_supported');
    const valve = await at.createValve(connectionId);
    expect(await at.waitForState(await at.execute(valve, 40), 'transport_rejected')).toMatchObject({
      detail: 'qos_not_supported',
    });
    expect((await at.waitForWarning(connectionId, 'qos_not_supported'))['since']).toEqual(since);
    const { checks } = await at.api.call('ConnectionService/TestConnection', { id: connectionId });
    expect((checks as Json[]).filter(({ outcome }) => outcome === 'failed').map(({ name }) => name)).toEqual([
      'command_qos',
    ]);
  });

  it('gets commands with QoS 0 if the connection allows it, and the sensors confirm them', async () => {
    const at = site as BrokerSite;
    const connectionId = await at.createMqttConnection({ commandQos: 0 });
    await at.waitForWarning(connectionId, 'subscribed_at_most_once');
    const valve = await at.createValve(connectionId);
    const device = await connectAsync(at.broker.url, { protocolVersion: 5, reconnectPeriod: 0 });
    at.onStop(async () => await device.endAsync(true));
    await device.subscribeAsync('plantroom/valve-1/down', { qos: 0 });
    device.on('message', (_topic, payload) => device.publish('plantroom/valve-1/up', payload, { qos: 0 }));
    device.publish('plantroom/valve-1/up', '{"position": 1}', { qos: 0 });
    await at.waitForKey(valve, connectionId, 'valve-1', 'position', 1);
    const report = await at.waitForState(await at.execute(valve, 40), 'converged');
    expect(report.events).not.toContain('transport_ok');
  });
});
