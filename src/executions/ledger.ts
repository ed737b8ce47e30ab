import type { Db } from '../database';
import type { Clock } from '../kernel/clock';
import type { Execution } from './execution';
import { type ExecutionEvent, eventData, layerOf } from './executionEvent';
import { advance } from './executionMachine';
import { ExecutionRepository, type NewLogEntry, type StoredChange } from './executionRepository';
import type { Effect } from './transitionChanges';

/** A change of one execution: before, after, its log, and what has to be done once it is on disk. */
export interface Change extends StoredChange {
  readonly effects: readonly Effect[];
}

/** More about an event than the machine needs to know; goes to the log, so never a secret. */
export interface EventOrigin {
  /** Where it came from, for example `gateway:<gateway id>`. */
  readonly source: string;
  readonly data?: Readonly<Record<string, unknown>>;
}

// An execution that ended takes no more evidence than this, so that nobody can fill the disk with it.
const MOST_EVENTS = 200;

/** Brings what happened into the database: state, version and event log together, and hands on what follows once it is on disk. */
export class Ledger {
  constructor(
    private readonly options: {
      readonly clock: Clock;
      /** Told of every change after its commit. */
      readonly onCommitted: (changes: readonly Change[]) => void;
    },
  ) {}

  /** What an event does to an execution, and what follows from that in the same transaction; undefined: nothing. */
  plan(execution: Execution, event: ExecutionEvent, origin: EventOrigin): Change | undefined {
    const now = this.options.clock.now();
    const entries: NewLogEntry[] = [];
    const effects: Effect[] = [];
    let after = execution;
    for (let next: ExecutionEvent | undefined = event; next; ) {
      const transition = advance(after, next, now);
      if (!transition) break;
      after = { ...after, ...transition.progress, updatedAt: now, eventCount: after.eventCount + 1 };
      entries.push(this.entry(after, next, transition.from, { ...origin, data: { ...eventData(next), ...(next === event ? origin.data : {}) } }));
      effects.push(...transition.effects);
      next = transition.next;
    }
    return entries.length === 0 ? undefined : { before: execution, after: { ...after, version: execution.version + 1 }, entries, effects };
  }

  /** The same for what happened one after another and is stored as one; what does nothing in its turn is left out. */
  planAll(execution: Execution, events: readonly ExecutionEvent[], origin: EventOrigin): Change | undefined {
    let all: Change | undefined;
    for (const event of events) {
      const next = this.plan(all?.after ?? execution, event, origin);
      if (all && next) all = { before: execution, after: { ...next.after, version: all.after.version }, entries: [...all.entries, ...next.entries], effects: [...all.effects, ...next.effects] };
      else all ??= next;
    }
    return all;
  }

  /** Keeps evidence for an execution that has ended; its state stays. Undefined once there is too much of it. */
  planLate(execution: Execution, event: ExecutionEvent, origin: EventOrigin): Change | undefined {
    if (execution.eventCount >= MOST_EVENTS) return undefined;
    const after = { ...execution, version: execution.version + 1, eventCount: execution.eventCount + 1 };
    const entry = this.entry(after, event, execution.state, { ...origin, data: { evidence: event.kind, ...eventData(event), ...origin.data } });
    return { before: execution, after, entries: [{ ...entry, event: 'late_evidence' }], effects: [] };
  }

  /** Stores changes of one organization inside the caller's transaction; returns those that were stored, the others were changed meanwhile. */
  async store(db: Db, organizationId: string, changes: readonly Change[]): Promise<Change[]> {
    const stored = await new ExecutionRepository(db).store(organizationId, changes);
    if (stored.length > 0) db.afterCommit(() => this.options.onCommitted(stored));
    return stored;
  }

  /** Stores a new execution inside the caller's transaction. */
  async create(db: Db, execution: Execution, dedupeKey: string | undefined, origin: EventOrigin): Promise<void> {
    const { id: executionId, deviceId, state: to, enqueuedAt: time } = execution;
    const entry: NewLogEntry = { executionId, deviceId, sequence: 1, time, layer: 1, event: 'submitted', from: undefined, to, source: origin.source, data: origin.data ?? {} };
    await new ExecutionRepository(db).create(execution, dedupeKey, entry);
    const change: Change = { before: execution, after: execution, entries: [entry], effects: [] };
    db.afterCommit(() => this.options.onCommitted([change]));
  }

  private entry(after: Execution, event: ExecutionEvent, from: Execution['state'], origin: EventOrigin): NewLogEntry {
    const attempt = event.kind === 'dispatch' ? { attempt: after.attempts } : {};
    return {
      executionId: after.id,
      deviceId: after.deviceId,
      sequence: after.eventCount,
      time: this.options.clock.now(),
      layer: layerOf(event),
      event: event.kind,
      from,
      to: after.state,
      source: origin.source,
      data: { ...origin.data, ...attempt },
    };
  }
}
