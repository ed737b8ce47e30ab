import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import type { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { sleep } from '../../kernel/sleep';
import { getCode } from '../translate';
import {
  describeHolder,
  getHolderDetails,
  databaseInUse,
  databaseInUseByOlderVersion,
  type LeaseHolder,
  type LockSession,
  earlierConnectionsOpen,
} from './leaseHolder';
import { destroySocket, SERVER_NAME_PREFIX } from './postgresConnections';

/**
 * The key of an advisory lock: any number that is not used elsewhere in this database. Versions up to 0.2 hold the lock
 * while they serve; later ones only while they acquire the lease.
 */
export const ACQUIRE_LOCK = 4_738_202;

/** How often a lease is renewed in its lifetime. */
const RENEWALS_PER_LEASE = 4;
const MIN_TIMEOUT_MS = 1000;
const MAX_POLL_INTERVAL_MS = 250;
const RECONNECT_INTERVAL_MS = 250;
const MAX_TERMINATION_MS = 10_000;
const TERMINATION_POLL_MS = 50;
// Error codes of PostgreSQL.
const TOO_MANY_CONNECTIONS = '53300';
const NO_SUCH_TABLE = '42P01';
const LEASE_CONDITION = "kind = 'database' and id = 'main'";

/** The options of a lease. */
interface LeaseOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** Host, port and database, for people. */
  readonly location: string;
  /** How long the lease lasts without a renewal, in milliseconds. */
  readonly leaseMs: number;
  readonly log: Logger;
  /** Called at most once: another server holds the database, so this process must stop. */
  readonly onLost: (error: DomainError) => void;
  /** Called when the database stops accepting new connections, and when the lease was lost. */
  readonly onUnreachable: () => void;
  /** Called after each renewal with its connection. */
  readonly onRenewed: (client: Client, name: string) => Promise<void>;
}

/**
 * The right to serve a PostgreSQL database: a row of the table `leases` with an expiry that this process extends, by
 * the clock of the database. The epoch of the row is the fencing token: a server that takes over an expired lease
 * increments it and terminates the connections of the previous holder, and a connection of a holder with an old epoch
 * fails to open. Connection failures never lose the lease.
 */
export class DatabaseLease {
  /** The application name of the holder's connections, by which a successor finds them. */
  readonly name = `${SERVER_NAME_PREFIX}${randomBytes(8).toString('hex')}`;
  /** Whether new connections to the database fail at the moment; a lost lease counts as such. */
  isUnreachable = false;
  private epoch = 0;
  private client: Client | undefined;
  private failures = 0;
  private readonly closing = new AbortController();
  private renewing = Promise.resolve();

  constructor(private readonly options: LeaseOptions) {}

  /**
   * Acquires the lease and keeps renewing it. Waits for the expiry of a lease that is not renewed. Throws
   * `database_in_use`, and the errors of the connection.
   */
  async acquire(): Promise<void> {
    const client = await this.connect();
    try {
      await this.waitAndAcquire(client);
      await this.terminateEarlierConnections(client);
    } catch (error) {
      // epoch > 0: the lease was acquired.
      if (this.epoch > 0) await this.expireLease(client).catch(() => {}); // the reason of the failure matters more
      destroySocket(client);
      throw error;
    }
    this.client = client;
    this.renewing = this.keepRenewing();
  }

  /**
   * SQL for each new connection of the holder. Its last statement returns `is_held`: whether the connection may be
   * used.
   */
  get sessionSql(): string {
    const leaseCheckSql = `select exists (select 1 from leases where ${LEASE_CONDITION} and epoch = ${this.epoch}) as is_held`;
    // In this order: a successor searches for the name after it took over.
    return `set application_name = '${this.name}'; ${leaseCheckSql}`;
  }

  /** Releases the lease, so that the next server does not wait for its expiry. Never throws. */
  async release(): Promise<void> {
    this.closing.abort();
    await this.renewing;
    if (!this.client) return;
    try {
      if (!this.isUnreachable) await this.expireLease(this.client);
    } catch (error) {
      this.options.log.debug(
        { err: error, message: 'Lease not released; it expires automatically' },
        'database.lease_not_released',
      );
    }
    destroySocket(this.client);
  }

  /** The time between two renewals. */
  private get intervalMs(): number {
    return this.options.leaseMs / RENEWALS_PER_LEASE;
  }

  /** The time limit of each statement on the connection of the lease. */
  private get timeoutMs(): number {
    return Math.max(MIN_TIMEOUT_MS, this.intervalMs);
  }

