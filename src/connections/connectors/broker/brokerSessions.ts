import type { Logger } from '../../../kernel/logger';
import { applyPolicyDefaults } from '../../connection';
import type { ConnectionStatuses } from '../../connectionStatuses';
import type { ConnectorEvents, OpenConnection } from '../../connector';
import { KeyedQueue } from '../../keyedQueue';

/** A connection with one configuration: its broker link and its message handling. */
interface ConnectionSession {
  /** The broker that stores its state, and its client id there. */
  readonly brokerSession: { readonly url: string; readonly clientId: string };
  /** The filters that it subscribes to. */
  readonly filters: readonly string[];
  setMaxInFlight(maxInFlight: number): void;
  /** Starts to connect; returns immediately. */
  start(): void;
  /** Resolves when the link is closed. `keepsSession`: whether the session at the broker is used again. */
  stop(keepsSession: boolean): Promise<void>;
  /** Deletes its state at the broker, if the broker can be reached. Only after `stop`. */
  deleteAtBroker(): Promise<void>;
}

/** The sessions of a connection. */
interface ConnectionEntry<Session> {
  readonly open: OpenConnection;
  /** Not started if the connection is disabled. */
  readonly session: Session;
  /** The session that can delete the state at the broker. A disabled connection is opened without its secrets. */
  readonly sessionForDeletion: Session;
}

/** Dependencies of BrokerSessions. */
interface BrokerSessionsOptions<Session> {
  /** The connector, as the prefix of its log events. */
  readonly component: string;
  readonly statuses: ConnectionStatuses;
  readonly log: Logger;
  readonly createSession: (open: OpenConnection, events: ConnectorEvents) => Session;
}

/** The sessions of a connector: one per connection, which is replaced when the configuration changes. */
export class BrokerSessions<Session extends ConnectionSession> {
  /**
   * A connection that was disabled or changed since the start of the server has an entry too, because the broker may
   * still store its state.
   */
  private readonly entries = new Map<string, ConnectionEntry<Session>>();
  /** Starts and stops, in order per connection: two links with the same client id never run concurrently. */
  private readonly changes = new KeyedQueue(Number.POSITIVE_INFINITY);
  /** Deletions at brokers, in order per broker and client id. */
  private readonly deletions = new KeyedQueue(Number.POSITIVE_INFINITY);
  private events: ConnectorEvents | undefined;
  private isStopped = false;

  constructor(private readonly options: BrokerSessionsOptions<Session>) {}

  /** Passes the event handlers of the higher modules. */
  start(events: ConnectorEvents): void {
    this.events = events;
  }

  /** Returns the session of a connection; undefined if the connection is unknown. */
  find(connectionId: string): Session | undefined {
    return this.entries.get(connectionId)?.session;
  }

  /** Applies the current connection. Reconnects only if its settings changed, or it was enabled or disabled. */
  apply(open: OpenConnection): void {
    const { component, statuses, createSession } = this.options;
    if (!this.events) throw new Error(`the ${component} connector is not started: call start before connectionChanged`);
    if (this.isStopped) return;
    const { id, enabled, policy } = open.connection;
    const current = this.entries.get(id);
    if (current && isSameConfiguration(current.open, open)) {
      current.session.setMaxInFlight(applyPolicyDefaults(policy).maxInFlight);
      return;
    }
    const session = createSession(open, this.events);
    const shouldKeep = !enabled && current !== undefined && isContinued(current.sessionForDeletion, session);
    this.entries.set(id, { open, session, sessionForDeletion: shouldKeep ? current.sessionForDeletion : session });
    if (current) this.stopSession(id, current, session);
    if (!enabled) return;
    statuses.markConnecting(id);
    this.change(id, async () => {
      await this.waitForDeletion(session);
      if (this.find(id) === session) session.start(); // unless it was replaced in the meantime
    });
  }

  /** Stops the session of a deleted connection, and deletes its state at the broker. */
  remove(connectionId: string): void {
    const entry = this.entries.get(connectionId);
    this.entries.delete(connectionId);
    if (entry) this.stopSession(connectionId, entry);
  }

  /** Resolves when every link is closed. The brokers keep the state of the sessions. */
  async stop(): Promise<void> {
    this.isStopped = true;
    for (const [id, { session }] of this.entries) this.change(id, async () => await session.stop(true));
    this.entries.clear();
    await this.changes.waitUntilIdle();
    await this.deletions.waitUntilIdle();
  }

  /** Stops a session, and deletes its state at the broker unless the next session continues it. */
  private stopSession(id: string, { session, sessionForDeletion }: ConnectionEntry<Session>, next?: Session): void {
    // Now, because at the end of the server no connection is left when the deletion runs.
    const isShared = this.isUsedByOther(id, sessionForDeletion);
    const deleteAtBroker = async (): Promise<void> => {
      if (!isShared) await sessionForDeletion.deleteAtBroker();
    };
    this.change(id, async () => {
      const keepsSession = next !== undefined && isContinued(sessionForDeletion, next);
      await session.stop(keepsSession);
      if (keepsSession) return;
      if (next && hasSameClient(sessionForDeletion, next)) await deleteAtBroker();
      // Not awaited, because the old broker may no longer exist.
      else
        void this.deletions.add(
          getClientKey(sessionForDeletion),
          async () => await this.logFailure(id, deleteAtBroker),
        );
    });
  }

  /** Resolves when no deletion of the client of this session is pending: it would disconnect the session. */
  private async waitForDeletion(session: Session): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    await this.deletions.add(getClientKey(session), async () => resolve());
    await promise;
  }

  /** Whether another connection has the same client of the broker, which a deletion would disconnect. */
  private isUsedByOther(id: string, session: Session): boolean {
    return [...this.entries].some(([otherId, other]) => otherId !== id && hasSameClient(other.session, session));
  }

  /** Runs a job after earlier changes of the connection. */
  private change(id: string, job: () => Promise<void>): void {
    void this.changes.add(id, async () => await this.logFailure(id, job));
  }

  /** Runs a job. A failure is only logged. */
  private async logFailure(id: string, job: () => Promise<void>): Promise<void> {
    const { log, component } = this.options;
    await job().catch((err: unknown) => log.error({ connection_id: id, err }, `${component}.change_failed`));
  }
}

function isSameConfiguration(left: OpenConnection, right: OpenConnection): boolean {
  return (
    left.connection.enabled === right.connection.enabled &&
    JSON.stringify(left.settings) === JSON.stringify(right.settings)
  );
}

/**
 * Whether the next session continues the previous one: the same client, which reads every topic of the previous one.
 * Otherwise the broker would keep sending messages of topics that are not read.
 */
function isContinued(previous: ConnectionSession, next: ConnectionSession): boolean {
  return hasSameClient(previous, next) && previous.filters.every((filter) => next.filters.includes(filter));
}

function hasSameClient(
  { brokerSession: left }: ConnectionSession,
  { brokerSession: right }: ConnectionSession,
): boolean {
  return left.url === right.url && left.clientId === right.clientId;
}

/** Identifies a client of a broker. */
function getClientKey({ brokerSession }: ConnectionSession): string {
  return `${brokerSession.url} ${brokerSession.clientId}`;
}
