import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';

/** A number that nobody else uses in this database; not the one of migrations, which commands take too. */
export const OWNER_LOCK = 4_738_202;

const RETAKE_MS = 10_000;
const BETWEEN_TRIES_MS = 250;

/** What holding a database needs. */
export interface OwnershipOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** Host, port and database, for people. */
  readonly location: string;
  readonly log: Logger;
  /** Called at most once: this process does not hold the database any more and must not serve on. */
  readonly onLost: (error: DomainError) => void;
}

/** Keeps a second server off the database: a lock that lives as long as a connection of its own, which is made anew when it breaks. */
export class PostgresOwnership {
  private client: Client | undefined;
  private retaking: Promise<void> | undefined;
  private isClosed = false;

  constructor(private readonly options: OwnershipOptions) {}

  /** Throws `database_in_use`, and what the connection throws. */
  async take(): Promise<void> {
    const client = new Client({ connectionString: this.options.url, application_name: 'plantroom owner', keepAlive: true, connectionTimeoutMillis: 3000 });
    client.on('error', (error) => this.options.log.debug({ err: error }, 'database.ownership_connection_failed')); // its end says the rest
    try {
      await client.connect();
      const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [OWNER_LOCK]);
      if (rows[0]?.taken !== true) throw inUse(this.options.location);
    } catch (error) {
      await client.end().catch(() => {}); // why it failed matters more
      throw error;
    }
    this.client = client;
    client.once('end', () => this.broken());
  }

  /** Gives the database free. */
  async close(): Promise<void> {
    this.isClosed = true;
    await this.retaking;
    await this.client?.end();
  }

  private broken(): void {
    if (this.isClosed) return;
    this.client = undefined;
    this.options.log.warn({}, 'database.ownership_interrupted');
    this.retaking = this.retake();
  }

  /** Never throws. Somebody else who holds it is no reason to wait: both would serve meanwhile. */
  private async retake(): Promise<void> {
    const deadline = AbortSignal.timeout(RETAKE_MS);
    while (!this.isClosed) {
      try {
        return await this.take();
      } catch (error) {
        if (error instanceof DomainError) return this.lose(error);
        if (deadline.aborted) return this.lose(outOfReach(this.options.location, error));
      }
      await pause(BETWEEN_TRIES_MS);
    }
  }

  private lose(error: DomainError): void {
    this.options.log.error({ err: error }, 'database.ownership_lost');
    this.options.onLost(error);
  }
}

function inUse(location: string): DomainError {
  return new DomainError('conflict', 'database_in_use', `another server uses the database ${location}; stop it, or give this one a database of its own`);
}

function outOfReach(location: string, cause: unknown): DomainError {
  return new DomainError('unavailable', 'database_unavailable', `the database ${location} was out of reach for ${RETAKE_MS / 1000} s, so another server may have taken it; start again when it answers`, { cause });
}
