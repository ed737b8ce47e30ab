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
import { MqttSession, type MqttSessionOptions } from './mqttSession';
import { testMqtt } from './mqttTest';
import { MQTT } from './mqttType';

/** Dependencies of MqttConnector. */
type MqttConnectorOptions = MqttSessionOptions;

/** Connects devices through MQTT brokers. */
export class MqttConnector implements Connector {
  readonly id = MQTT.id;
  private readonly sessions: BrokerSessions<MqttSession>;

  constructor(options: MqttConnectorOptions) {
    const { statuses, log } = options;
    const createSession = (open: OpenConnection, events: ConnectorEvents): MqttSession =>
      new MqttSession(open, options, events);
    this.sessions = new BrokerSessions({ component: 'mqtt', statuses, log, createSession });
  }

  /** Passes the event handlers of the higher modules. */
  start(events: ConnectorEvents): void {
    this.sessions.start(events);
  }

  /** Applies the current connection. Reconnects only if something changed that the link depends on. */
  connectionChanged(open: OpenConnection): void {
    this.sessions.apply(open);
  }

  /** Closes the link, and deletes the session at the broker. */
  connectionDeleted(connectionId: string): void {
    this.sessions.remove(connectionId);
  }

  /** Returns the peer that accepts commands. */
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

  /** Always false: sent commands have left the server, because this connector has no queue. */
  cancelUnsent(): boolean {
    return false;
  }

  /** Does nothing: a broker cannot cancel a message. It expires there. */
  cancelAtGateway(): void {}

  /** Connects with a temporary client id and subscribes; publishes nothing. */
  async test({ settings }: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    return await testMqtt(settings, signal);
  }

  /** Resolves when every link is closed. */
  async stop(): Promise<void> {
    await this.sessions.stop();
  }
}
