import { Client } from 'pg';
import { SqliteConnection } from '../../src/database/engines/sqliteConnection';

// What the server does now and then by itself, whatever is asked.
const BY_ITSELF = /^\s*(?:begin|commit|rollback|savepoint|release|set |pragma)|audit_|last_used/i;

/** The SQL statements that the servers of this process run, on either engine, in their order; without those that a server runs by itself. */
export class Statements {
  private readonly seen: string[] = [];
  private readonly undo: () => void;

  constructor() {
    const note = (sql: unknown): void => {
      if (typeof sql === 'string' && !BY_ITSELF.test(sql)) this.seen.push(sql);
    };
    const undoSqlite = watched(SqliteConnection.prototype, 'run', note);
    const undoPostgres = watched(Client.prototype, 'query', (asked) => note(typeof asked === 'string' ? asked : (asked as { text?: unknown } | undefined)?.text));
    this.undo = () => {
      undoSqlite();
      undoPostgres();
    };
  }

  /** Those that ran while something was done. */
  async of(work: () => Promise<unknown>): Promise<readonly string[]> {
    this.seen.length = 0;
    await work();
    return this.seen.splice(0);
  }

  /** Counts no more. */
  stop(): void {
    this.undo();
  }
}

/** Tells of the first value of each call of a method. Returns how to end that. */
function watched(prototype: object, name: string, tell: (first: unknown) => void): () => void {
  const methods = prototype as Record<string, (this: unknown, ...given: unknown[]) => unknown>;
  const method = methods[name] as (this: unknown, ...given: unknown[]) => unknown;
  methods[name] = function told(this: unknown, ...given: unknown[]) {
    tell(given[0]);
    return method.apply(this, given);
  };
  return () => void (methods[name] = method);
}
