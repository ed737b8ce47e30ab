import { Arrivals } from '../../src/connections/arrivals';
import { type Connection, ConnectionStatuses, type Downlink } from '../../src/connections';
import { ChirpStackConnector } from '../../src/connections/connectors/chirpstack/chirpStackConnector';
import { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
import type { Event } from '../support/chirpStack/events';
import { readCommand, write } from '../support/chirpStack/wire';
import { MemoryLog } from '../support/edge';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { TestClock } from '../support/testClock';
import { APPLICATION, DEV_EUI } from './chirpStackRoom';
import { FakeEvents } from './fakeEvents';

const INFO = { applicationId: APPLICATION, devEui: DEV_EUI, deviceClassEnabled: 'CLASS_A' } as const;
const NOT_AUTHORIZED = 0x87;
const QUOTA_EXCEEDED = 0x97;
const NO_SUBSCRIBERS = 0x10;
const TAKEN_OVER = 0x8e;

describe('the ChirpStack connector with a broker of MQTT 5', () => {
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
    connector = new ChirpStackConnector({ clock, log, statuses, arrivals: new Arrivals(clock), backoff: { firstMs: 5, mostMs: 5, fatalMs: 5 } });
    connector.start(events);
    const configuration = { url: broker.url, applicationId: APPLICATION, username: 'plantroom', password: 'secret' };
    connection = { id: newId(), organizationId: 'org-1', connectorId: 'chirpstack', name: 'LoRaWAN', description: '', enabled: true, configuration, sealedSecrets: {}, policy: {}, createdAt: 0, updatedAt: 0, revision: 1 };
  });
  afterEach(async () => {
    await connector.stop();
    await broker.stop();
  });

  const open = (overrides: Partial<Connection> = {}): void => connector.connectionChanged({ connection: { ...connection, ...overrides }, settings: connection.configuration });
  const ready = async (): Promise<void> => {
    open();
    await events.until(() => events.readies.length > 0);
  };
  const send = async (overrides: Partial<Downlink> = {}): Promise<string> => {
    const downlink: Downlink = { organizationId: 'org-1', connectionId: connection.id, executionId: newId(), attempt: 1, clientDeviceId: DEV_EUI, deadline: clock.now() + 60_500, payload: { kind: 'bytes', bytes: Buffer.from('0a', 'hex') }, fPort: 10, confirmed: false, topic: '', ...overrides };
    return await connector.send(downlink, connector.peer(connection.id)?.session ?? -1);
  };
  const publish = (event: Event): void => broker.publish(`application/${APPLICATION}/device/${DEV_EUI}/event/${event.kind}`, write(event, 'json'));

  it('publishes commands that expire, once, and takes the word of the broker for no evidence', async () => {
    await ready();
    expect(await send({ executionId: '01900000-0000-7000-8000-000000000001' })).toBe('sent');
    await events.until(() => events.readies.length === 2);
    expect(events.evidences).toEqual([]);
    expect(broker.published).toMatchObject([{ topic: `application/${APPLICATION}/device/${DEV_EUI}/command/down`, qos: 1, retain: false, properties: { messageExpiryInterval: 60 } }]);
    expect(readCommand(Buffer.from(broker.published[0]?.payload ?? ''), 'json')).toMatchObject({ id: '01900000-0000-7000-8000-000000000001', expiresAt: clock.now() + 60_500 });
  });

  it.each([
    [NO_SUBSCRIBERS, 'known_undelivered', 'network_server_absent'],
    [QUOTA_EXCEEDED, 'known_undelivered', 'quota_exceeded'],
    [NOT_AUTHORIZED, 'refused', 'not_authorized'],
  ])('tells what the reason %i of the broker means', async (reason, kind, code) => {
    await ready();
    broker.onPublish = () => reason;
    await send();
    await events.until(() => events.evidences.length === 1);
    expect(events.evidences[0]).toMatchObject({ source: 'chirpstack', evidence: { kind, code } });
  });

  it('sends no more than may be under way, and does not know what became of it when the link is lost', async () => {
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

  it('takes what waited at the broker: an uplink for old, a txack for what it is', async () => {
    await ready();
    broker.cut();
    await events.until(() => events.detachments.length === 1);
    publish({ kind: 'up', deduplicationId: 'd-1', time: clock.now(), nsTime: clock.now(), deviceInfo: INFO, fCnt: 1, fPort: 1, data: Buffer.alloc(1), rssi: 0, snr: 0 });
    publish({ kind: 'txack', time: clock.now(), deviceInfo: INFO, queueItemId: '01900000-0000-7000-8000-000000000001', fCntDown: 1 });
    await events.until(() => events.uplinks.length === 1 && events.evidences.length === 1);
    expect(events.uplinks[0]).toMatchObject({ isBuffered: true, fCnt: 1 });
    expect(events.evidences[0]?.evidence).toMatchObject({ kind: 'transport_ok', time: clock.now() });
  });

  it('says what somebody must change when the broker refuses to let it in, and never a secret', async () => {
    broker.onConnect = () => NOT_AUTHORIZED;
    open();
    await log.until('broker.lost');
    expect(statuses.of(connection)).toMatchObject({ state: 'error', lastError: expect.stringContaining('does not let this client in') as string });
    expect(JSON.stringify([statuses.of(connection), log.lines])).not.toContain('secret');
    expect(events.detachments).toEqual([]);
    broker.onConnect = () => 0;
    await events.until(() => events.readies.length > 0);
    expect(statuses.of(connection)).toMatchObject({ state: 'connected', lastError: '' });
  });

  it('shows that another client takes its session again and again', async () => {
    await ready();
    for (const readies of [2, 3]) {
      broker.disconnect(TAKEN_OVER);
      await events.until(() => events.readies.length === readies);
    }
    expect(statuses.of(connection)).toMatchObject({ state: 'degraded', warnings: ['contested'] });
  });

  it('shows that its sessions are closed as soon as they are up', async () => {
    await ready();
    for (const readies of [2, 3, 4]) {
      expect(statuses.of(connection)).toMatchObject({ state: 'connected', warnings: [] });
      broker.cut();
      await events.until(() => events.readies.length === readies);
    }
    expect(statuses.of(connection)).toMatchObject({ state: 'degraded', warnings: ['contested'] });
  });

  it('shows that events wait for the database', async () => {
    const degraded = new Promise<void>((resolve) => statuses.watch(() => statuses.of(connection).state === 'degraded' && resolve()));
    let isAway = true;
    events.onUplink = async () => {
      clock.advance(5000);
      if (isAway) throw new DomainError('unavailable', 'database_unavailable', 'away');
      return { outcome: 'stored' };
    };
    await ready();
    publish({ kind: 'up', deduplicationId: 'd-1', time: clock.now(), nsTime: clock.now(), deviceInfo: INFO, fCnt: 1, fPort: 1, data: Buffer.alloc(1), rssi: 0, snr: 0 });
    await degraded;
    expect(statuses.of(connection)).toMatchObject({ warnings: ['storing_stalled'] });
    isAway = false;
    await broker.until(() => broker.acknowledged.length === 1);
    expect(statuses.of(connection)).toMatchObject({ state: 'connected', warnings: [] });
  });

  it('makes the broker forget it when it is deleted, not when it is switched off', async () => {
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
