import type { ConnectionCheck, Connector, ConnectorEvents, Downlink, OpenConnection, Peer, SendResult } from '../../connector';
import { brokerSettingsOf } from '../broker/brokerConfiguration';
import { tryBroker } from '../broker/brokerTrial';
import { ChirpStackSession, type ChirpStackSessionOptions } from './chirpStackSession';
import { chirpStackSettings } from './chirpStackSettings';
import { CHIRPSTACK } from './chirpStackType';

/** What the connector needs of the house. */
export type ChirpStackConnectorOptions = ChirpStackSessionOptions;

/** ChirpStack v4 network servers, over the brokers of their MQTT integrations. */
export class ChirpStackConnector implements Connector {
  readonly id = CHIRPSTACK.id;
  /** One for each connection, also for one that is switched off: the broker may still keep what that had subscribed to. */
  private readonly sessions = new Map<string, Held>();
  /** The end of the session before, for each connection: the next one waits for it. */
  private readonly endings = new Map<string, Promise<void>>();
  /** Old sessions that brokers are being made to forget. */
  private readonly forgetting = new Set<Promise<void>>();
  private events: ConnectorEvents | undefined;
  private isStopped = false;

  constructor(private readonly options: ChirpStackConnectorOptions) {}

  /** Hands the rooms above down. */
  start(events: ConnectorEvents): void {
    this.events = events;
  }

  /** Takes a connection up as it is now; connects anew only if something that matters changed. */
  connectionChanged(open: OpenConnection): void {
    const { connection, settings } = open;
    const current = this.sessions.get(connection.id);
    const isAsBefore = current?.isEnabled === connection.enabled && current.session.serves(settings);
    if (this.isStopped || isAsBefore) return current?.session.applyPolicy(connection.policy);
    this.end(connection.id, remainderOf(current?.session, settings));
    this.begin(open);
  }

  /** A connection was deleted and that is on disk. */
  connectionDeleted(connectionId: string): void {
    this.end(connectionId, 'forgotten');
  }

  /** The broker, while there is a session with it. */
  peer(connectionId: string): Peer | undefined {
    return this.sessions.get(connectionId)?.session.peer;
  }

  /** Publishes a command on one session and on no other. */
  async send(downlink: Downlink, session: number): Promise<SendResult> {
    return this.sessions.get(downlink.connectionId)?.session.send(downlink, session) ?? 'not_sent';
  }

  /** What was handed to the broker may have left. */
  takeBack(): boolean {
    return false;
  }

  /** ChirpStack knows no way to take one command back; only its acknowledgement is not waited for any more. */
  withdraw(connectionId: string, executionId: string): void {
    this.sessions.get(connectionId)?.session.forget(executionId);
  }

  /** Tries the broker, and says what cannot be seen from here. */
  async test(open: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    const { topics } = chirpStackSettings(open.settings);
    const checks = await tryBroker(brokerSettingsOf(open.settings, ''), [topics.filter], signal);
    return [...checks, this.checkIntegration(open)];
  }

  /** Resolves when every link is closed. */
  async stop(): Promise<void> {
    this.isStopped = true;
    for (const connectionId of this.sessions.keys()) this.end(connectionId, 'kept');
    await Promise.all(this.endings.values());
    await Promise.all(this.forgetting);
  }

  /** How the integration publishes shows only at its events. */
  private checkIntegration({ connection }: OpenConnection): ConnectionCheck {
    const name = 'integration';
    const qos = this.sessions.get(connection.id)?.session.lastQos;
    if (qos === 0) return { name, outcome: 'warning', message: 'events come with QoS 0, so those that are published while this server is away are lost; set `qos=1` in the MQTT integration of ChirpStack' };
    if (qos === undefined) return { name, outcome: 'warning', message: 'how ChirpStack publishes cannot be seen before an event has come; see that `qos=1` stands in its MQTT integration, for 0 is its default' };
    return { name, outcome: 'ok', message: 'events come with QoS 1' };
  }

  private begin(open: OpenConnection): void {
    if (!this.events) throw new Error('the ChirpStack connector is not started; call start before connections are handed over');
    const session = new ChirpStackSession(open, this.events, this.options);
    const { id, enabled } = open.connection;
    this.sessions.set(id, { session, isEnabled: enabled });
    if (!enabled) return;
    this.options.statuses.connecting(id);
    void this.startAfter(this.endings.get(id), id, session);
  }

  private async startAfter(before: Promise<void> | undefined, id: string, session: ChirpStackSession): Promise<void> {
    await before;
    if (this.sessions.get(id)?.session === session) session.start();
  }

  private end(connectionId: string, remainder: Remainder): void {
    const held = this.sessions.get(connectionId);
    if (!held) return;
    this.sessions.delete(connectionId);
    const ending = this.stopAfter(this.endings.get(connectionId), held.session, remainder).finally(() => {
      if (this.endings.get(connectionId) === ending) this.endings.delete(connectionId);
    });
    this.endings.set(connectionId, ending);
  }

  private async stopAfter(before: Promise<void> | undefined, session: ChirpStackSession, remainder: Remainder): Promise<void> {
    await before;
    await session.stop();
    if (remainder === 'replaced') await session.forgetAtBroker();
    if (remainder !== 'forgotten') return;
    const forgetting = session.forgetAtBroker().finally(() => this.forgetting.delete(forgetting));
    this.forgetting.add(forgetting);
  }
}

interface Held {
  readonly session: ChirpStackSession;
  /** False: it was never started, and is there to be forgotten. */
  readonly isEnabled: boolean;
}

/** What the broker keeps of a session that ends: all; nothing, and the next one waits for that, because it is the same client; nothing, and nobody waits. */
type Remainder = 'kept' | 'replaced' | 'forgotten';

/** A session that the broker keeps would go on to bring what the old settings subscribed to. */
function remainderOf(session: ChirpStackSession | undefined, settings: OpenConnection['settings']): Remainder {
  if (!session?.isSameClient(settings)) return 'forgotten';
  return session.hasSubscription(settings) ? 'kept' : 'replaced';
}
