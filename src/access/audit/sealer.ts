import type { Database, Db } from '../../database';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { AuditRepository } from './auditRepository';
import { reducedForm, type AuditFacts, type ChainEnds } from './auditEvent';
import { oneByOne } from './oneByOne';
import { withCopy } from './organizationEvents';
import { serverEvent } from './serverEvents';

/** What the sealing is bounded by. */
export interface SealerLimits {
  /** How long an event waits for others, in milliseconds. */
  readonly soonMs: number;
  /** How long after a failure it tries again, in milliseconds. */
  readonly againMs: number;
  /** How often the database may refuse a transaction before its events are looked at one by one. */
  readonly mostRefusals: number;
  /** Events of one transaction. */
  readonly atOnce: number;
  /** Attempts that wait; those beyond are counted in the log alone. */
  readonly mostNotes: number;
  /** Ends that wait; of those beyond the start of the next server says `unknown`. */
  readonly mostEnds: number;
}

const LIMITS: SealerLimits = { soonMs: 50, againMs: 1000, mostRefusals: 3, atOnce: 96, mostNotes: 10_000, mostEnds: 100_000 };

/** An event that waits for its place in a chain. */
interface Waiting {
  readonly event: AuditFacts;
  /** Its beginning is on disk, and is to be forgotten together with this. */
  readonly begun: boolean;
  /** What of it the database takes; undefined: all of it. */
  readonly sealedAs?: AuditFacts;
}

const SET_ASIDE = 'audit set aside';

/** Gives events their places in their chains, many in one transaction, in the order in which they come; keeps them while the database is away. */
export class Sealer {
  private waiting: Waiting[] = [];
  private forgotten: string[] = [];
  private notes = 0;
  private taken = 0;
  private sealed = 0;
  /** Since the log was told of it, and since the server started. */
  private lost = 0;
  private allLost = 0;
  private running: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** How often in a row the database refused what it was given. */
  private refusals = 0;
  /** The transaction before may be on disk all the same. */
  private inDoubt = false;
  private failing = false;
  private closed = false;
  private readonly moved = new Map<string, ChainEnds>();

  constructor(
    private readonly database: Database,
    private readonly log: Logger,
    private readonly limits = LIMITS,
  ) {}

  /** An event that is to be sealed soon. `begun`: its beginning is on disk. */
  add(event: AuditFacts, begun: boolean): void {
    const isFull = begun ? this.waiting.length - this.notes >= this.limits.mostEnds : this.notes >= this.limits.mostNotes;
    if (isFull) {
      this.lost += 1;
      this.allLost += 1;
      return;
    }
    this.waiting.push({ event, begun });
    this.taken += 1;
    if (!begun) this.notes += 1;
    this.soon(this.limits.soonMs);
  }

  /** Changes that did not begin after all. */
  forget(ids: readonly string[]): void {
    this.forgotten.push(...ids);
    this.soon(this.limits.soonMs);
  }

  /** What became of the events so far: in their chains, not yet, and lost because too many waited. */
  figures(): { readonly sealed: number; readonly waiting: number; readonly lost: number } {
    return { sealed: this.sealed, waiting: this.waiting.length, lost: this.allLost };
  }

  /** Resolves when all that was added by now is in its chain. Rejects as the database does. */
  async flush(): Promise<void> {
    const until = this.taken;
    while (this.sealed < until) await this.step();
  }

  /** A chain has a new head that was not written here. */
  movedTo(chain: string, ends: ChainEnds): void {
    this.moved.set(chain, ends);
  }

  /** The heads of the chains that were moved since it was last asked. */
  takeMoved(): ReadonlyMap<string, ChainEnds> {
    const moved = new Map(this.moved);
    this.moved.clear();
    return moved;
  }

