import { userInfo } from 'node:os';
import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import { isServerId, newId } from '../../kernel/ids';
import type { Logger } from '../../kernel/logger';
import { AuditChainRepository } from './auditChainRepository';
import { sanitizeForStorage, type AuditDetails, type AuditSubject } from './auditEvent';
import { AuditRepository } from './auditRepository';
import { AuditChainWriter } from './auditChainWriter';

/** The change that a command is about to make. */
export interface CommandChange {
  /**
   * The id of an existing organization, because any other name would create a new chain. Undefined: the change belongs
   * to no organization, or creates one.
   */
  readonly organizationId?: string | undefined;
  /** The resource as in the API: `api-keys/<id>`, or `api-keys` if the change creates one. */
  readonly resource?: string | undefined;
  /** The names of the fields that are set, as in the API. */
  readonly fields?: readonly string[] | undefined;
}

/** Records changes of the command line: each is in the audit trail before it starts, and its outcome after it ends. */
export class CommandLineAudit {
  private readonly processId = `command:${newId()}`;

  constructor(private readonly deps: { readonly database: Database; readonly clock: Clock; readonly log: Logger }) {}

  /**
   * Runs a command and records it. `method`: the words of the command (`keys revoke`). `getResource`: returns the
   * resource once the result is known. Throws what `work` throws. If the start cannot be recorded, throws that error
   * and does not run `work`.
   */
  async recordChange<T>(
    method: string,
    change: CommandChange,
    work: () => Promise<T>,
    getResource?: (result: T) => string,
  ): Promise<T> {
    const subject = this.createSubject(method, change);
    await this.deps.database.transaction(async (db) => await this.storePendingChanges(db, [subject]));
    return await this.recordOutcome(() => [subject], work, getResource);
  }

  /**
   * Runs a command that changes something that all organizations share, and records it in the chain of each existing
   * organization. `work` calls and awaits `begin` before its first change; repeated calls of `begin` return the same
   * promise. Work that never calls `begin` has changed nothing and is not recorded. Throws the error of `work`, or the
   * error of the database if the start cannot be recorded.
   */
  async recordChangeOfAll<T>(
    method: string,
    change: Pick<CommandChange, 'resource' | 'fields'>,
    work: (begin: () => Promise<void>) => Promise<T>,
  ): Promise<T> {
    let subjects: readonly AuditSubject[] = [];
    const beginAll = async (): Promise<void> => {
      subjects = await this.deps.database.transaction(async (db) => {
        const allSubjects = (await new AuditChainRepository(db).listOrganizationIds()).map((organizationId) =>
          this.createSubject(method, { ...change, organizationId }),
        );
        await this.storePendingChanges(db, allSubjects);
        return allSubjects;
      });
    };
    let started: Promise<void> | undefined;
    return await this.recordOutcome(
      () => subjects,
      async () => await work(async () => await (started ??= beginAll())),
    );
  }

  /** Stores the changes as pending before they start. */
  private async storePendingChanges(db: Db, subjects: readonly AuditSubject[]): Promise<void> {
    await new AuditRepository(db).insertPendingChanges(
      subjects.map((subject) => ({ subject, processId: this.processId })),
    );
  }

  /** Runs the work and records its outcome. `getSubjects`: returns the changes that have started when the work ends. */
  private async recordOutcome<T>(
    getSubjects: () => readonly AuditSubject[],
    work: () => Promise<T>,
    getResource?: (result: T) => string,
  ): Promise<T> {
    const appendEvents = async (outcome: AuditDetails['outcome'], reason: string, resource?: string): Promise<void> => {
      const writer = new AuditChainWriter(this.deps.database, this.deps.log);
      for (const subject of getSubjects())
        writer.addOutcome({
          ...subject,
          resource: sanitizeResource(resource ?? subject.resource),
          outcome,
          reason,
          count: 1,
        });
      await writer.close(); // if it cannot be written, the server later records the outcome `unknown`
    };
    let result: T;
    try {
      result = await work();
    } catch (error) {
      await appendEvents(toOutcome(error), error instanceof DomainError ? error.reason : 'internal');
      throw error;
    }
    await appendEvents('succeeded', '', getResource?.(result));
    return result;
  }

  /** Returns what the command is about to change and who runs it, with a new event id. */
  private createSubject(
    method: string,
    { organizationId = '', resource = '', fields = [] }: CommandChange,
  ): AuditSubject {
    const id = newId();
    return {
      id,
      chain: organizationId,
      at: this.deps.clock.now(),
      actor: 'command_line',
      keyId: undefined,
      keyPrefix: '',
      userId: undefined,
      peer: sanitizeForStorage(getUserName()),
      method,
      resource: sanitizeResource(resource),
      fields,
      requestId: id,
    };
  }
}

/** The kinds of errors for which the server or the database is responsible, not the command. */
const FAILURE_KINDS = new Set(['internal', 'unavailable']);

/**
 * Returns the outcome for an error: `refused` if the command was not allowed or not valid, `unknown` if the change may
 * be stored, otherwise `failed`.
 */
function toOutcome(error: unknown): AuditDetails['outcome'] {
  if (!(error instanceof DomainError)) return 'failed';
  if (error.isInDoubt) return 'unknown';
  return FAILURE_KINDS.has(error.kind) ? 'failed' : 'refused';
}

/**
 * Returns the resource up to the first segment that is neither an id nor a collection name: an invalid segment may be
 * an API key that somebody typed.
 */
function sanitizeResource(resource: string): string {
  const segments = resource.split('/');
  const invalidIndex = segments.findIndex((segment, index) => !isValidSegment(segment, index));
  return segments.slice(0, invalidIndex === -1 ? undefined : invalidIndex).join('/');
}

/** Whether a segment is an id or a collection name. Collection names and ids alternate. */
function isValidSegment(segment: string, index: number): boolean {
  const canBeCollection = index % 2 === 0;
  return isServerId(segment) || (canBeCollection && /^[a-z-]+$/.test(segment));
}

/** Returns the name of the operating system user; `uid <number>` if the user has no name. */
function getUserName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
