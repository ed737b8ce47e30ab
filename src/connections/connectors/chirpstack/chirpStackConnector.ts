import type {
  ConnectionCheck,
  Connector,
  ConnectorEvents,
  Downlink,
  OpenConnection,
  Peer,
  SendResult,
} from '../../connector';
import { BrokerSessions } from '../broker/brokerSessions';
import { ChirpStackSession, type ChirpStackSessionOptions } from './chirpStackSession';
import { testChirpStack } from './chirpStackTest';
import { CHIRPSTACK } from './chirpStackType';

/** Dependencies of ChirpStackConnector. */
interface ChirpStackConnectorOptions extends ChirpStackSessionOptions {
  /** How long a test listens for an event, milliseconds; see testChirpStack. */
  readonly listenMs?: number;
}

/** Connects devices through ChirpStack v4 network servers and the brokers of their MQTT integrations. */
export class ChirpStackConnector implements Connector {
  readonly id = CHIRPSTACK.id;
  private readonly sessions: BrokerSessions<ChirpStackSession>;

  constructor(private readonly options: ChirpStackConnectorOptions) {
    const { statuses, log } = options;
    const createSession = (open: OpenConnection, events: ConnectorEvents): ChirpStackSession =>
      new ChirpStackSession(open, events, options);
    this.sessions = new BrokerSessions({ component: 'chirpstack', statuses, log, createSession });
  }

  /** Passes the event handlers of the higher modules. */
  start(events: ConnectorEvents): void {
    this.sessions.start(events);
  }

  /** Applies the current connection. Reconnects only if a relevant setting changed. */
  connectionChanged(open: OpenConnection): void {
    this.sessions.apply(open);
  }

  /** Stops a connection after its deletion was committed. */
  connectionDeleted(connectionId: string): void {
    this.sessions.remove(connectionId);
  }

  /** The broker as the peer, while there is a session. */
  peer(connectionId: string): Peer | undefined {
    return this.sessions.find(connectionId)?.peer;
  }

  /** Connects to the broker at once, at most once a second, if it is not connected. */
  connectSoon(connectionId: string): void {
    this.sessions.find(connectionId)?.connectSoon();
  }

  /** Publishes a command on this session only. */
  async send(downlink: Downlink, session: number): Promise<SendResult> {
    return this.sessions.find(downlink.connectionId)?.send(downlink, session) ?? 'not_sent';
  }

  /** Always false: a command that was passed to the broker may have left the server. */
  cancelUnsent(): boolean {
    return false;
  }

  /** Only stops waiting for the acknowledgement of a command: ChirpStack cannot cancel a single command. */
  cancelAtGateway(connectionId: string, executionId: string): void {
    this.sessions.find(connectionId)?.forget(executionId);
  }

  /** Tests the broker and reports how events arrive. */
  async test({ connection, settings }: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    const lastQos = this.sessions.find(connection.id)?.lastQos;
    return await testChirpStack(settings, { signal, lastQos, listenMs: this.options.listenMs });
  }

  /** Resolves when every link is closed. */
  async stop(): Promise<void> {
    await this.sessions.stop();
  }
}
