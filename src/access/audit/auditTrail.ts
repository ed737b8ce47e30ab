import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import { newId } from '../../kernel/ids';
import type { Logger } from '../../kernel/logger';
import type { KeyIdentity } from '../../kernel/principal';
import { Attempts } from './attempts';
import { storable, type AuditFacts, type AuditOutcome, type AuditSubject } from './auditEvent';
import { AuditRepository } from './auditRepository';
import { AuditRetention } from './auditRetention';
import { Intents } from './intents';
import { resourceIn } from './organizationEvents';
import { openChains } from './openChains';
import { Sealer } from './sealer';
import { serverEvent } from './serverEvents';

/** What the trail is told of a call (rpc's AuditedCall). */
export interface CallFacts {
  readonly method: string;
  readonly requestId: string;
  readonly peer: string;
  /** Undefined: no key was recognised. */
  readonly key: KeyIdentity | undefined;
  /** The beginning of a well-formed key that was not recognised; else empty. */
  readonly keyPrefix: string;
  readonly resource: string;
  readonly fields: readonly string[];
  /** It is done to the installation, so no organization's chain holds it. */
  readonly ofInstallation?: boolean;
}

/** How a call ended. */
export interface CallEnd {
  readonly outcome: AuditOutcome;
  readonly reason: string;
  readonly resource: string;
}

/** A change that has begun. */
export interface BegunChange {
  readonly id: string;
  readonly subject: AuditSubject;
}

const SWEEP_MS = 1000;
const AN_HOUR = 3_600_000;
const A_DAY = 24 * 60 * 60_000;
/** A command that began so long ago is taken for one that was killed, in milliseconds. */
const LONGEST_COMMAND = 10 * 60_000;
const RECOVERED_AT_ONCE = 500;

/** The audit trail of a running server. */
export class AuditTrail {
  private readonly run = `server:${newId()}`;
  private readonly sealer: Sealer;
  private readonly intents: Intents;
  private readonly attempts: Attempts;
  private sweeping: NodeJS.Timeout | undefined;
  private readonly retention: AuditRetention;
  private readonly stopping = new AbortController();
  private headsToldAt: number;
  private lookedAfterAt: number;
  private lookingAfter: Promise<void> | undefined;

  constructor(private readonly deps: { readonly database: Database; readonly clock: Clock; readonly log: Logger; readonly retentionDays: number; readonly forgetting?: Clock }) {
    this.sealer = new Sealer(deps.database, deps.log);
    this.intents = new Intents(deps.database, (ids) => this.sealer.forget(ids));
    this.attempts = new Attempts((counted) => this.sealer.add({ ...counted, id: newId() }, false));
    this.retention = new AuditRetention({ ...deps, clock: deps.forgetting ?? deps.clock });
    this.headsToldAt = deps.clock.now();
    this.lookedAfterAt = deps.clock.now();
  }

  /** Seals what processes before this one began and never ended, and begins to count attempts by the minute. */
  async start(): Promise<void> {
    await openChains(this.deps.database, this.deps.clock);
    await this.recover();
    this.sweeping = setInterval(() => this.sweep(), SWEEP_MS).unref();
  }

  /** Something is about to be changed: resolves once nothing that is stored later can be on disk without that. Rejects if it cannot be written: then nothing may be changed. */
  async begin(call: CallFacts): Promise<BegunChange> {
    const subject = this.subjectOf(call);
    await this.intents.write({ subject, run: this.run });
    return { id: subject.id, subject };
  }

  /** How that ended; sealed soon after. What was refused or failed and left nothing behind is an attempt: many equal ones become one event. */
  end(change: { readonly id: string }, { outcome, reason, resource }: CallEnd): void {
    const { subject } = change as BegunChange;
    const event: AuditFacts = { ...subject, resource: resourceIn(subject.chain, resource), outcome, reason, count: 1 };
    const isAttempt = (outcome === 'refused' || outcome === 'failed') && event.resource === subject.resource; // another one is what the answer named: it is there
    if (!isAttempt || this.attempts.isFirst(event, this.deps.clock.monotonic())) this.sealer.add(event, true);
    else this.sealer.forget([subject.id]);
  }

