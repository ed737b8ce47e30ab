import type { Downlink, Peer, SendResult } from '../../connections';
import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { Tally } from '../../kernel/tally';
import { Alarm } from '../timers/alarm';
import type { Execution } from '../execution';
import type { DispatchResult } from '../executionCounts';
import { ExecutionRepository } from '../store/executionRepository';
import type { Change, Ledger } from '../ledger/ledger';

/** What the dispatcher needs of the connections: who is there, and a way to send. */
export interface DispatchHub {
  peer(connectionId: string): Peer | undefined;
  send(downlink: Downlink, session: number): Promise<SendResult>;
}

/** What a line needs. */
export interface DispatchOptions {
  readonly database: Database;
  readonly ledger: Ledger;
  readonly hub: DispatchHub;
  /** Counts what became of each attempt. */
  readonly dispatches: Pick<Tally<DispatchResult>, 'add'>;
  readonly clock: Clock;
  readonly log: Logger;
}

const BATCH = 64;
const RETRY_MS = 1000;
const SOURCE = { source: 'dispatcher' };

/**
 * The way out of one connection. It knows which physical devices may have something to send, so its cost grows with what is sent,
 * not with what there is; while nobody is attached it knows nothing, and reads the queues anew when somebody comes.
 */
export class DispatchLine {
  /** In the order in which they are served. */
  private readonly candidates = new Set<string>();
  /** Those whose head waits for its next attempt, and until when. */
  private readonly delayed = new Map<string, number>();
  private readonly alarm: Alarm;
  /** Claimed and not yet handed to the connection. */
  private leaving = new Set<string>();
  private session: number | undefined;
  private running: Promise<void> | undefined;
  private again = false;
  private stopped = false;

  constructor(
    private readonly options: DispatchOptions,
    private readonly organizationId: string,
    private readonly connectionId: string,
  ) {
    this.alarm = new Alarm(options.clock, () => this.wake());
  }

  /** There may be something to send: for this physical device, or on the whole connection. */
  wake(physicalDeviceId?: string): void {
    if (this.stopped) return;
    if (physicalDeviceId !== undefined) this.candidates.add(physicalDeviceId);
    this.again = true;
    this.running ??= this.run();
  }

  /** Takes back what was claimed and is not handed to the connection yet; true: it is put back into its queue instead. */
  takeBack(executionId: string): boolean {
    return this.leaving.delete(executionId);
  }

  /** Resolves when nothing is on its way out any more: what was claimed is sent or put back. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.alarm.clear();
    await this.running;
  }

  private async run(): Promise<void> {
    try {
      while (this.again && !this.stopped) {
        this.again = false;
        await this.drain();
      }
    } catch (error) {
      this.options.log.warn({ connection_id: this.connectionId, error }, 'executions.dispatch_failed');
      this.session = undefined; // reads the queues anew
      this.alarm.set(this.options.clock.now() + RETRY_MS);
    } finally {
      this.running = undefined;
    }
  }

  private async drain(): Promise<void> {
    for (let peer = await this.attached(); peer && !this.stopped; peer = await this.attached()) {
      this.promoteDelayed();
      const batch = this.takeCandidates(Math.min(peer.capacity, BATCH));
      if (batch.length === 0) return;
      const claimed = await this.claim(batch, peer);
      const { session } = peer;
      await Promise.all(claimed.map(async (execution) => await this.send(execution, session)));
    }
  }

  private takeCandidates(most: number): string[] {
    const taken: string[] = [];
    for (const physicalDeviceId of this.candidates) {
      if (taken.length >= most) break;
      this.candidates.delete(physicalDeviceId);
      taken.push(physicalDeviceId);
    }
    return taken;
  }

  /** Who is there; with somebody new come all queues of the connection. */
  private async attached(): Promise<Peer | undefined> {
    const { database, hub } = this.options;
    const peer = hub.peer(this.connectionId);
    if (peer && peer.session !== this.session) {
      for (const id of await new ExecutionRepository(database.db).queues(this.organizationId, this.connectionId)) this.candidates.add(id);
      this.session = peer.session;
    }
    if (!peer) this.forget();
    return peer;
  }

