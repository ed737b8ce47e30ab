import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Encoder } from '../commands';
import type { Attachment, ConnectorHub, Evidence, EvidenceOutcome } from '../connections';
import type { Database, Db } from '../database';
import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';
import type { Cursors } from '../kernel/pages';
import { DeadlineRepository } from './store/deadlineRepository';
import { type OpenFigures, OpenFiguresRepository } from './store/openFiguresRepository';
import { Dispatcher } from './dispatch/dispatcher';
import { EvidenceService } from './evidence/evidenceService';
import { type Execution, isFinal } from './execution';
import type { ExecutionEvent } from './machine/executionEvent';
import { ExecutionRepository } from './store/executionRepository';
import { ExecutionFeed } from './watch/executionFeed';
import { ExecutionCounts } from './executionCounts';
import { ExecutionService } from './executionService';
import { nextDeadline } from './machine/executionTimes';
import { ExecutionWatch } from './watch/executionWatch';
import { type Change, type EventOrigin, Ledger } from './ledger/ledger';
import { LostLinks } from './evidence/lostLinks';
import { type SensedUplink, SensorEvidence } from './evidence/sensorEvidence';
import { Sweeper } from './timers/sweeper';

/** What the room needs of the house. */
export interface ExecutionsOptions {
  readonly database: Database;
  /** Where commands go out. */
  readonly hub: Pick<ConnectorHub, 'peer' | 'send' | 'takeBack' | 'withdraw'>;
  /** Runs the encoders of commands. */
  readonly encoder: Encoder;
  /** Never runs backwards: see steadyClock. */
  readonly clock: Clock;
  readonly cursors: Cursors;
  readonly log: Logger;
  /** Told of every step of every execution, once it is on disk; nobody where traces are off. */
  readonly onStep?: ((step: ExecutionStep) => void) | undefined;
}

/** One step of an execution: what happened to it, and when (Unix milliseconds). */
export interface ExecutionStep {
  readonly execution: Pick<Execution, 'id' | 'state' | 'deviceId' | 'commandId' | 'connectionId'>;
  readonly entries: readonly { readonly event: string; readonly from: string | undefined; readonly to: string; readonly time: number }[];
  /** Nothing will happen to it any more. */
  readonly isFinal: boolean;
}

const TRIES = 5;
const NOT_SENT: ExecutionEvent = { kind: 'known_undelivered' };
const FORGET_CHUNK = 200;
const RETENTION_MS = 365 * 24 * 3_600_000;

/** The life of executions: admits them, sends them, settles them by evidence and by their deadlines. The constructor does nothing. */
export class Executions {
  /** Execute, get, list. */
  readonly service: ExecutionService;
  readonly watch: ExecutionWatch;
  readonly counts = new ExecutionCounts();
  private readonly ledger: Ledger;
  private readonly dispatcher: Dispatcher;
  private readonly sweeper: Sweeper;
  private readonly settling: EvidenceService;
  private readonly lostLinks: LostLinks;
  private readonly sensors: SensorEvidence;
  private readonly feed = new ExecutionFeed();
  /** What the other side of a connection holds and need not, until it can be told. */
  private readonly heldInVain = new Map<string, Set<string>>();

  constructor(private readonly options: ExecutionsOptions) {
    const { database, hub, encoder, clock, cursors, log } = options;
    const ledger = new Ledger({ clock, onCommitted: (changes) => this.committed(changes) });
    this.ledger = ledger;
    this.dispatcher = new Dispatcher({ database, ledger, hub, clock, log, dispatches: this.counts.dispatches });
    this.sweeper = new Sweeper({ database, ledger, takeBack: (execution) => this.takeBack(execution), clock, log });
    this.settling = new EvidenceService({ database, ledger, log, onHeldInVain: (connectionId, executionId) => this.remember(connectionId, executionId) });
    this.lostLinks = new LostLinks({ database, ledger });
    this.sensors = new SensorEvidence(ledger);
    this.service = new ExecutionService({ database, ledger, encoder, clock, cursors });
    this.watch = new ExecutionWatch({ database, cursors, feed: this.feed, clock });
  }

  /** Takes up what an earlier process left. Call it before anybody can attach. */
  async start(): Promise<void> {
    await this.lostLinks.markAll();
    this.sweeper.start();
  }

  /** Resolves when nothing is written or sent any more. */
  async stop(): Promise<void> {
    await Promise.all([this.dispatcher.stop(), this.sweeper.stop(), this.lostLinks.stop()]);
  }

  /** Judges every deadline that has come; resolves when it is on disk. The server does it by itself. */
  async sweep(): Promise<void> {
    await this.sweeper.sweep();
  }

  /** What has not ended, of all organizations. */
  async openFigures(): Promise<OpenFigures> {
    return await new OpenFiguresRepository(this.options.database.db).read();
  }

  /** Removes what ended 365 days before that time (Unix milliseconds), with its log, in small steps so that others get their turn. Call it now and then. */
  async forgetOld(now: number): Promise<void> {
    const { database } = this.options;
    for (let removed = FORGET_CHUNK; removed === FORGET_CHUNK; ) {
      removed = await database.transaction(async (db) => await new DeadlineRepository(db).forgetEnded(now - RETENTION_MS, FORGET_CHUNK));
      await othersTurn();
    }
  }

