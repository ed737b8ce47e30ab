import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findHostPort, hostPortText, reachableHost } from '../config';
import { DomainError } from '../kernel/errors';
import { programVersion } from '../kernel/programVersion';

/** What a running server says of itself in `<data folder>/run.json`. */
export interface RunFile {
  /** `host:port` as it listens. */
  readonly grpc: string;
  /** As grpc; null when it is switched off. */
  readonly http: string | null;
  /** Where /metrics is served, without TLS; null when it is switched off. */
  readonly metrics: string | null;
  readonly tls: boolean;
  /** Where the CA certificate is that clients check it with; null without TLS or with your own certificate. */
  readonly ca: string | null;
  /** The only organization that there was at the start; null if there were several. What \`call\` takes when none is named. */
  readonly organizationId: string | null;
  readonly pid: number;
  /** Which program it is, with its commit; older ones do not say so. */
  readonly program?: string;
  /** ISO 8601. */
  readonly startedAt: string;
}

/** Where a server listens and how its certificate is checked. */
export interface Endpoint {
  readonly address: string;
  readonly plaintext: boolean;
  /** A file, PEM; undefined: the CAs that the system trusts. */
  readonly ca: string | undefined;
}

/** Writes it at once or not at all. Throws `run_file_not_writable`. */
export function writeRunFile(dataDir: string, run: RunFile): void {
  const temporary = join(dataDir, `.run.json.${process.pid}`);
  const file = join(dataDir, 'run.json');
  try {
    writeFileSync(temporary, `${JSON.stringify(run, undefined, 2)}\n`, { mode: 0o644 });
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new DomainError('conflict', 'run_file_not_writable', `${file} cannot be written (${(error as NodeJS.ErrnoException).code}), and commands would not find the server; remove what stands there, and let this user write the folder`, { cause: error });
  }
}

/** Removes it. */
export function removeRunFile(dataDir: string): void {
  rmSync(join(dataDir, 'run.json'), { force: true });
}

/** The server that runs on the data folder; undefined if none says so. It may be a leftover of one that was killed. */
export function findRunFile(dataDir: string): RunFile | undefined {
  try {
    return JSON.parse(readFileSync(join(dataDir, 'run.json'), 'utf8')) as RunFile;
  } catch {
    return undefined; // no server, or not ours to read: the caller says what to give instead
  }
}

/** Which program this is, as run.json says it: `0.1.0 (4f09a1c)`. */
export function programText(): string {
  const { version, commit } = programVersion();
  return `${version} (${commit})`;
}

/** Where the server of a run.json is reached from this machine. */
export function endpointOfRun(run: RunFile): Endpoint {
  const { host, port } = findHostPort(run.grpc) ?? { host: 'localhost', port: 0 };
  return { address: hostPortText({ host: reachableHost(host), port }), plaintext: !run.tls, ca: run.ca ?? undefined };
}
