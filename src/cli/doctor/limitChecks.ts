import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { findDataFolderHolder } from '../../database';
import type { Config } from '../../config';
import { ok, warn, type Finding } from './check';
import { formatMib } from '../../kernel/availableBytes';

const MIN_DESCRIPTORS = 1024;
/** A higher share of open descriptors is reported. */
const MAX_USED_SHARE = 0.8;
const MIN_MEMORY_BYTES = 256 * 1024 * 1024;

/**
 * Checks the resource limits of this process if no server is running, because a server that is started here has the
 * same. What this process uses does not matter. The metrics report limits and use of a running server.
 */
export function checkLimits(config: Config): Finding[] {
  if (findDataFolderHolder(config.data.dir) !== undefined) return [];
  const limit = process.constrainedMemory();
  return [
    ...checkDescriptors(getMaxDescriptors(), undefined),
    ...checkMemory(limit > 0 ? Math.min(limit, totalmem()) : totalmem(), undefined),
  ];
}

/** Checks the limit of open files and connections (file descriptors) and the number in use; undefined: unknown. */
export function checkDescriptors(max: number | undefined, open: number | undefined): Finding[] {
  if (max === undefined) return [];
  const check = 'descriptors';
  const raise = 'raise the limit (LimitNOFILE of systemd, --ulimit nofile of a container, ulimit -n)';
  if (max < MIN_DESCRIPTORS)
    return [warn(check, `at most ${max} files and connections can be open at the same time`, `${raise} to 65536`)];
  if (open !== undefined && open > MAX_USED_SHARE * max)
    return [warn(check, `${open} of ${max} are open`, `find the clients with many connections, or ${raise}`)];
  return [ok(check, open === undefined ? `at most ${max} can be open` : `${open} of ${max} are open`)];
}

/** Checks the memory limit of a process and its use, in bytes; undefined: unknown. */
export function checkMemory(limit: number | undefined, used: number | undefined): Finding[] {
  if (limit === undefined) return [];
  if (limit < MIN_MEMORY_BYTES)
    return [
      warn(
        'memory',
        `limit ${formatMib(limit)}: the standard load needs 256 MiB`,
        'raise MemoryMax of systemd or mem_limit of the container',
      ),
    ];
  return [
    ok('memory', used === undefined ? `limit ${formatMib(limit)}` : `${formatMib(used)} of ${formatMib(limit)} in use`),
  ];
}

/** Reads the limit of open files of this process from /proc; undefined if there is none. */
function getMaxDescriptors(): number | undefined {
  try {
    const [, max] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return max === undefined ? undefined : Number(max);
  } catch {
    return undefined; // not Linux
  }
}