  /** Seals what waits, once; what cannot be sealed is lost, and the log says so. */
  async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.timer);
    try {
      await this.flush();
      if (this.forgotten.length > 0) await this.step();
    } catch (err) {
      this.log.error({ err, events: this.waiting.length }, 'audit.not_sealed');
    }
  }

  private soon(afterMs: number): void {
    if (this.timer || this.running || this.closed) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.sealAll();
    }, afterMs).unref();
  }

  private async sealAll(): Promise<void> {
    try {
      while (this.waiting.length > 0 || this.forgotten.length > 0) await this.step();
    } catch {
      this.soon(this.limits.againMs); // the log has said it
    }
  }

  private step(): Promise<void> {
    this.running ??= this.seal().finally(() => (this.running = undefined));
    return this.running;
  }

  private async seal(): Promise<void> {
    if (this.refusals >= this.limits.mostRefusals) return await this.sealAlone();
    const batch = this.waiting.slice(0, this.limits.atOnce);
    const forgotten = this.forgotten.slice(0, this.limits.atOnce);
    try {
      const moved = await this.database.transaction(async (db) => await this.write(db, batch, forgotten));
      for (const [chain, ends] of moved) this.moved.set(chain, ends);
    } catch (error) {
      if (!isAway(error)) this.refusals += 1;
      throw this.failed(error);
    }
    this.forgotten = this.forgotten.slice(forgotten.length);
    this.waiting = this.waiting.slice(batch.length);
    this.done(batch);
    this.recovered();
  }

  /**
   * The database refuses something of what waits, again and again: each event of the next ones alone, as it is or reduced. What it takes
   * neither way is set aside if it takes another; if it takes nothing, that is not the fault of an event, and all goes on waiting.
   */
  private async sealAlone(): Promise<void> {
    const batch = this.waiting.slice(0, this.limits.atOnce);
    const { taken, refused, away } = await oneByOne(batch, async (one) => await this.tryAlone(one), isAway);
    this.waiting = this.waiting.slice(batch.length);
    this.done([...taken]);
    this.waiting = [...batch.filter((one) => !taken.has(one) && !refused.has(one)), ...this.waiting];
    const isTheirFault = away === undefined && (taken.size > 0 || refused.size === 0 || (await this.takesAnything()));
    if (isTheirFault) {
      for (const [one, error] of refused) this.setAside(one, error);
      return this.recovered();
    }
    this.waiting.push(...refused.keys()); // those behind them get their turn
    throw this.failed(away ?? refused.values().next().value);
  }

  /** Seals an event, else a reduced form of it. Undefined: it is sealed. */
  private async tryAlone(one: Waiting): Promise<unknown> {
    const error = await this.sealOne(one);
    if (error === undefined || isAway(error)) return error;
    const reduced = await this.sealOne({ ...one, sealedAs: reducedForm(one.event) });
    if (reduced === undefined) this.log.error({ err: error, event_id: one.event.id, method: one.event.method, request_id: one.event.requestId }, 'audit.event_reduced');
    return reduced;
  }

  private async sealOne(one: Waiting): Promise<unknown> {
    try {
      const moved = await this.database.transaction(async (db) => await this.write(db, [one], []));
      for (const [chain, ends] of moved) this.moved.set(chain, ends);
      return undefined;
    } catch (error) {
      return error ?? new Error('the database refused an event');
    }
  }

  /** Whether the database takes an event of the server, of the chain that belongs to none. */
  private async takesAnything(): Promise<boolean> {
    return (await this.sealOne({ event: serverEvent(this.waiting[0]?.event.at ?? 0, '', SET_ASIDE, ''), begun: false })) === undefined;
  }

  /** The log holds it. If its beginning is on disk it stays there, and the next start of the server tries it again, as unknown. */
  private setAside(one: Waiting, err: unknown): void {
    this.done([one]);
    this.log.error({ err, event: one.event }, 'audit.event_not_sealed');
  }

  private done(batch: readonly Waiting[]): void {
    this.notes -= batch.filter(({ begun }) => !begun).length;
    this.sealed += batch.length;
  }

  private failed(error: unknown): unknown {
    this.inDoubt = true;
    if (!this.failing) this.log.error({ err: error }, 'audit.sealing_failed');
    this.failing = true;
    if (!this.closed) this.soonAfter();
    return error;
  }

  /** Whoever called step by a flush does not try again; the timer does. */
  private soonAfter(): void {
    setImmediate(() => this.soon(this.limits.againMs));
  }

  private recovered(): void {
    this.inDoubt = false;
    this.refusals = 0;
    if (this.failing) this.log.info({ lost: this.lost }, 'audit.sealing_again');
    else if (this.lost > 0) this.log.error({ lost: this.lost }, 'audit.events_lost');
    this.failing = false;
    this.lost = 0;
  }

  private async write(db: Db, batch: readonly Waiting[], forgotten: readonly string[]): Promise<Map<string, ChainEnds>> {
    const repository = new AuditRepository(db);
    const begun = await repository.endPending([...batch.filter((one) => one.begun).map(({ event }) => event.id), ...forgotten]);
    // An end whose beginning is gone may be a second one, of which the first counts; if no chain has the first, somebody removed the beginning.
    const doubtful = batch.filter((one) => (one.begun ? !begun.has(one.event.id) : this.inDoubt)).map(({ event }) => event.id);
    const known = doubtful.length > 0 ? await repository.known(doubtful) : new Set<string>();
    const ended = batch.filter(({ event: { id } }) => !known.has(id) && known.add(id));
    for (const { begun: hadBegun, event } of ended) if (hadBegun && !begun.has(event.id)) this.log.error({ event_id: event.id, method: event.method, request_id: event.requestId }, 'audit.beginning_gone');
    const chains = Map.groupBy(ended.flatMap(({ event, sealedAs }) => withCopy(sealedAs ?? event)), ({ chain }) => chain);
    const moved = new Map<string, ChainEnds>();
    // In one order, so that two who seal at once do not wait for each other.
    for (const chain of [...chains.keys()].toSorted()) {
      moved.set(chain, await repository.append(chain, await repository.lock(chain), chains.get(chain) ?? []));
    }
    return moved;
  }
}

/** Whether an error says nothing of what was to be stored: the database is away, busy or full. */
function isAway(error: unknown): boolean {
  return error instanceof DomainError;
}
