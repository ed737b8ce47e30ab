import type { ConnectorHub, Downlink, Peer } from '../../connections';
import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { Counter } from '../../kernel/counter';
import { DeadlineTimer } from '../timers/deadlineTimer';
import type { Execution } from '../execution';
import type { DispatchResult } from '../executionCounts';
import { ExecutionRepository } from '../store/executionRepository';
import type { Change, ExecutionStore } from '../changes/executionStore';

/** The part of the connector hub that the dispatcher uses: the attached peer, and a way to send and to cancel. */
export type DispatchHub = Pick<ConnectorHub, 'peer' | 'send' | 'cancelUnsent'>;

/** Dependencies of a connection dispatcher. */
export interface DispatchOptions {
  readonly database: Database;
  readonly executionStore: ExecutionStore;
  readonly hub: DispatchHub;
  /** Counts the outcome of each attempt. */
  readonly dispatches: Pick<Counter<DispatchResult>, 'add'>;
  readonly clock: Clock;
  readonly log: Logger;
}

const MAX_BATCH_SIZE = 64;
const RETRY_MS = 1000;
/** The origin of all events of the dispatcher. */
const ORIGIN = { source: 'dispatcher' };

/**
 * Sends the commands of one connection. It tracks the physical devices that may have something to send (candidates), so
 * its cost grows with the commands sent, not with the number of devices. The head of a device is the first execution in
 * its queue; it is claimed when the database says that it is being sent. While no peer is attached it holds no state;
 * it reads the queues again when a peer attaches.
 */
export class ConnectionDispatcher {
  /** Physical devices that may have something to send, in the order in which they are served. */
  private readonly candidateDeviceIds = new Set<string>();
  /** Devices whose head waits for its next attempt, with the time of that attempt. */
  private readonly delayedUntilByDevice = new Map<string, number>();
  private readonly timer: DeadlineTimer;
  /** Claimed executions that are not yet handed to the connection. */
  private unsentIds = new Set<string>();
  /** The attachment for which the queues were read; undefined: they must be read. */
  private knownSession: number | undefined;
  private running: Promise<void> | undefined;
  private mustRunAgain = false;
  private stopped = false;

  constructor(
    private readonly options: DispatchOptions,
    private readonly organizationId: string,
    private readonly connectionId: string,
  ) {
    this.timer = new DeadlineTimer(options.clock, () => this.wake());
  }

  /** Reports that there may be something to send for this physical device, or on the complete connection. */
  wake(physicalDeviceId?: string): void {
    if (this.stopped) return;
    if (physicalDeviceId !== undefined) this.candidateDeviceIds.add(physicalDeviceId);
    this.mustRunAgain = true;
    this.running ??= this.run();
  }

  /**
   * Cancels a claimed execution that is not yet handed to the connection. Returns true if it will be put back into its
   * queue instead.
   */
  cancelUnsent(executionId: string): boolean {
    return this.unsentIds.delete(executionId);
  }

  /** Resolves when every claimed execution is sent or put back. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.timer.clear();
    await this.running;
  }

  /**
   * Sends until there is nothing more to send, again if `wake` was called meanwhile. After an error, the timer starts
   * another run.
   */
  private async run(): Promise<void> {
    try {
      while (this.mustRunAgain && !this.stopped) {
        this.mustRunAgain = false;
        await this.drain();
      }
    } catch (error) {
      this.options.log.warn({ connection_id: this.connectionId, error }, 'executions.dispatch_failed');
      this.knownSession = undefined; // reads the queues again
      this.timer.set(this.options.clock.now() + RETRY_MS);
    } finally {
      this.running = undefined;
    }
  }

  /** Sends batch by batch, as long as the peer has capacity and there are candidates. */
  private async drain(): Promise<void> {
    for (let peer = await this.findPeer(); peer && !this.stopped; peer = await this.findPeer()) {
      this.promoteDelayed();
      const batch = this.removeCandidates(Math.min(peer.capacity, MAX_BATCH_SIZE));
      if (batch.length === 0) return;
      const claimed = await this.claim(batch, peer);
      const { session } = peer;
      await Promise.all(claimed.map(async (execution) => await this.send(execution, session)));
    }
  }

  /** Removes and returns the first candidates, at most `max`. */
  private removeCandidates(max: number): string[] {
    const removed: string[] = [];
    for (const physicalDeviceId of this.candidateDeviceIds) {
      if (removed.length >= max) break;
      this.candidateDeviceIds.delete(physicalDeviceId);
      removed.push(physicalDeviceId);
    }
    return removed;
  }

  /** Returns the attached peer. If the peer is new, all queues of the connection become candidates. */
  private async findPeer(): Promise<Peer | undefined> {
    const { database, hub } = this.options;
    const peer = hub.peer(this.connectionId);
    if (peer && peer.session !== this.knownSession) {
      const executions = new ExecutionRepository(database.db);
      for (const id of await executions.listDevicesWithQueue(this.organizationId, this.connectionId))
        this.candidateDeviceIds.add(id);
      this.knownSession = peer.session;
    }
    if (!peer) this.clearState();
    return peer;
  }