  /** A call that was refused before anything began, or a stream that was opened; sealed soon after, many equal ones as one. */
  note(call: CallFacts, { outcome, reason, resource }: CallEnd): void {
    const subject = this.subjectOf(call);
    const event: AuditFacts = { ...subject, resource: resourceIn(subject.chain, resource), outcome, reason, count: 1 };
    if (this.attempts.isFirst(event, this.deps.clock.monotonic())) this.sealer.add(event, false);
  }

  /** Something that the server did by itself. */
  did(chain: string, method: string, resource: string): void {
    this.sealer.add(serverEvent(this.deps.clock.now(), chain, method, resource), false);
  }

  /** The same inside of a transaction: the chain has it if, and only if, that commits. */
  async didIn(db: Db, chain: string, method: string, resource: string): Promise<void> {
    const repository = new AuditRepository(db);
    const ends = await repository.append(chain, await repository.lock(chain), [serverEvent(this.deps.clock.now(), chain, method, resource)]);
    db.afterCommit(() => this.sealer.movedTo(chain, ends));
  }

  /** What became of the events since the server started: in their chains, not yet, and lost because too many waited. */
  figures(): { readonly sealed: number; readonly waiting: number; readonly lost: number } {
    return this.sealer.figures();
  }

  /** Resolves when all that had ended is in its chain. Rejects as the database does. */
  async flush(): Promise<void> {
    await this.sealer.flush();
  }

  /** Seals what nobody will tell the end of any more. At the start and every hour. */
  async recover(): Promise<void> {
    const { database, clock, log } = this.deps;
    const repository = new AuditRepository(database.db);
    for (let found = 0; ; ) {
      const abandoned = await repository.abandoned(this.run, clock.now() - LONGEST_COMMAND, RECOVERED_AT_ONCE);
      for (const subject of abandoned) this.sealer.add({ ...subject, outcome: 'unknown', reason: '', count: 1 }, true);
      await this.sealer.flush();
      found += abandoned.length;
      if (abandoned.length < RECOVERED_AT_ONCE) {
        if (found > 0) log.warn({ events: found }, 'audit.ends_unknown');
        return;
      }
    }
  }

  /** Seals what was abandoned and removes what is over its time; by itself every hour. */
  async lookAfter(): Promise<void> {
    this.lookedAfterAt = this.deps.clock.now();
    try {
      await this.recover();
      await this.retention.run(this.stopping.signal);
    } catch (err) {
      this.deps.log.warn({ err }, 'audit.upkeep_failed'); // the next hour tries again
    }
  }

  /** Seals the rest and notes the heads in the log. */
  async close(): Promise<void> {
    clearInterval(this.sweeping);
    this.stopping.abort();
    await this.lookingAfter;
    this.attempts.finish();
    await this.sealer.close();
    this.tellHeads();
  }

  private sweep(): void {
    this.attempts.sweep(this.deps.clock.monotonic());
    if (this.deps.clock.now() - this.headsToldAt >= A_DAY) this.tellHeads();
    if (this.deps.clock.now() - this.lookedAfterAt >= AN_HOUR) this.lookingAfter ??= this.lookAfter().finally(() => (this.lookingAfter = undefined));
  }

  /** The log holds where each chain was, against whoever could write a whole new one. */
  private tellHeads(): void {
    this.headsToldAt = this.deps.clock.now();
    for (const [chain, { lastSeq, lastHash }] of this.sealer.takeMoved()) this.deps.log.info({ organization_id: chain, head: `${lastSeq}:${lastHash}` }, 'audit.head');
  }

  private subjectOf({ method, requestId, peer, key, keyPrefix, resource, fields, ofInstallation }: CallFacts): AuditSubject {
    const chain = ofInstallation ? '' : (key?.organizationId ?? '');
    return {
      id: newId(),
      chain,
      at: this.deps.clock.now(),
      actor: 'key',
      keyId: key?.keyId,
      keyPrefix: key?.keyPrefix ?? keyPrefix,
      userId: key?.ownerUserId,
      peer: storable(peer),
      method: storable(method),
      resource: resourceIn(chain, resource),
      fields,
      requestId: storable(requestId),
    };
  }
}
