import { MonotonicTimestamps } from '../../src/connections/monotonicTimestamps';
import { type Connection, ConnectionStatuses } from '../../src/connections';
import { ChirpStackConnector } from '../../src/connections/connectors/chirpstack/chirpStackConnector';
import { systemClock } from '../../src/kernel/clock';
import { newId } from '../../src/kernel/ids';
import { FakeEvents } from '../connections/fakeEvents';
import { ChirpStackServer } from '../support/chirpStack/chirpStackServer';
import { MemoryLog } from '../support/edge';
import { Mosquitto } from '../support/mosquitto';

const APPLICATION = '0b6ffc1e-3a3f-4d1d-8f6e-5d2f2a1f7a11';
const AN_HOUR = 3_600_000;
const devEui = (at: number): string => at.toString(16).padStart(16, '0');

it('ChirpStack connections receive from other devices while more frames than the receive window wait for acknowledgements that never come', async () => {
  const broker = await Mosquitto.start({ lines: ['max_inflight_messages 10'] });
  const [events, statuses] = [new FakeEvents(), new ConnectionStatuses(systemClock)];
  const connector = new ChirpStackConnector({
    clock: systemClock,
    log: new MemoryLog(),
    statuses,
    arrivals: new MonotonicTimestamps(systemClock),
    ackWaitMs: AN_HOUR,
  });
  connector.start(events);
  const settings = { url: broker.url, applicationId: APPLICATION, encoding: 'json', protocol: '3.1.1' };
  const connection: Connection = {
    id: newId(),
    organizationId: 'org-1',
    connectorId: 'chirpstack',
    name: 'LoRaWAN',
    description: '',
    enabled: true,
    configuration: settings,
    encryptedSecrets: {},
    policy: {},
    createdAt: 0,
    updatedAt: 0,
    revision: 1,
  };
  const server = new ChirpStackServer({ url: broker.url, applicationId: APPLICATION, encoding: 'json' });
  await server.start();
  try {
    connector.connectionChanged({ connection, settings });
    await events.until(() => events.readies.length > 0);
    const devices = Array.from({ length: 20 }, (_, at) => devEui(at + 1));
    for (const clientDeviceId of devices) {
      server.addDevice(clientDeviceId, 'CLASS_C');
      const payload = { kind: 'bytes', bytes: Buffer.from('0a', 'hex') } as const;
      const session = connector.peer(connection.id)?.session ?? -1;
      const count = events.evidences.length;
      expect(
        await connector.send(
          {
            organizationId: 'org-1',
            connectionId: connection.id,
            executionId: newId(),
            attempt: 1,
            clientDeviceId,
            deadline: Date.now() + AN_HOUR,
            payload,
            fPort: 10,
            confirmed: true,
            topic: '',
          },
          session,
        ),
      ).toBe('sent');
      await server.until(() => server.getQueue(clientDeviceId).length === 1);
      await server.schedule(clientDeviceId);
      await server.txAck(clientDeviceId);
      await events.until(() => events.evidences.length > count);
    }
    for (const device of devices) await server.uplink(device);
    const other = devEui(0xffff);
    server.addDevice(other);
    await server.uplink(other);
    await events.until(() => events.uplinks.some(({ clientDeviceId }) => clientDeviceId === other));
    await events.until(() => events.uplinks.length === 13); // Eight frames still wait.
    expect(new Set(events.uplinks.map(({ clientDeviceId }) => clientDeviceId))).toEqual(
      new Set([...devices.slice(0, 12), other]),
    );
  } finally {
    await connector.stop();
    await server.stop();
    await broker.remove();
  }
});
