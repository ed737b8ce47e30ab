import { MonotonicTimestamps } from '../../src/connections/monotonicTimestamps';
import { type Connection, ConnectionStatuses, type Downlink } from '../../src/connections';
import { ChirpStackConnector } from '../../src/connections/connectors/chirpstack/chirpStackConnector';
import { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
import type { Event } from '../support/chirpStack/events';
import { readCommand, write } from '../support/chirpStack/wire';
import { MemoryLog } from '../support/edge';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { TestClock } from '../support/testClock';
import { APPLICATION, DEV_EUI } from './chirpStackFixture';
import { FakeEvents, gate, type Gate } from './fakeEvents';

const INFO = { applicationId: APPLICATION, devEui: DEV_EUI, deviceClassEnabled: 'CLASS_A' } as const;
const NOT_AUTHORIZED = 0x87;
const QUOTA_EXCEEDED = 0x97;
const NO_SUBSCRIBERS = 0x10;
const TAKEN_OVER = 0x8e;

describe('the ChirpStack connector with an MQTT 5 broker', () => {
  let broker: Mqtt5Broker;
  let connector: ChirpStackConnector;
  let events: FakeEvents;
  let log: MemoryLog;
  let connection: Connection;
  let statuses: ConnectionStatuses;
  const clock = new TestClock();

  beforeEach(async () => {
    broker = await new Mqtt5Broker().start();
    events = new FakeEvents();
    log = new MemoryLog();
    statuses = new ConnectionStatuses(clock);
    connector = new ChirpStackConnector({
      clock,
      log,
      statuses,
      arrivals: new MonotonicTimestamps(clock),
      backoff: { firstMs: 5, maxMs: 5, fatalMs: 5 },
    });
    connector.start(events);
    const configuration = { url: broker.url, applicationId: APPLICATION, username: 'plantroom', password: 'secret' };
    connection = {
      id: newId(),
      organizationId: 'org-1',
      connectorId: 'chirpstack',
      name: 'LoRaWAN',
      description: '',
      enabled: true,
      configuration,
      encryptedSecrets: {},
      policy: {},
      createdAt: 0,
      updatedAt: 0,
      revision: 1,
    };
  });
  afterEach(async () => {
    await connector.stop();
    await broker.stop();
  });

  const open = (overrides: Partial<Connection> = {}): void =>
    connector.connectionChanged({ connection: { ...connection, ...overrides }, settings: connection.configuration });
  const ready = async (): Promise<void> => {
    open();
    await events.until(() => events.readies.length > 0);
  };
  const send = async (overrides: Partial<Downlink> = {}): Promise<string> => {
    const downlink: Downlink = {
      organizationId: 'org-1',
      connectionId: connection.id,
      executionId: newId(),
      attempt: 1,
      clientDeviceId: DEV_EUI,
      deadline: clock.now() + 60_500,
      payload: { kind: 'bytes', bytes: Buffer.from('0a', 'hex') },
      fPort: 10,
      confirmed: false,
      topic: '',
      ...overrides,
    };
    return await connector.send(downlink, connector.peer(connection.id)?.session ?? -1);
  };
  const publish = (event: Event): void =>
    broker.publish(
      `application/${APPLICATION}/device/${event.deviceInfo.devEui}/event/${event.kind}`,
      write(event, 'json'),
    );
  const publishUplink = (n: number, devEui: string, bytes: number): void =>
    publish({
      kind: 'up',
      deduplicationId: `d-${n}`,
      time: clock.now(),
      nsTime: clock.now(),
      deviceInfo: { ...INFO, devEui },
      fCnt: n,
      fPort: 1,
      data: Buffer.alloc(bytes),
      rssi: 0,
      snr: 0,
    });

  /** Loses the link. The broker acknowledges the next subscription after `messages` messages were acknowledged. */
  const resume = (messages: number): void => {
    broker.window = 65_535;
    broker.subackAllowed = broker.until(() => broker.acknowledged.length >= messages);
    broker.cut();
  };

  it('publishes commands once, with an expiry, and does not treat the response of the broker as evidence', async () => {
    await ready();
    expect(await send({ executionId: '01900000-0000-7000-8000-000000000001' })).toBe('sent');
    await events.until(() => events.readies.length === 2);
    expect(events.evidences).toEqual([]);
    expect(broker.published).toMatchObject([
      {
        topic: `application/${APPLICATION}/device/${DEV_EUI}/command/down`,
        qos: 1,
        retain: false,
        properties: { messageExpiryInterval: 60 },
      },
    ]);
    expect(readCommand(Buffer.from(broker.published[0]?.payload ?? ''), 'json')).toMatchObject({
      id: '01900000-0000-7000-8000-000000000001',
      expiresAt: clock.now() + 60_500,
    });
  });

  it.each([
    [NO_SUBSCRIBERS, 'known_undelivered', 'network_server_absent'],
    [QUOTA_EXCEEDED, 'known_undelivered', 'quota_exceeded'],
    [NOT_AUTHORIZED, 'refused', 'not_authorized'],
  ])('reports the meaning of reason %i of the broker', async (reason, kind, code) => {
    await ready();
    broker.onPublish = () => reason;
    await send();
    await events.until(() => events.evidences.length === 1);
    expect(events.evidences[0]).toMatchObject({ source: 'chirpstack', evidence: { kind, code } });
  });

  it('rejects commands at a broker that accepts only QoS 0, unless the connection allows that', async () => {
    broker.properties = { maximumQoS: 0 };
    await ready();
    expect(await send()).toBe('sent');
    await events.until(() => events.evidences.length === 1);
    expect(events.evidences[0]?.evidence).toMatchObject({ kind: 'refused', code: 'qos_not_supported' });
    expect(statuses.getStatus(connection)).toMatchObject({ warnings: ['qos_not_supported'] });
    connection = { ...connection, configuration: { ...connection.configuration, commandQos: 0 } };
    open();
    await events.until(() => events.attachments.length === 2 && connector.peer(connection.id) !== undefined);
    expect(await send()).toBe('sent');
    await broker.until(() => broker.published.length === 1);
    expect(broker.published).toMatchObject([{ qos: 0 }]);
    expect(events.evidences).toHaveLength(1);
    expect(broker.violations).toEqual([]);
  });

  it('respects the limit of unacknowledged commands, and reports an unknown outcome when the link is lost', async () => {
    broker.onPublish = () => undefined;
    open({ policy: { maxInFlight: 1 } });
    await events.until(() => events.readies.length > 0);
    expect(await send()).toBe('sent');
    expect(connector.peer(connection.id)).toMatchObject({ capacity: 0 });
    expect(await send()).toBe('not_sent');
    await broker.until(() => broker.published.length === 1);
    broker.cut();
    await events.until(() => events.readies.length === 2);
    expect(events.evidences).toEqual([]);
    expect(events.detachments).toHaveLength(1);
    expect(new Set(events.attachments.map(({ bootId }) => bootId)).size).toBe(2);
    expect(connector.peer(connection.id)).toMatchObject({ capacity: 1 });
    expect(broker.published).toHaveLength(1);
  });

  it('marks a waiting uplink as buffered, but accepts a waiting txack as evidence', async () => {
    await ready();
    broker.cut();
    await events.until(() => events.detachments.length === 1);
    publishUplink(1, DEV_EUI, 1);
    publish({
      kind: 'txack',
      time: clock.now(),
      deviceInfo: INFO,
      queueItemId: '01900000-0000-7000-8000-000000000001',
      fCntDown: 1,
    });
    await events.until(() => events.uplinks.length === 1 && events.evidences.length === 1);
    expect(events.uplinks[0]).toMatchObject({ isBuffered: true, fCnt: 1 });
    expect(events.evidences[0]?.evidence).toMatchObject({ kind: 'transport_ok', time: clock.now() });
  });

  describe.each(['5', '3.1.1'])('with a backlog at a broker of MQTT %s', (protocol) => {
    let mayStore: Gate<void>;
    beforeEach(async () => {
      connection = { ...connection, configuration: { ...connection.configuration, protocol, keepaliveSeconds: 2 } };
      mayStore = gate();
      events.onUplink = async () => {
        await mayStore.promise;
        return { outcome: 'stored' };
      };
      await ready();
      broker.window = 0; // The events wait at the broker.
    });
    afterEach(() => mayStore.open());

    it('stores it before the broker acknowledges the subscription, and reads only as much as it can hold', async () => {
      for (let n = 0; n < 300; n++) publishUplink(n, n.toString(16).padStart(16, '0'), 45_000);
      resume(300);
      await events.until(() => events.uplinks.length >= 60);
      const before = broker.pings;
      await broker.until(() => broker.pings > before);
      expect(events.uplinks.length).toBeLessThan(100); // The link reads up to 4 MiB.
      mayStore.open();
      await events.until(() => events.readies.length === 2);
      expect(events.uplinks).toHaveLength(300);
      expect(events.uplinks.every(({ isBuffered }) => isBuffered)).toBe(true);
      expect(broker.connects).toHaveLength(2);
    });

    it('leaves what waits to be stored at the broker when the connection is stopped', async () => {
      for (let n = 0; n < 300; n++) publishUplink(n, DEV_EUI, 1);
      resume(300);
      await events.until(() => events.uplinks.length === 1); // The others wait: same device.
      const before = broker.pings;
      await broker.until(() => broker.pings > before); // All have been read.
      open({ enabled: false });
      mayStore.open();
      await events.until(() => events.detachments.length === 2);
      expect(events.uplinks).toHaveLength(1);
      open();
      await events.until(() => events.readies.length === 2);
      expect(events.uplinks.map(({ fCnt }) => fCnt)).toEqual(Array.from({ length: 300 }, (_, n) => n));
    });
  });

  it('reports what to change when the broker denies access, and never shows a secret', async () => {
    broker.onConnect = () => NOT_AUTHORIZED;
    open();
    await log.until('broker.disconnected');
    expect(statuses.getStatus(connection)).toMatchObject({
      state: 'error',
      lastError: expect.stringContaining('does not allow this client to connect') as string,
    });
    expect(JSON.stringify([statuses.getStatus(connection), log.lines])).not.toContain('secret');
    expect(events.detachments).toEqual([]);
    broker.onConnect = () => 0;
    await events.until(() => events.readies.length > 0);
    expect(statuses.getStatus(connection)).toMatchObject({ state: 'connected', lastError: '' });
  });

  it('reports that another client repeatedly takes over its session', async () => {
    await ready();
    for (const readies of [2, 3]) {
      broker.disconnect(TAKEN_OVER);
      await events.until(() => events.readies.length === readies);
    }
    expect(statuses.getStatus(connection)).toMatchObject({ state: 'degraded', warnings: ['contested'] });
  });

  it('reports that its sessions are closed right after they start', async () => {
    await ready();
    for (const readies of [2, 3, 4]) {
      expect(statuses.getStatus(connection)).toMatchObject({ state: 'connected', warnings: [] });
      broker.cut();
      await events.until(() => events.readies.length === readies);
    }
    expect(statuses.getStatus(connection)).toMatchObject({ state: 'degraded', warnings: ['contested'] });
  });

  it('reports that events wait for the database', async () => {
    const degraded = new Promise<void>((resolve) =>
      statuses.watch(() => statuses.getStatus(connection).state === 'degraded' && resolve()),
    );
    let isAway = true;
    events.onUplink = async () => {
      clock.advance(5000);
      if (isAway) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    await ready();
    publishUplink(1, DEV_EUI, 1);
    await degraded;
    expect(statuses.getStatus(connection)).toMatchObject({ warnings: ['write_stalled'] });
    isAway = false;
    await broker.until(() => broker.acknowledged.length === 1);
    expect(statuses.getStatus(connection)).toMatchObject({ state: 'connected', warnings: [] });
  });

  it('discards the broker session when the connection is deleted, but not when it is disabled', async () => {
    await ready();
    open({ enabled: false });
    await events.until(() => events.detachments.length === 1);
    expect(broker.kept).toEqual([`plantroom-${connection.id}`]);
    open();
    await events.until(() => events.readies.length === 2);
    connector.connectionDeleted(connection.id);
    await connector.stop();
    expect(broker.connects.at(-1)).toMatchObject({ clean: true, clientId: `plantroom-${connection.id}` });
  });
});
