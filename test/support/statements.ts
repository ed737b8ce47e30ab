import { Client } from 'pg';
import { SqliteConnection } from '../../src/database/engines/sqliteConnection';

// Statements that the server runs periodically, independent of calls.
const BY_ITSELF = /^\s*(?:begin|commit|rollback|savepoint|release|set |pragma)|audit_|last_used/i;

/**
 * Records the SQL statements that the servers of this process run, on either engine and in order, without periodic
 * ones.
 */
export class Statements {
  private readonly recorded: string[] = [];
  private readonly undo: () => void;

  constructor() {
    const note = (sql: unknown): void => {
      if (typeof sql === 'string' && !BY_ITSELF.test(sql)) this.recorded.push(sql);
    };
    const undoSqlite = watchMethod(SqliteConnection.prototype, 'run', note);
    const undoPostgres = watchMethod(Client.prototype, 'query', (query) =>
      note(typeof query === 'string' ? query : (query as { text?: unknown } | undefined)?.text),
    );
    this.undo = () => {
      undoSqlite();
      undoPostgres();
    };
  }

  /** Returns the statements that ran during the work. */
  async of(work: () => Promise<unknown>): Promise<readonly string[]> {
    this.recorded.length = 0;
    await work();
    return this.recorded.splice(0);
  }

  /** Stops recording. */
  stop(): void {
    this.undo();
  }
}

/** Reports the first argument of each call of a method. Returns a function that stops this. */
function watchMethod(prototype: object, name: string, report: (first: unknown) => void): () => void {
  const methods = prototype as Record<string, (this: unknown, ...given: unknown[]) => unknown>;
  const method = methods[name] as (this: unknown, ...given: unknown[]) => unknown;
  methods[name] = function reportCall(this: unknown, ...given: unknown[]) {
    report(given[0]);
    return method.apply(this, given);
  };
  return () => void (methods[name] = method);
}
