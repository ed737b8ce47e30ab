import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { findDataFolderHolder } from '../../database';
import type { Config } from '../../config';
import { ok, warn, type Finding } from './check';
import { mib } from './pathFacts';

const FEW_DESCRIPTORS = 1024;
const LITTLE_MEMORY = 256 * 1024 * 1024;

/** What this process may take, where no server runs: one that runs says it of itself. */
export function limits(config: Config): Finding[] {
  if (findDataFolderHolder(config.data.dir) !== undefined) return [];
  const limit = process.constrainedMemory();
  return [...descriptorLimit(mostDescriptors(), undefined), ...memoryLimit(limit > 0 ? Math.min(limit, totalmem()) : totalmem(), undefined)];
}

/** How many files and connections may be open, and how many are; undefined: unknown. */
export function descriptorLimit(most: number | undefined, open: number | undefined): Finding[] {
  if (most === undefined) return [];
  const check = 'descriptors';
  const raise = 'raise the limit (LimitNOFILE of systemd, --ulimit nofile of a container, ulimit -n)';
  if (most < FEW_DESCRIPTORS) return [warn(check, `at most ${most} files and connections may be open`, `${raise} to 65536`)];
  if (open !== undefined && open > 0.8 * most) return [warn(check, `${open} of ${most} are open`, `see who holds so many connections, or ${raise}`)];
  return [ok(check, open === undefined ? `${most} may be open` : `${open} of ${most} are open`)];
}

/** The memory that the process may take, and what it takes, in bytes; undefined: unknown. */
export function memoryLimit(limit: number | undefined, taken: number | undefined): Finding[] {
  if (limit === undefined) return [];
  if (limit < LITTLE_MEMORY) return [warn('memory', `${mib(limit)} are allowed: under the standard load it needs 256 MiB`, 'raise MemoryMax of systemd, or mem_limit of the container')];
  return [ok('memory', taken === undefined ? `${mib(limit)} are allowed` : `${mib(taken)} of ${mib(limit)} are taken`)];
}

function mostDescriptors(): number | undefined {
  try {
    const [, most] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return most === undefined ? undefined : Number(most);
  } catch {
    return undefined; // no Linux
  }
}