  /** Opens the connection of the lease, with short timeouts on both sides. */
  private async connect(): Promise<Client> {
    const client = new Client({
      connectionString: this.options.url,
      application_name: 'plantroom lease',
      keepAlive: true,
      connectionTimeoutMillis: this.timeoutMs,
      query_timeout: this.timeoutMs,
      // On the server's side too: a session whose client no longer exists must not hold the locks of the lease.
      statement_timeout: this.timeoutMs,
      lock_timeout: this.timeoutMs,
      idle_in_transaction_session_timeout: this.timeoutMs,
    });
    client.on('error', () => {}); // the current statement fails, or the next one
    await client.connect();
    return client;
  }

  /**
   * Acquires the lease as soon as no other server holds it. Waits for the lease of another server to expire; if that
   * server renews it in the meantime, it is alive, so this throws `database_in_use`. A server of version 0.2 or older
   * has no lease but the advisory lock: throws after waiting for one lease duration.
   */
  private async waitAndAcquire(client: Client): Promise<void> {
    const { location, leaseMs, log } = this.options;
    const deadline = performance.now() + leaseMs + this.timeoutMs;
    let firstHolder: LeaseHolder | undefined;
    while (!this.closing.signal.aborted) {
      const holder = await this.tryAcquire(client);
      if (holder === undefined) return;
      if (holder === 'locked') {
        if (performance.now() > deadline)
          throw databaseInUseByOlderVersion(location, await this.findLockSession(client));
      } else {
        const wasRenewed = firstHolder !== undefined && holder.expires !== firstHolder.expires;
        if (wasRenewed) throw databaseInUse(location, holder);
        if (!firstHolder) {
          log.info(
            { ...describeHolder(holder), message: 'Waiting for the lease of another server to expire' },
            'database.lease_waiting',
          );
        }
        firstHolder = holder;
      }
      await sleep(Math.min(MAX_POLL_INTERVAL_MS, this.intervalMs), this.closing.signal);
    }
  }

  /** Returns the session that holds the advisory lock; undefined: none. */
  private async findLockSession(client: Client): Promise<LockSession | undefined> {
    const { rows } = await client.query<LockSession>(
      `select a.pid, host(a.client_addr) as address, a.backend_start as since from pg_locks l join pg_stat_activity a on a.pid = l.pid
       where l.locktype = 'advisory' and l.objid = $1 and l.granted and a.datname = current_database()`,
      [ACQUIRE_LOCK],
    );
    return rows[0];
  }

  /**
   * Tries to acquire the lease in one transaction. Undefined: acquired. Otherwise the current holder, or `locked`:
   * another server is acquiring the lease at the moment, or a server of version 0.2 or older runs.
   */
  private async tryAcquire(client: Client): Promise<LeaseHolder | 'locked' | undefined> {
    await client.query('begin');
    const {
      rows: [lock],
    } = await client.query<{ locked: boolean }>('select pg_try_advisory_xact_lock($1) as locked', [ACQUIRE_LOCK]);
    const holder = lock?.locked === true ? await this.findHolder(client) : 'locked';
    if (holder !== undefined) {
      await client.query('rollback');
      return holder;
    }
    const {
      rows: [row],
    } = await client.query<{ epoch: string }>(
      `insert into leases as l (kind, id, holder, details, epoch, acquired_at, expires_at)
       values ('database', 'main', $1, $2, 1, clock_timestamp(), clock_timestamp() + $3 * interval '1 millisecond')
       on conflict (kind, id) do update set holder = excluded.holder, details = excluded.details, epoch = l.epoch + 1,
         acquired_at = excluded.acquired_at, expires_at = excluded.expires_at
       returning epoch`,
      [this.name, JSON.stringify(getHolderDetails()), this.options.leaseMs],
    );
    await client.query('commit');
    this.epoch = Number(row?.epoch);
    return undefined;
  }

  /**
   * Returns the holder of an unexpired lease and locks its row; undefined: nobody holds it. Creates the table if it is
   * missing, because the lease also guards the migrations, which create all other tables.
   */
  private async findHolder(client: Client): Promise<LeaseHolder | undefined> {
    const {
      rows: [table],
    } = await client.query<{ exists: boolean }>("select to_regclass('leases') is not null as exists");
    if (table?.exists !== true) await client.query(CREATE_LEASES_TABLE);
    const { rows } = await client.query<LeaseHolder>(
      `select details, acquired_at as since, expires_at::text as expires, extract(epoch from expires_at - clock_timestamp())::float8 * 1000 as "remainingMs"
       from leases where ${LEASE_CONDITION} and expires_at > clock_timestamp() for update`,
    );
    return rows[0];
  }

