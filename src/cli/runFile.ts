import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DomainError } from '../kernel/errors';

/** What a running server says of itself in `<data folder>/run.json`. */
export interface RunFile {
  /** `host:port` as it listens. */
  readonly grpc: string;
  /** As grpc; null when it is switched off. */
  readonly http: string | null;
  readonly tls: boolean;
  /** Where the CA certificate is that clients check it with; null without TLS or with your own certificate. */
  readonly ca: string | null;
  /** The only organization that there was at the start; null if there were several. What \`call\` takes when none is named. */
  readonly organizationId: string | null;
  readonly pid: number;
  /** ISO 8601. */
  readonly startedAt: string;
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
