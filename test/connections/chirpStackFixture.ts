import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { Aedes, type Client } from 'aedes';
import { connect } from 'mqtt';
import { MonotonicTimestamps } from '../../src/connections/monotonicTimestamps';
import type { Connection, Downlink } from '../../src/connections';
import { ConnectionStatuses } from '../../src/connections';
import { ChirpStackConnector } from '../../src/connections/connectors/chirpstack/chirpStackConnector';
import type { ConnectionCheck, OpenConnection } from '../../src/connections/connector';
import type { JsonObject } from '../../src/connections/connectorType';
import { newId } from '../../src/kernel/ids';
import { ChirpStackServer, type ChirpStackOptions } from '../support/chirpStack/chirpStackServer';
import type { Encoding } from '../support/chirpStack/events';
import { MemoryLog } from '../support/edge';
import { TestClock } from '../support/testClock';
import { FakeEvents } from './fakeEvents';

export const APPLICATION = '48f13ba9-7a3c-4d56-9e6d-0c6f2c1b7a11';
export const DEV_EUI = '0101010101010101';

/** An in-process MQTT 3.1.1 broker. */
export interface TestBroker {
  readonly url: string;
  /** Disconnects the clients whose id has this prefix. */
  cut(prefix: string): void;
  /** Resolves with whether the broker keeps a session for this client. */
  keepsSession(clientId: string): Promise<boolean>;
  stop(): Promise<void>;
}

/** Starts a broker on this port, or on a free one. */
export async function startBroker(port = 0): Promise<TestBroker> {
  const aedes = await Aedes.createBroker();
  const clients = new Set<Client>();
  aedes.on('client', (client) => clients.add(client));
  const server: Server = createServer(aedes.handle);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut: (prefix) => {
      for (const client of clients) if (client.id.startsWith(prefix)) client.close();
    },
    keepsSession: async (clientId) => {
      const client = connect(`mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`, {
        clientId,
        clean: false,
        reconnectPeriod: 0,
      });
      const isKept = await new Promise<boolean>((resolve, reject) => {
        client.once('connect', ({ sessionPresent }) => resolve(sessionPresent));
        client.once('error', reject);
      });
      await client.endAsync();
      return isKept;
    },
    stop: async () => {
      server.close();
      await new Promise<void>((resolve) => aedes.close(resolve));
    },
  };
}

/** The connector with one connection, and the simulated network server on the other side of a broker. */
export class ChirpStackFixture {
  readonly clock = new TestClock();
  readonly log = new MemoryLog();
  readonly events = new FakeEvents();
  readonly statuses = new ConnectionStatuses(this.clock);
  readonly connectionId = newId();
  connector: ChirpStackConnector;
  readonly server: ChirpStackServer;

  private constructor(
    readonly broker: TestBroker,
    private readonly encoding: Encoding,
    options: Partial<ChirpStackOptions>,
    private readonly ackWaitMs: number,
    private readonly listenMs: number,
  ) {
    this.connector = this.makeConnector();
    this.server = new ChirpStackServer({
      url: broker.url,
      applicationId: APPLICATION,
      encoding,
      now: () => this.clock.now(),
      ...options,
    });
    this.server.addDevice(DEV_EUI);
  }

  /**
   * Starts all three and resolves when the connection accepts commands. By default uplinks are held for hours and
   * connection tests listen for 20 ms.
   */
  static async start(
    encoding: Encoding,
    options: Partial<ChirpStackOptions> = {},
    ackWaitMs = 3_600_000,
    listenMs = 20,
  ): Promise<ChirpStackFixture> {
    const fixture = new ChirpStackFixture(await startBroker(), encoding, options, ackWaitMs, listenMs);
    await fixture.server.start();
    fixture.open();
    await fixture.events.until(() => fixture.events.readies.length > 0);
    return fixture;
  }

  /** Replaces the connector with a new one that has no state. */
  async restart(): Promise<void> {
    await this.connector.stop();
    this.connector = this.makeConnector();
  }

  private makeConnector(): ChirpStackConnector {
    const { clock, log, statuses, ackWaitMs, listenMs } = this;
    const connector = new ChirpStackConnector({
      clock,
      log,
      statuses,
      arrivals: new MonotonicTimestamps(clock),
      ackWaitMs,
      listenMs,
      backoff: { firstMs: 5, maxMs: 5, fatalMs: 5 },
    });
    connector.start(this.events);
    return connector;
  }

  /** Passes the connection to the connector with this configuration. */
  open(configuration: JsonObject = {}, overrides: Partial<Connection> = {}): void {
    this.connector.connectionChanged(this.configured(configuration, overrides));
  }

  /** Tests the connection, optionally with other settings. */
  async test(configuration: JsonObject = {}): Promise<readonly ConnectionCheck[]> {
    return await this.connector.test(this.configured(configuration, {}), new AbortController().signal);
  }

  private configured(configuration: JsonObject, overrides: Partial<Connection>): OpenConnection {
    const settings = {
      url: this.broker.url,
      applicationId: APPLICATION,
      encoding: this.encoding,
      protocol: '3.1.1',
      ...configuration,
    };
    const connection: Connection = {
      id: this.connectionId,
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
      ...overrides,
    };
    return { connection, settings };
  }

  /** Sends a command and returns its execution id. */
  async send(overrides: Partial<Downlink> = {}): Promise<string> {
    const executionId = newId();
    const downlink: Downlink = {
      organizationId: 'org-1',
      connectionId: this.connectionId,
      executionId,
      attempt: 1,
      clientDeviceId: DEV_EUI,
      deadline: this.clock.now() + 60_000,
      payload: { kind: 'bytes', bytes: Buffer.from('0a', 'hex') },
      fPort: 10,
      confirmed: false,
      topic: '',
      ...overrides,
    };
    const result = await this.connector.send(downlink, this.connector.peer(this.connectionId)?.session ?? -1);
    if (result !== 'sent') throw new Error('the command was not sent');
    return downlink.executionId;
  }

  /** Sends a command and resolves when it is in the queue of the network server. */
  async enqueue(overrides: Partial<Downlink> = {}): Promise<string> {
    const executionId = await this.send(overrides);
    await this.server.until(() => this.server.commands.some(({ id }) => id === executionId));
    return executionId;
  }

  /** Returns the evidence that the connector reported about an execution, in order. */
  getEvidence(executionId: string): object[] {
    return this.events.evidences.filter((handed) => handed.executionId === executionId).map(({ evidence }) => evidence);
  }

  /** Returns the status as the API shows it. */
  status(enabled = true): ReturnType<ConnectionStatuses['getStatus']> {
    return this.statuses.getStatus({ id: this.connectionId, enabled });
  }

  async stop(): Promise<void> {
    await this.connector.stop();
    await this.server.stop();
    await this.broker.stop();
  }
}
