import { hostname } from 'node:os';
import { DomainError } from '../../kernel/errors';
import { getProgramVersion } from '../../kernel/programVersion';

/** The holder of a database lease, as it is stored. */
export interface LeaseHolder {
  /** JSON: HolderDetails. */
  readonly details: string;
  /** When it acquired the lease, by the clock of the database. */
  readonly since: Date;
  /** When the lease expires unless it is renewed, as text of the database. */
  readonly expires: string;
  readonly remainingMs: number;
}

/** What a holder reports about itself. */
interface HolderDetails {
  readonly host: string;
  readonly pid: number;
  readonly version: string;
}

/** Returns what this process, as a holder, reports about itself. */
export function getHolderDetails(): HolderDetails {
  return { host: hostname(), pid: process.pid, version: getProgramVersion().version };
}

/** Returns the fields that describe the holder in a log line. */
export function describeHolder({ details, since, remainingMs }: LeaseHolder): Record<string, unknown> {
  return { ...readDetails(details), since: since.toISOString(), expires_in_ms: Math.round(remainingMs) };
}

/**
 * Creates the error `database_in_use`, which names the holder of the database, since when, and how to continue. Without
 * a holder: another server took over the lease of this one.
 */
export function databaseInUse(location: string, holder: LeaseHolder | undefined): DomainError {
  if (!holder) {
    return createConflict(
      `another server took over the database ${location}: stop that server first, then start this one again`,
    );
  }
  const { host, pid, version } = readDetails(holder.details);
  const holderText = `process ${pid} on ${host}, version ${version}, since ${holder.since.toISOString()}`;
  const seconds = Math.max(1, Math.ceil(holder.remainingMs / 1000));
  const message = `another server uses the database ${location} (${holderText}): stop that server first, or give this one its own database. If it is gone already, its lease expires in ${seconds} s: start again then`;
  return createConflict(message, { host, pid: String(pid), version, since: holder.since.toISOString() });
}

/**
 * Creates the error `database_in_use` for a server of a version without leases, and names its session if it is known.
 */
export function databaseInUseByOlderVersion(location: string, session: LockSession | undefined): DomainError {
  const holderText = session
    ? ` (PostgreSQL backend ${session.pid} from ${session.address ?? 'this machine'}, connected since ${session.since.toISOString()})`
    : '';
  const advice = session
    ? `; if it has died, terminate its session with: select pg_terminate_backend(${session.pid})`
    : '';
  return createConflict(
    `another server of version 0.2 or older uses the database ${location}${holderText}: stop that server first, or give this one its own database${advice}`,
  );
}

/** The session that holds the lock of servers up to 0.2. */
export interface LockSession {
  readonly pid: number;
  /** Null: a Unix socket. */
  readonly address: string | null;
  readonly since: Date;
}

/** Creates the error `database_in_use` for connections of the previous holder that could not be terminated. */
export function earlierConnectionsOpen(location: string): DomainError {
  const advice =
    "terminate them as an administrator of PostgreSQL (select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'plantroom server %'), then start again";
  return createConflict(`connections of an earlier server to the database ${location} are still open: ${advice}`);
}

function createConflict(message: string, metadata?: Record<string, string>): DomainError {
  return new DomainError('conflict', 'database_in_use', message, metadata ? { metadata } : {});
}

/** Parses the details that the holder stored about itself. */
function readDetails(details: string): HolderDetails {
  return JSON.parse(details) as HolderDetails;
}