  /** Forgets all devices, because no peer is attached. */
  private clearState(): void {
    this.knownSession = undefined;
    this.candidateDeviceIds.clear();
    this.delayedUntilByDevice.clear();
    this.timer.clear();
  }

  /** Makes candidates of the devices whose delay is over. */
  private promoteDelayed(): void {
    const now = this.options.clock.now();
    for (const [physicalDeviceId, until] of this.delayedUntilByDevice) {
      if (until > now) {
        this.timer.set(until); // the timer stores only one time, which was that of another device
        continue;
      }
      this.delayedUntilByDevice.delete(physicalDeviceId);
      this.candidateDeviceIds.add(physicalDeviceId);
    }
  }

  /**
   * Commits that the heads of these queues are being sent, before any byte leaves the server. Returns those that will
   * be sent.
   */
  private async claim(physicalDeviceIds: readonly string[], peer: Peer): Promise<Execution[]> {
    const { database, executionStore, clock } = this.options;
    const event = { kind: 'dispatch', peerId: peer.peerId, bootId: peer.bootId } as const;
    const readAt = clock.now();
    const { heads, claimed } = await database.transaction(async (db) => {
      const heads = await this.listHeads(db, physicalDeviceIds);
      const changes = heads
        .map((head) => executionStore.plan(head, event, ORIGIN))
        .filter((change) => change !== undefined);
      const claimed = await executionStore.save(db, this.organizationId, changes);
      // Before the commit: after it, another caller may cancel them.
      this.unsentIds = new Set(claimed.map(({ after }) => after.id));
      return { heads, claimed };
    });
    this.delayEarlyHeads(heads, readAt);
    return claimed.map((change: Change) => change.after);
  }

  /** Reads the next execution of each of these devices; a device without a next execution is omitted. */
  private async listHeads(db: Db, physicalDeviceIds: readonly string[]): Promise<Execution[]> {
    const executions = new ExecutionRepository(db);
    const heads: Execution[] = [];
    for (const physicalDeviceId of physicalDeviceIds) {
      const head = await executions.findHead(this.organizationId, this.connectionId, physicalDeviceId);
      if (head) heads.push(head);
    }
    return heads;
  }

  /**
   * Delays heads that were too early when they were read at `readAt`; also those that are due by now, because they were
   * not claimed and must not be forgotten.
   */
  private delayEarlyHeads(heads: readonly Execution[], readAt: number): void {
    for (const { physicalDeviceId, notBefore } of heads) {
      if (physicalDeviceId === undefined || notBefore === undefined || notBefore <= readAt) continue;
      this.delayedUntilByDevice.set(physicalDeviceId, notBefore);
      this.timer.set(notBefore);
    }
  }

  /** Sends a claimed execution, or puts it back into its queue if it was cancelled, has expired or was not sent. */
  private async send(execution: Execution, session: number): Promise<void> {
    const { clock, dispatches, hub, log } = this.options;
    const downlink = toDownlink(execution);
    try {
      const isCancelled = !this.unsentIds.delete(execution.id);
      const isExpired = downlink.deadline <= clock.now();
      const result = isCancelled || isExpired ? 'not_sent' : await hub.send(downlink, session);
      if (result === 'not_sent') {
        await this.putBack(execution);
        dispatches.add('requeued');
        return;
      }
      dispatches.add('sent');
      log.debug(
        { execution_id: execution.id, connection_id: this.connectionId, attempt: execution.attempts },
        'executions.sent',
      );
    } catch (error) {
      // The command may have left the server, so the execution stays in transit until its deadline.
      dispatches.add('failed');
      log.error({ execution_id: execution.id, connection_id: this.connectionId, error }, 'executions.send_failed');
    }
  }

  /** Puts back an execution that was provably not sent, whatever else happened to this attempt concurrently. */
  private async putBack({ id, attempts }: Execution): Promise<void> {
    const { database, executionStore } = this.options;
    for (let mustRetry = true; mustRetry;) {
      mustRetry = await database.transaction(async (db) => {
        const current = await new ExecutionRepository(db).find(this.organizationId, id);
        const isSameAttempt = current?.attempts === attempts; // otherwise it was put back and sent again
        const change = isSameAttempt ? executionStore.plan(current, { kind: 'known_undelivered' }, ORIGIN) : undefined;
        if (!change) return false;
        return (await executionStore.save(db, this.organizationId, [change])).length === 0; // changed concurrently: try again
      });
    }
  }
}

/** Converts an execution to the message for its connection. */
function toDownlink(execution: Execution): Downlink {
  if (execution.connectionId === undefined || execution.clientDeviceId === undefined || !execution.payload)
    throw new Error(`execution ${execution.id} was enqueued without a route or a payload`);
  return {
    organizationId: execution.organizationId,
    connectionId: execution.connectionId,
    executionId: execution.id,
    attempt: execution.attempts,
    clientDeviceId: execution.clientDeviceId,
    deadline: execution.tDelivery ?? 0,
    payload: execution.payload,
    fPort: execution.fPort,
    confirmed: execution.confirmed,
    topic: execution.topic,
  };
}
