import { createHash } from 'node:crypto';
import { effectivePolicy } from '../../connection';
import type { ConnectionCheck, Connector, ConnectorEvents, Downlink, OpenConnection, Peer, SendResult } from '../../connector';
import { MqttSession, type MqttSessionOptions } from './mqttSession';
import { tryMqtt } from './mqttTrial';
import { MQTT } from './mqttType';

/** What the connector needs of the house. */
export type MqttConnectorOptions = MqttSessionOptions;

interface Seat {
  /** Of all that a link depends on; undefined: none shall run. */
  fingerprint: string | undefined;
  session: MqttSession | undefined;
  /** What ran last, also of a connection that is switched off by now: the broker still keeps its session. */
  last: MqttSession | undefined;
  /** Resolves when the changes so far are carried out. */
  tail: Promise<void>;
}

/** Devices behind MQTT brokers. */
export class MqttConnector implements Connector {
  readonly id = MQTT.id;
  private readonly seats = new Map<string, Seat>();
  /** Of sessions that nobody needs any more, until nothing of them is left at their brokers. */
  private readonly leaving = new Set<Promise<void>>();
  private events: ConnectorEvents | undefined;
  private isStopped = false;

  constructor(private readonly options: MqttConnectorOptions) {}

  /** Hands the rooms above down. */
  start(events: ConnectorEvents): void {
    this.events = events;
  }

  /** Takes a connection up as it is now; connects anew only if something changed that the link depends on. */
  connectionChanged(open: OpenConnection): void {
    if (this.isStopped) return;
    const { id, enabled, policy } = open.connection;
    const seat = this.seats.get(id) ?? { fingerprint: undefined, session: undefined, last: undefined, tail: Promise.resolve() };
    this.seats.set(id, seat);
    const fingerprint = enabled ? digestOf(open.settings) : undefined;
    if (fingerprint === seat.fingerprint) return seat.session?.setMaxInFlight(effectivePolicy(policy).maxInFlight);
    seat.fingerprint = fingerprint;
    this.replace(id, seat, fingerprint === undefined ? undefined : open);
  }

  /** Ends the link, and the session at the broker. */
  connectionDeleted(connectionId: string): void {
    const seat = this.seats.get(connectionId);
    if (!seat) return;
    this.seats.delete(connectionId);
    const { session, last } = seat;
    seat.session = undefined;
    this.enqueue(connectionId, seat, async () => {
      await session?.stop();
      await last?.forget();
    });
    this.leave(seat.tail);
  }

  /** Who is there to take commands. */
  peer(connectionId: string): Peer | undefined {
    return this.seats.get(connectionId)?.session?.peer;
  }

  /** Publishes a command on one session and on no other. */
  async send(downlink: Downlink, session: number): Promise<SendResult> {
    return this.seats.get(downlink.connectionId)?.session?.send(downlink, session) ?? 'not_sent';
  }

  /** What was sent has left: nothing waits here. */
  takeBack(): boolean {
    return false;
  }

  /** A broker cannot be told; the message expires there. */
  withdraw(): void {}

  /** Connects under a name of its own and subscribes; publishes nothing. */
  async test({ settings }: OpenConnection, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    return await tryMqtt(settings, signal);
  }

  /** Resolves when every link is closed. */
  async stop(): Promise<void> {
    this.isStopped = true;
    for (const [id, seat] of this.seats) this.replace(id, seat, undefined);
    await Promise.all([...[...this.seats.values()].map(({ tail }) => tail), ...this.leaving]);
  }

  /** Ends what runs, then starts what shall run: never two links with the same name at once. */
  private replace(id: string, seat: Seat, open: OpenConnection | undefined): void {
    if (!this.events) throw new Error('the MQTT connector is not started; call start before any connection is handed over');
    const previous = seat.session;
    const session = open && new MqttSession(open, this.options, this.events);
    const stale = session && seat.last && isStale(seat.last, session) ? seat.last : undefined;
    seat.session = session;
    seat.last = session ?? seat.last;
    this.enqueue(id, seat, async () => {
      await previous?.stop();
      if (stale) await this.forget(id, stale, session);
      if (seat.session === session) session?.start();
    });
  }

  /** Waits only where the new session would have to share its name with it: a broker that was left may be gone. */
  private async forget(id: string, stale: MqttSession, session: MqttSession | undefined): Promise<void> {
    const forgotten = stale.forget().catch((err: unknown) => this.options.log.error({ connection_id: id, err }, 'mqtt.change_failed'));
    if (isSamePlace(stale, session)) await forgotten;
    else this.leave(forgotten);
  }

  private leave(done: Promise<void>): void {
    this.leaving.add(done);
    void done.finally(() => this.leaving.delete(done));
  }

  private enqueue(id: string, seat: Seat, job: () => Promise<void>): void {
    seat.tail = seat.tail.then(job).catch((err: unknown) => this.options.log.error({ connection_id: id, err }, 'mqtt.change_failed'));
  }
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64url');
}

/** The broker would keep a session that is used no more, or send what nobody wants to read any more. What waits there gets lost then, so nothing else counts. */
function isStale(last: MqttSession, next: MqttSession): boolean {
  return !isSamePlace(last, next) || last.filters.some((filter) => !next.filters.includes(filter));
}

function isSamePlace(one: MqttSession, other: MqttSession | undefined): boolean {
  return one.place.url === other?.place.url && one.place.clientId === other.place.clientId;
}
