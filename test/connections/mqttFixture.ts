import { MonotonicTimestamps, ConnectionStatuses, type Connection, type Downlink } from '../../src/connections';
import type { ConnectionCheck } from '../../src/connections/connector';
import type { JsonObject } from '../../src/connections/connectorType';
import type { BrokerBackoff } from '../../src/connections/connectors/broker/backOff';
import { MqttConnector } from '../../src/connections/connectors/mqtt/mqttConnector';
import { newId } from '../../src/kernel/ids';
import { MemoryLog } from '../support/edge';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { TestClock } from '../support/testClock';
import { FakeEvents } from './fakeEvents';

export const TOPICS = { uplinkTopic: 'site/{clientDeviceId}/up', downlinkTopic: 'site/{clientDeviceId}/down' };

/** The MQTT connector with one connection and recorded events. */
export class MqttFixture {
  readonly clock = new TestClock();
  readonly log = new MemoryLog();
  readonly events = new FakeEvents();
  readonly statuses = new ConnectionStatuses(this.clock);
  readonly connectionId = newId();
  readonly connector: MqttConnector;
  private readonly waiting: (() => void)[] = [];

  /** `backoff`: overrides the reconnect delays of 5 ms. */
  constructor(
    private readonly settings: JsonObject,
    backoff: BrokerBackoff = {},
  ) {
    const { clock, log, statuses } = this;
    this.connector = new MqttConnector({
      clock,
      log,
      statuses,
      arrivals: new MonotonicTimestamps(clock),
      backoff: { firstMs: 5, maxMs: 5, fatalMs: 5, ...backoff },
      retryMs: 5,
      connectTimeoutMs: 2000,
    });
    this.connector.start(this.events);
    statuses.watch(() => this.waiting.splice(0).forEach((resolve) => resolve()));
  }

  /** Passes the connection to the connector, optionally with other settings or fields. */
  open(settings: JsonObject = {}, changes: Partial<Connection> = {}): void {
    this.connector.connectionChanged({
      connection: this.connection(changes),
      settings: { ...this.settings, ...settings },
    });
  }

  /** Same as `open`. Resolves when the connection accepts commands. */
  async connect(settings: JsonObject = {}, changes: Partial<Connection> = {}): Promise<void> {
    this.open(settings, changes);
    await this.attached();
  }

  /** Resolves when the connection has accepted commands more often than `before` times. */
  async attached(before = 0): Promise<void> {
    await this.events.until(() => this.events.attachments.length > before);
    await this.events.until(() => this.connector.peer(this.connectionId) !== undefined);
  }

  /** Resolves with the status when it is in this state. */
  async state(state: string) {
    while (this.status.state !== state) await new Promise<void>((resolve) => this.waiting.push(resolve));
    return this.status;
  }

  get status() {
    return this.statuses.getStatus({ id: this.connectionId, enabled: true });
  }

  /** Sends a command as the dispatcher does. */
  async send(more: Partial<Downlink> = {}): Promise<{ executionId: string; result: string }> {
    const executionId = newId();
    const downlink: Downlink = {
      organizationId: 'org-1',
      connectionId: this.connectionId,
      executionId,
      attempt: 1,
      clientDeviceId: 'valve-1',
      deadline: this.clock.now() + 60_000,
      payload: { kind: 'json', value: { open: true } },
      fPort: undefined,
      confirmed: false,
      topic: '',
      ...more,
    };
    return {
      executionId,
      result: await this.connector.send(downlink, this.connector.peer(this.connectionId)?.session ?? 0),
    };
  }

  async test(settings: JsonObject = {}): Promise<readonly ConnectionCheck[]> {
    return await this.connector.test(
      { connection: this.connection({ id: '' }), settings: { ...this.settings, ...settings } },
      new AbortController().signal,
    );
  }

  private connection(changes: Partial<Connection>): Connection {
    return {
      id: this.connectionId,
      organizationId: 'org-1',
      connectorId: 'mqtt',
      name: 'Field',
      description: '',
      enabled: true,
      configuration: {},
      encryptedSecrets: {},
      policy: {},
      createdAt: 1,
      updatedAt: 1,
      revision: 1,
      ...changes,
    };
  }
}

/** Creates a broker and a fixture for each test of the file. */
export function mqttFixtureForEach(use: (broker: Mqtt5Broker, fixture: MqttFixture) => void): void {
  let broker: Mqtt5Broker;
  let fixture: MqttFixture;
  beforeEach(async () => {
    broker = await new Mqtt5Broker().start();
    fixture = new MqttFixture({ url: broker.url, keepaliveSeconds: 30, ...TOPICS });
    use(broker, fixture);
  });
  afterEach(async () => {
    await fixture.connector.stop();
    await broker.stop();
  });
}
