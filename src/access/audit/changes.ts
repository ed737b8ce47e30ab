import { userInfo } from 'node:os';
import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import { isGivenId, newId } from '../../kernel/ids';
import type { Logger } from '../../kernel/logger';
import { AuditChainRepository } from './auditChainRepository';
import { storable, type AuditFacts, type AuditSubject } from './auditEvent';
import { AuditRepository } from './auditRepository';
import { Sealer } from './sealer';

/** What a command is about to change. */
export interface CommandChange {
  /** One that is there: a name of its own would begin a chain of its own. Undefined: it belongs to no organization, or to one that is made by it. */
  readonly organizationId?: string | undefined;
  /** As over the API: `api-keys/<id>`, or `api-keys` for one that is made by it. */
  readonly resource?: string | undefined;
  /** The names of the fields that are given, as the API calls them. */
  readonly fields?: readonly string[] | undefined;
}

/** Changes that come from no call: each is in the audit trail before it begins, and its end after it. */
export class CommandLineAudit {
  private readonly run = `command:${newId()}`;

  constructor(private readonly deps: { readonly database: Database; readonly clock: Clock; readonly log: Logger }) {}

  /**
   * Does work of the command line, which `method` names by its words (`keys revoke`). `made`: the resource as it is known at the end.
   * Throws what the work throws; where the beginning cannot be written down, that, and nothing is done.
   */
  async change<T>(method: string, change: CommandChange, work: () => Promise<T>, made?: (result: T) => string): Promise<T> {
    const subject = this.subjectOf(method, change);
    await this.deps.database.transaction(async (db) => await this.begin(db, [subject]));
    return await this.toItsEnd(() => [subject], work, made);
  }

  /**
   * Does work of the command line on what all organizations have in common: it is in the trail of each that there is. `work` waits for `begin`
   * before the first thing that it changes, and may ask again; work that never asked changed nothing and is in no trail. Throws as `change` does.
   */
  async changeOfAll<T>(method: string, change: Pick<CommandChange, 'resource' | 'fields'>, work: (begin: () => Promise<void>) => Promise<T>): Promise<T> {
    let subjects: readonly AuditSubject[] = [];
    const beginAll = async (): Promise<void> => {
      subjects = await this.deps.database.transaction(async (db) => {
        const all = (await new AuditChainRepository(db).organizations()).map((organizationId) => this.subjectOf(method, { ...change, organizationId }));
        await this.begin(db, all);
        return all;
      });
    };
    let begun: Promise<void> | undefined;
    return await this.toItsEnd(() => subjects, async () => await work(async () => await (begun ??= beginAll())));
  }

  private async begin(db: Db, subjects: readonly AuditSubject[]): Promise<void> {
    await new AuditRepository(db).begin(subjects.map((subject) => ({ subject, run: this.run })));
  }

  /** `begun`: what has begun by the end of the work, and is to get its end. */
  private async toItsEnd<T>(begun: () => readonly AuditSubject[], work: () => Promise<T>, made?: (result: T) => string): Promise<T> {
    const end = async (outcome: AuditFacts['outcome'], reason: string, resource?: string): Promise<void> => {
      const sealer = new Sealer(this.deps.database, this.deps.log);
      for (const subject of begun()) sealer.add({ ...subject, resource: recorded(resource ?? subject.resource), outcome, reason, count: 1 }, true);
      await sealer.close(); // what it cannot write, the server will say to be unknown
    };
    let result: T;
    try {
      result = await work();
    } catch (error) {
      await end(outcomeOf(error), error instanceof DomainError ? error.reason : 'internal');
      throw error;
    }
    await end('succeeded', '', made?.(result));
    return result;
  }

  private subjectOf(method: string, { organizationId = '', resource = '', fields = [] }: CommandChange): AuditSubject {
    const id = newId();
    return { id, chain: organizationId, at: this.deps.clock.now(), actor: 'command_line', keyId: undefined, keyPrefix: '', userId: undefined, peer: storable(userName()), method, resource: recorded(resource), fields, requestId: id };
  }
}

const NOBODY_REFUSED = new Set(['internal', 'unavailable']);

function outcomeOf(error: unknown): AuditFacts['outcome'] {
  if (!(error instanceof DomainError)) return 'failed';
  if (error.isInDoubt) return 'unknown';
  return NOBODY_REFUSED.has(error.kind) ? 'failed' : 'refused';
}

/** A resource up to the first step that is neither an id nor the word for a collection: what somebody typed there may be a key. */
function recorded(resource: string): string {
  const steps = resource.split('/');
  const wrong = steps.findIndex((step, place) => !isGivenId(step) && (place % 2 === 1 || !/^[a-z-]+$/.test(step)));
  return steps.slice(0, wrong === -1 ? undefined : wrong).join('/');
}

/** Who runs this process; a machine can have no name for it. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
