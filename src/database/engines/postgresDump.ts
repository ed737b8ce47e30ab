import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { DomainError } from '../../kernel/errors';
import { codeOf, messageOf } from '../../kernel/thrown';

/** What is dumped, and where to. */
export interface PostgresDump {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** The file that is made; it must not be there yet. */
  readonly file: string;
  /** The snapshot that a transaction exported. */
  readonly snapshot: string;
  readonly signal?: AbortSignal | undefined;
}

const PROGRAM = 'pg_dump';

/** Throws `pg_dump_missing` if there is no pg_dump that can dump a server of this version (`18.1`). */
export async function requireDump(serverVersion: string): Promise<void> {
  const needed = Number.parseInt(serverVersion, 10);
  let said: string;
  try {
    said = (await run(PROGRAM, ['--version'], { env: process.env, signal: undefined })).trim();
  } catch (error) {
    throw dumpMissing(needed, codeOf(error) === 'ENOENT' ? 'and there is none on PATH' : `and the one on PATH cannot be started (${messageOf(error)})`, error);
  }
  const [, found = '0'] = /(\d+)[.\d]*/.exec(said) ?? [];
  if (Number(found) < needed) throw dumpMissing(needed, `and the one on PATH is older (${said})`);
}

/**
 * Dumps the database as it is in the snapshot, in pg_dump's own format; not compressed, for the whole backup is. Written by this process, so that a
 * pg_dump whose backup was killed ends with its next byte. The password is in no list of processes. Throws `database_dump_failed`, and the errors of the file system.
 */
export async function dump({ url, file, snapshot, signal }: PostgresDump): Promise<void> {
  const args = ['--format=custom', '--compress=0', '--no-owner', '--no-privileges', '--no-password', `--snapshot=${snapshot}`];
  const target = createWriteStream(file, { flags: 'wx', mode: 0o600 });
  try {
    await run(PROGRAM, args, { env: { ...process.env, ...libpqVariables(url) }, signal, take: async (said) => await pipeline(said, target) });
  } catch (error) {
    if (signal?.aborted === true || (error as { syscall?: string }).syscall === 'write') throw error;
    throw new DomainError('unavailable', 'database_dump_failed', `pg_dump could not copy the database: ${messageOf(error)}`, { cause: error });
  }
}

/** Throws `database_dump_failed` unless the pg_restore on PATH can read all of a dump. Where there is none, or one that is older than pg_dump, nobody looks. */
export async function requireReadable(file: string, signal?: AbortSignal): Promise<void> {
  try {
    await run('pg_restore', ['--file=/dev/null', file], { env: process.env, signal });
  } catch (error) {
    if (signal?.aborted === true) throw error;
    if (codeOf(error) === 'ENOENT' || messageOf(error).includes('unsupported version')) return;
    throw new DomainError('unavailable', 'database_dump_failed', `what pg_dump wrote cannot be restored: ${messageOf(error)}`, { cause: error });
  }
}

interface RunOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal | undefined;
  /** Takes what it writes to stdout; undefined: it is the result. */
  readonly take?: (said: Readable) => Promise<void>;
}

async function run(program: string, args: readonly string[], { env, signal, take }: RunOptions): Promise<string> {
  const child = spawn(program, [...args], { env, stdio: ['ignore', 'pipe', 'pipe'], ...(signal && { signal }) });
  const said = take ? take(child.stdout).then(() => '') : text(child.stdout);
  const [result, complained, [code]] = await Promise.all([said, text(child.stderr), once(child, 'close')]);
  if (code !== 0) throw new Error(complained.trim().split('\n').slice(-3).join(' ') || `it ended with ${String(code)}`);
  return result;
}

// The parameters of an address that libpq reads from variables.
const VARIABLES: Readonly<Record<string, string>> = { host: 'PGHOST', sslmode: 'PGSSLMODE', sslrootcert: 'PGSSLROOTCERT', sslcert: 'PGSSLCERT', sslkey: 'PGSSLKEY', options: 'PGOPTIONS' };

/** The same address as variables of libpq, which other users of the machine cannot see, unlike arguments. */
export function libpqVariables(url: string): Record<string, string> {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  const parts = { PGHOST: hostname.replaceAll(/[[\]]/g, ''), PGPORT: port, PGUSER: decodeURIComponent(username), PGPASSWORD: decodeURIComponent(password), PGDATABASE: decodeURIComponent(pathname.slice(1)) };
  const given = Object.entries(parts).filter(([, value]) => value !== '');
  const more = [...searchParams].flatMap(([name, value]) => (VARIABLES[name] === undefined ? [] : [[VARIABLES[name], value]]));
  return Object.fromEntries([...given, ...more]) as Record<string, string>;
}

function dumpMissing(needed: number, found: string, cause?: unknown): DomainError {
  const byHand = 'or copy it by hand: pg_dump --format=custom --file=plantroom.pgdump followed by the address of the database, and beside it the folders media and tls and the file secrets.key of the data folder';
  return new DomainError('conflict', 'pg_dump_missing', `a backup of PostgreSQL ${needed} needs its program pg_dump of version ${needed} or newer, ${found}; install PostgreSQL's client programs (Debian: apt install postgresql-client-${needed}), ${byHand}`, { cause });
}