  /** Evidence of a connector: ConnectorEvents.evidence. */
  async evidence(organizationId: string, connectionId: string, executionId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome> {
    return await this.settling.evidence(organizationId, connectionId, executionId, source, evidence);
  }

  /** Evidence for the one command that is under way to a device: ConnectorEvents.deviceEvidence. */
  async deviceEvidence(organizationId: string, connectionId: string, clientDeviceId: string, source: string, evidence: Evidence): Promise<EvidenceOutcome> {
    const executionId = await new ExecutionRepository(this.options.database.db).findSlotHolder(organizationId, connectionId, clientDeviceId);
    return executionId === undefined ? 'unknown' : await this.evidence(organizationId, connectionId, executionId, source, evidence);
  }

  /** A device sent something: settles what waited for it, inside the transaction that stores the uplink. */
  async judge(db: Db, uplink: SensedUplink): Promise<void> {
    await this.sensors.judge(db, uplink);
  }

  /** Somebody attached: ConnectorEvents.attached. */
  async attached(attachment: Attachment): Promise<void> {
    await this.settling.attached(attachment);
  }

  /** Whoever was attached is gone: ConnectorEvents.detached. */
  async detached(organizationId: string, connectionId: string): Promise<void> {
    this.heldInVain.delete(connectionId); // whoever comes says anew what it holds
    await this.dispatcher.settled(connectionId); // what has not left is back in its queue
    await this.lostLinks.markConnection(organizationId, connectionId);
  }

  /** A connection was deleted and that is on disk: nothing is kept for it any more. */
  connectionDeleted(connectionId: string): void {
    this.heldInVain.delete(connectionId);
    void this.dispatcher.settled(connectionId);
  }

  /** There may be room on a connection: ConnectorEvents.ready. */
  ready(organizationId: string, connectionId: string): void {
    const held = this.heldInVain.get(connectionId);
    if (held && this.options.hub.peer(connectionId)) {
      this.heldInVain.delete(connectionId);
      for (const executionId of held) this.options.hub.withdraw(connectionId, executionId);
    }
    this.dispatcher.ready(organizationId, connectionId);
  }

  /**
   * A device is deleted, unbound or bound anew (`reason`): ends its executions, inside the caller's transaction, which holds the device's
   * lock. Others get their turn after each portion; on SQLite those that write wait for all of it.
   */
  async targetRemoved(db: Db, organizationId: string, deviceId: string, reason: 'device_deleted' | 'physical_device_changed'): Promise<void> {
    const deadlines = new DeadlineRepository(db);
    for (let inVain = 0; inVain < TRIES; ) {
      const open = await deadlines.someOpenOfDevice(organizationId, deviceId);
      if (open.length === 0) return;
      const stored = await this.ledger.store(db, organizationId, this.plans(open, { kind: 'removed', reason }, { source: 'api' }));
      if (stored.length === 0) inVain += 1;
      await othersTurn();
    }
    throw new Error(`executions of device ${deviceId} kept changing while it was removed`);
  }

  private plans(executions: Iterable<Execution>, event: ExecutionEvent, origin: EventOrigin): Change[] {
    return [...executions].flatMap((execution) => this.ledger.planAll(execution, this.takeBack(execution) ? [NOT_SENT, event] : [event], origin) ?? []);
  }

  /** Whether a command in transit has provably not left, and now never will. */
  private takeBack({ id, state, connectionId }: Execution): boolean {
    if (state !== 'in_transit' || connectionId === undefined) return false;
    return this.dispatcher.takeBack(connectionId, id) || this.options.hub.takeBack(connectionId, id);
  }

  private remember(connectionId: string, executionId: string): void {
    const held = this.heldInVain.get(connectionId) ?? new Set();
    this.heldInVain.set(connectionId, held.add(executionId));
  }

  /** What follows once changes are on disk. */
  private committed(changes: readonly Change[]): void {
    for (const organizationId of new Set(changes.map((change) => change.after.organizationId))) this.feed.notify(organizationId);
    for (const change of changes) {
      const { after, effects } = change;
      if (effects.includes('take_back')) {
        this.takeBack(after);
        continue;
      }
      this.note(change);
      this.sweeper.expect(nextDeadline(after));
      if (after.connectionId === undefined || after.physicalDeviceId === undefined) continue;
      if (effects.includes('withdraw')) this.options.hub.withdraw(after.connectionId, after.id);
      if (mayGoOn(change)) this.dispatcher.wake(after.organizationId, after.connectionId, after.physicalDeviceId);
    }
  }

  private note({ before, after, entries }: Change): void {
    this.options.onStep?.({ execution: after, entries, isFinal: isFinal(after.state) });
    const from = before === after ? {} : { from_state: before.state };
    const fields = { execution_id: after.id, organization_id: after.organizationId, device_id: after.deviceId, ...from, state: after.state, detail: after.detail, cause: entries.at(-1)?.event };
    const ended = isFinal(after.state) && (before === after || !isFinal(before.state));
    if (ended) this.counts.end(after, fields.cause);
    if (ended) this.options.log.info(fields, 'executions.ended');
    else this.options.log.debug(fields, 'executions.advanced');
  }
}

/** Whether a change lets the device's queue go on: something came into it, its head left it, or the slot is free again. */
function mayGoOn({ before, after }: Change): boolean {
  return after.state === 'enqueued' || (before.state === 'enqueued' && !after.holdsSlot) || (before.holdsSlot && !after.holdsSlot);
}
