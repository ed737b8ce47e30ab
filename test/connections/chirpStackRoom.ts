import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { Aedes, type Client } from 'aedes';
import { connect } from 'mqtt';
import { Arrivals } from '../../src/connections/arrivals';
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

/** A broker of MQTT 3.1.1 in this process. */
export interface TestBroker {
  readonly url: string;
  /** Cuts the clients off whose id begins so. */
  cut(prefix: string): void;
  /** Whether it keeps a session for this client. */
  keepsSession(clientId: string): Promise<boolean>;
  stop(): Promise<void>;
}

/** Starts a broker on a free port, or on that one. */
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
      const client = connect(`mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`, { clientId, clean: false, reconnectPeriod: 0 });
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

/** The connector with one connection, and the network server on the other side of a broker. */
export class ChirpStackRoom {
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
    private readonly holdMs: number,
  ) {
    this.connector = this.makeConnector();
    this.server = new ChirpStackServer({ url: broker.url, applicationId: APPLICATION, encoding, now: () => this.clock.now(), ...options });
    this.server.addDevice(DEV_EUI);
  }

  /** Starts all three; resolves when the connection takes commands. Uplinks are held for hours unless said. */
  static async start(encoding: Encoding, options: Partial<ChirpStackOptions> = {}, holdMs = 3_600_000): Promise<ChirpStackRoom> {
    const room = new ChirpStackRoom(await startBroker(), encoding, options, holdMs);
    await room.server.start();
    room.open();
    await room.events.until(() => room.events.readies.length > 0);
    return room;
  }

  /** Another one takes the connector's place, which knows nothing yet. */
  async restart(): Promise<void> {
    await this.connector.stop();
    this.connector = this.makeConnector();
  }

  private makeConnector(): ChirpStackConnector {
    const { clock, log, statuses, holdMs } = this;
    const connector = new ChirpStackConnector({ clock, log, statuses, arrivals: new Arrivals(clock), holdMs, backoff: { firstMs: 5, mostMs: 5, fatalMs: 5 } });
    connector.start(this.events);
    return connector;
  }

  /** Hands the connection over as it is configured now. */
  open(configuration: JsonObject = {}, overrides: Partial<Connection> = {}): void {
    this.connector.connectionChanged(this.configured(configuration, overrides));
  }

  /** Tries the connection out, with other settings or as it is. */
  async test(configuration: JsonObject = {}): Promise<readonly ConnectionCheck[]> {
    return await this.connector.test(this.configured(configuration, {}), new AbortController().signal);
  }

  private configured(configuration: JsonObject, overrides: Partial<Connection>): OpenConnection {
    const settings = { url: this.broker.url, applicationId: APPLICATION, encoding: this.encoding, protocol: '3.1.1', ...configuration };
    const connection: Connection = { id: this.connectionId, organizationId: 'org-1', connectorId: 'chirpstack', name: 'LoRaWAN', description: '', enabled: true, configuration: settings, sealedSecrets: {}, policy: {}, createdAt: 0, updatedAt: 0, revision: 1, ...overrides };
    return { connection, settings };
  }

  /** Sends a command; answers its execution id. */
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

  /** Sends a command; resolves when it is in the queue of the network server. */
  async enqueue(overrides: Partial<Downlink> = {}): Promise<string> {
    const executionId = await this.send(overrides);
    await this.server.until(() => this.server.commands.some(({ id }) => id === executionId));
    return executionId;
  }

  /** What was handed up about an execution, in order. */
  evidenceOf(executionId: string): object[] {
    return this.events.evidences.filter((handed) => handed.executionId === executionId).map(({ evidence }) => evidence);
  }

  /** The status as it is shown. */
  status(enabled = true): ReturnType<ConnectionStatuses['of']> {
    return this.statuses.of({ id: this.connectionId, enabled });
  }

  async stop(): Promise<void> {
    await this.connector.stop();
    await this.server.stop();
    await this.broker.stop();
  }
}