  /**
   * Terminates all connections of earlier holders and waits until they are closed, so that nothing of them is committed
   * after this server starts. Throws `database_in_use` if they stay open.
   */
  private async terminateEarlierConnections(client: Client): Promise<void> {
    const deadline = performance.now() + MAX_TERMINATION_MS;
    for (;;) {
      const { rowCount } = await client.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name like $1 and application_name <> $2`,
        [`${SERVER_NAME_PREFIX}%`, this.name],
      );
      if (rowCount === 0) return;
      if (performance.now() > deadline) throw earlierConnectionsOpen(this.options.location);
      await sleep(TERMINATION_POLL_MS, this.closing.signal);
    }
  }

  /** Makes the lease of this server expire now; does nothing if another server has taken it over. */
  private async expireLease(client: Client): Promise<void> {
    await client.query(`update leases set expires_at = clock_timestamp() where ${LEASE_CONDITION} and epoch = $1`, [
      this.epoch,
    ]);
  }

  /**
   * Renews the lease until `release`. After the first failure it tries again immediately with a new connection, then
   * every RECONNECT_INTERVAL_MS.
   */
  private async keepRenewing(): Promise<void> {
    const { signal } = this.closing;
    while (!signal.aborted) {
      await sleep(this.getRenewalDelayMs(), signal);
      if (signal.aborted) return;
      try {
        this.client ??= await this.connect();
        this.handleConnected();
        await this.renew(this.client);
      } catch (error) {
        this.handleFailure(error);
      }
    }
  }

  /** The time until the next renewal: no delay after the first failure, because a new connection may succeed. */
  private getRenewalDelayMs(): number {
    if (this.failures === 0) return this.intervalMs;
    return this.failures === 1 ? 0 : RECONNECT_INTERVAL_MS;
  }

  /**
   * Extends the lease. If its row has another epoch or was deleted, another server has taken over, and the lease is
   * lost.
   */
  private async renew(client: Client): Promise<void> {
    const values = [this.epoch, this.options.leaseMs];
    const sql = `update leases set expires_at = clock_timestamp() + $2 * interval '1 millisecond' where ${LEASE_CONDITION} and epoch = $1`;
    let isHeld: boolean;
    try {
      isHeld = (await client.query(sql, values)).rowCount === 1;
    } catch (error) {
      if (getCode(error) !== NO_SUCH_TABLE) throw error;
      isHeld = false; // another database, without this table, has replaced this one
    }
    if (!isHeld) {
      await this.handleLoss(client);
      return;
    }
    if (this.failures > 0)
      this.options.log.info({ failures: this.failures, message: 'Database lease renewed' }, 'database.lease_renewed');
    this.failures = 0;
    // The lease is renewed: what fails here is retried with the next renewal.
    await this.options
      .onRenewed(client, this.name)
      .catch((err: unknown) =>
        this.options.log.debug({ err, message: 'Lost connections not checked' }, 'database.connection_check_failed'),
      );
  }

  /**
   * A renewal failed. If not even a new connection could be opened, the database counts as unreachable, so that callers
   * fail immediately. The error `too many connections` does not count, because the database responded.
   */
  private handleFailure(error: unknown): void {
    const wasConnected = this.client !== undefined;
    if (this.client) destroySocket(this.client);
    this.client = undefined;
    if (this.closing.signal.aborted) return;
    this.failures += 1;
    if (this.failures === 1) {
      this.options.log.warn(
        { err: error, message: 'Database lease not renewed; trying again' },
        'database.lease_interrupted',
      );
    }
    if (wasConnected || this.isUnreachable || getCode(error) === TOO_MANY_CONNECTIONS) return;
    this.isUnreachable = true;
    this.options.log.error(
      { err: error, message: `PostgreSQL at ${this.options.location} cannot be reached` },
      'database.unreachable',
    );
    this.options.onUnreachable();
  }

  /** The connection works: the database does not count as unreachable any more. */
  private handleConnected(): void {
    if (!this.isUnreachable) return;
    this.isUnreachable = false;
    this.options.log.info({ message: `PostgreSQL at ${this.options.location} responds again` }, 'database.reached');
  }

  /** Another server took over: stops renewing, closes the connections, and reports the new holder to `onLost`. */
  private async handleLoss(client: Client): Promise<void> {
    const holder = await this.findHolder(client).catch(() => undefined); // the message is just shorter then
    const error = databaseInUse(this.options.location, holder);
    this.closing.abort();
    this.isUnreachable = true;
    this.options.log.error({ err: error, message: 'Another server took over the database' }, 'database.lease_lost');
    this.options.onUnreachable();
    this.options.onLost(error);
  }
}

const CREATE_LEASES_TABLE = `create table leases (
  kind text not null, -- of what is leased: database
  id text not null,
  holder text not null, -- the application name of its connections
  details text not null, -- JSON: host, pid and version of the holder
  epoch bigint not null, -- the fencing token: incremented by each acquisition
  acquired_at timestamptz not null, -- these by the clock of the database
  expires_at timestamptz not null,
  primary key (kind, id))`;