  private forget(): void {
    this.session = undefined;
    this.candidates.clear();
    this.delayed.clear();
    this.alarm.clear();
  }

  private promoteDelayed(): void {
    const now = this.options.clock.now();
    for (const [physicalDeviceId, until] of this.delayed) {
      if (until > now) {
        this.alarm.set(until); // it rang for one, and keeps no others
        continue;
      }
      this.delayed.delete(physicalDeviceId);
      this.candidates.add(physicalDeviceId);
    }
  }

  /** Commits that the heads of these queues are being sent, before a byte leaves; returns those that are to be sent. */
  private async claim(physicalDeviceIds: readonly string[], peer: Peer): Promise<Execution[]> {
    const { database, ledger, clock } = this.options;
    const event = { kind: 'dispatch', peerId: peer.peerId, bootId: peer.bootId } as const;
    const before = clock.now();
    const { heads, claimed } = await database.transaction(async (db) => {
      const heads = await this.heads(db, physicalDeviceIds);
      const changes = heads.map((head) => ledger.plan(head, event, SOURCE)).filter((change) => change !== undefined);
      const claimed = await ledger.store(db, this.organizationId, changes);
      this.leaving = new Set(claimed.map(({ after }) => after.id)); // before the commit: from then on others may take them back
      return { heads, claimed };
    });
    this.delay(heads, before);
    return claimed.map((change: Change) => change.after);
  }

  private async heads(db: Db, physicalDeviceIds: readonly string[]): Promise<Execution[]> {
    const executions = new ExecutionRepository(db);
    const heads: Execution[] = [];
    for (const physicalDeviceId of physicalDeviceIds) {
      const head = await executions.head(this.organizationId, this.connectionId, physicalDeviceId);
      if (head) heads.push(head);
    }
    return heads;
  }

  /** Heads that were too early at `since`, when they were looked at: one whose time has come by now must not be forgotten. */
  private delay(heads: readonly Execution[], since: number): void {
    for (const { physicalDeviceId, notBefore } of heads) {
      if (physicalDeviceId === undefined || notBefore === undefined || notBefore <= since) continue;
      this.delayed.set(physicalDeviceId, notBefore);
      this.alarm.set(notBefore);
    }
  }

  private async send(execution: Execution, session: number): Promise<void> {
    const { clock, dispatches, hub, log } = this.options;
    const downlink = downlinkOf(execution);
    try {
      const isWanted = this.leaving.delete(execution.id);
      const result = isWanted && downlink.deadline > clock.now() ? await hub.send(downlink, session) : 'not_sent';
      if (result === 'not_sent') {
        await this.putBack(execution);
        dispatches.add('put_back');
        return;
      }
      dispatches.add('sent');
      log.debug({ execution_id: execution.id, connection_id: this.connectionId, attempt: execution.attempts }, 'executions.sent');
    } catch (error) {
      // It may have left: it stays in transit, and its deadline decides.
      dispatches.add('failed');
      log.error({ execution_id: execution.id, connection_id: this.connectionId, error }, 'executions.send_failed');
    }
  }

  /** Proven not sent, whatever else became of this attempt meanwhile. */
  private async putBack({ id, attempts }: Execution): Promise<void> {
    const { database, ledger } = this.options;
    for (let isOpen = true; isOpen; ) {
      isOpen = await database.transaction(async (db) => {
        const now = await new ExecutionRepository(db).find(this.organizationId, id);
        const change = now?.attempts === attempts ? ledger.plan(now, { kind: 'known_undelivered' }, SOURCE) : undefined;
        return change !== undefined && (await ledger.store(db, this.organizationId, [change])).length === 0; // changed meanwhile: look again
      });
    }
  }
}

function downlinkOf(x: Execution): Downlink {
  if (x.connectionId === undefined || x.clientDeviceId === undefined || !x.payload) throw new Error(`execution ${x.id} was enqueued without a route or a payload`);
  return {
    organizationId: x.organizationId,
    connectionId: x.connectionId,
    executionId: x.id,
    attempt: x.attempts,
    clientDeviceId: x.clientDeviceId,
    deadline: x.tDelivery ?? 0,
    payload: x.payload,
    fPort: x.fPort,
    confirmed: x.confirmed,
    topic: x.topic,
  };
}
