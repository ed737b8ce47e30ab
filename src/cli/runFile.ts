import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseHostPort, formatHostPort, getLocalHost } from '../config';
import { DomainError } from '../kernel/errors';
import { getProgramVersion } from '../kernel/programVersion';

/** Content of `<data folder>/run.json`, by which commands find the running server. */
export interface RunFile {
  /** The listening address, `host:port`. */
  readonly grpc: string;
  /** The listening address, `host:port`; null if HTTP is disabled. */
  readonly http: string | null;
  /** The address of /metrics, `host:port`, without TLS; null if disabled. */
  readonly metrics: string | null;
  readonly tls: boolean;
  /** The file of the private CA for clients to trust; null without TLS or with your own certificate. */
  readonly ca: string | null;
  /** The organization, if there was exactly one at the start; else null. `call` uses it by default. */
  readonly organizationId: string | null;
  readonly pid: number;
  /** Version and commit of the server; undefined if written by an older version. */
  readonly program?: string;
  /** The start time, ISO 8601. */
  readonly startedAt: string;
}

/** The address of a server and how to verify its certificate. */
export interface Endpoint {
  readonly address: string;
  readonly plaintext: boolean;
  /** A PEM file with CA certificates; undefined: the CAs that Node.js trusts. */
  readonly ca: string | undefined;
}

/** Writes run.json atomically. Throws `run_file_not_writable`. */
export function writeRunFile(dataDir: string, run: RunFile): void {
  const temporary = join(dataDir, `.run.json.${process.pid}`);
  const file = join(dataDir, 'run.json');
  try {
    writeFileSync(temporary, `${JSON.stringify(run, undefined, 2)}\n`, { mode: 0o644 });
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new DomainError(
      'conflict',
      'run_file_not_writable',
      `${file} cannot be written (${(error as NodeJS.ErrnoException).code}), but commands need it to find the server: give this user write permission for the folder, and remove any folder with this name`,
      { cause: error },
    );
  }
}

/** Removes run.json, if it exists. */
export function removeRunFile(dataDir: string): void {
  rmSync(join(dataDir, 'run.json'), { force: true });
}

/** Reads run.json; undefined if it is missing or unreadable. The file may be left over from a killed server. */
export function findRunFile(dataDir: string): RunFile | undefined {
  try {
    return JSON.parse(readFileSync(join(dataDir, 'run.json'), 'utf8')) as RunFile;
  } catch {
    return undefined; // no server, or not readable by this user: the caller reports it
  }
}

/** Formats version and commit of this program, for example `0.1.0 (4f09a1c)`. */
export function formatProgram(): string {
  const { version, commit } = getProgramVersion();
  return `${version} (${commit})`;
}

/** Returns the endpoint at which this machine reaches the server of a run.json. */
export function getRunEndpoint(run: RunFile): Endpoint {
  const { host, port } = parseHostPort(run.grpc) ?? { host: 'localhost', port: 0 };
  return { address: formatHostPort({ host: getLocalHost(host), port }), plaintext: !run.tls, ca: run.ca ?? undefined };
}
