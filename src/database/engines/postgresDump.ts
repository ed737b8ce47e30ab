import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { DomainError } from '../../kernel/errors';
import { getCode, formatMessage } from '../../kernel/errorUtils';

/** What to dump, and where to. */
interface PostgresDump {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** The file to create; it must not exist yet. */
  readonly file: string;
  /** The snapshot that a transaction exported. */
  readonly snapshot: string;
  readonly signal?: AbortSignal | undefined;
}

const PG_DUMP = 'pg_dump';

/** Throws `pg_dump_missing` if there is no pg_dump that can dump a server of this version (`18.1`). */
export async function assertPgDumpAvailable(serverVersion: string): Promise<void> {
  const requiredVersion = Number.parseInt(serverVersion, 10);
  let output: string;
  try {
    output = (await runProgram(PG_DUMP, ['--version'], { env: process.env, signal: undefined })).trim();
  } catch (error) {
    throw dumpMissing(
      requiredVersion,
      getCode(error) === 'ENOENT'
        ? 'and there is none on PATH'
        : `and the one on PATH cannot be started (${formatMessage(error)})`,
      error,
    );
  }
  const [, foundVersion = '0'] = /(\d+)[.\d]*/.exec(output) ?? []; // the major version
  if (Number(foundVersion) < requiredVersion)
    throw dumpMissing(requiredVersion, `and the one on PATH is older (${output})`);
}

/**
 * Dumps the database as it is in the snapshot, in pg_dump's custom format; uncompressed, because the whole backup is
 * compressed. This process writes the file, so that a pg_dump whose backup was killed exits with its next byte. The
 * password does not appear in the process list. Throws `database_dump_failed`, and the errors of the file system.
 */
export async function runPgDump({ url, file, snapshot, signal }: PostgresDump): Promise<void> {
  const args = [
    '--format=custom',
    '--compress=0',
    '--no-owner',
    '--no-privileges',
    '--no-password',
    '--exclude-table=leases',
    `--snapshot=${snapshot}`,
  ];
  const target = createWriteStream(file, { flags: 'wx', mode: 0o600 });
  try {
    await runProgram(PG_DUMP, args, {
      env: { ...process.env, ...getLibpqVariables(url) },
      signal,
      consumeOutput: async (output) => await pipeline(output, target),
    });
  } catch (error) {
    const isTargetError = (error as { syscall?: string }).syscall === 'write'; // for example a full disk
    if (signal?.aborted === true || isTargetError) throw error;
    throw new DomainError(
      'unavailable',
      'database_dump_failed',
      `pg_dump could not copy the database: ${formatMessage(error)}`,
      { cause: error },
    );
  }
}

/**
 * Throws `database_dump_failed` unless the pg_restore on PATH can read the whole dump. Skipped if there is none, or if
 * it is older than pg_dump.
 */
export async function assertDumpReadable(file: string, signal?: AbortSignal): Promise<void> {
  try {
    await runProgram('pg_restore', ['--file=/dev/null', file], { env: process.env, signal });
  } catch (error) {
    if (signal?.aborted === true) throw error;
    if (getCode(error) === 'ENOENT' || formatMessage(error).includes('unsupported version')) return;
    throw new DomainError(
      'unavailable',
      'database_dump_failed',
      `what pg_dump wrote cannot be restored: ${formatMessage(error)}`,
      { cause: error },
    );
  }
}

interface RunOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal | undefined;
  /** Receives what it writes to stdout; undefined: it is the result. */
  readonly consumeOutput?: (output: Readable) => Promise<void>;
}

/**
 * Runs a program and returns its output; empty if `consumeOutput` receives it. Throws the last lines of its error
 * output if it fails.
 */
async function runProgram(
  program: string,
  args: readonly string[],
  { env, signal, consumeOutput }: RunOptions,
): Promise<string> {
  const child = spawn(program, [...args], { env, stdio: ['ignore', 'pipe', 'pipe'], ...(signal && { signal }) });
  const output = consumeOutput ? consumeOutput(child.stdout).then(() => '') : text(child.stdout);
  const [result, errorOutput, [code]] = await Promise.all([output, text(child.stderr), once(child, 'close')]);
  if (code !== 0)
    throw new Error(errorOutput.trim().split('\n').slice(-3).join(' ') || `it exited with ${String(code)}`);
  return result;
}

// The URL parameters that libpq reads from environment variables.
const LIBPQ_VARIABLES: Readonly<Record<string, string>> = {
  host: 'PGHOST',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  options: 'PGOPTIONS',
};

/**
 * Returns the same address as environment variables of libpq, which other users of the machine cannot see, unlike
 * arguments.
 */
export function getLibpqVariables(url: string): Record<string, string> {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  const parts = {
    PGHOST: hostname.replaceAll(/[[\]]/g, ''),
    PGPORT: port,
    PGUSER: decodeURIComponent(username),
    PGPASSWORD: decodeURIComponent(password),
    PGDATABASE: decodeURIComponent(pathname.slice(1)),
  };
  const fromUrl = Object.entries(parts).filter(([, value]) => value !== '');
  const fromParameters = [...searchParams].flatMap(([name, value]) =>
    LIBPQ_VARIABLES[name] === undefined ? [] : [[LIBPQ_VARIABLES[name], value]],
  );
  return Object.fromEntries([...fromUrl, ...fromParameters]) as Record<string, string>;
}

/** Creates the error `pg_dump_missing`. `problem`: a clause that says what was found instead of a suitable pg_dump. */
function dumpMissing(requiredVersion: number, problem: string, cause?: unknown): DomainError {
  const manualAdvice =
    'or copy it manually: pg_dump --format=custom --file=plantroom.pgdump with the URL of the database, together with the folders media and tls and the file secrets.key of the data folder';
  return new DomainError(
    'conflict',
    'pg_dump_missing',
    `a backup of PostgreSQL ${requiredVersion} needs its program pg_dump of version ${requiredVersion} or newer, ${problem}: install PostgreSQL's client programs (Debian: apt install postgresql-client-${requiredVersion}), ${manualAdvice}`,
    { cause },
  );
}
