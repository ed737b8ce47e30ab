import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const VERSION_2 = '/sys/fs/cgroup';
const VERSION_1 = '/sys/fs/cgroup/memory';
const MIB = 1024 * 1024;

/** A control group that limits the memory of its processes, without swap, as a container with a limit does. */
export class MemoryLimit {
  private constructor(
    private readonly folder: string,
    private readonly peakFile: string,
  ) {}

  /** Creates a control group; undefined if this machine does not allow it. */
  static create(mebibytes: number): MemoryLimit | undefined {
    const isVersion2 = existsSync(join(VERSION_2, 'memory.max')) || existsSync(join(VERSION_2, 'cgroup.controllers'));
    const folder = join(isVersion2 ? VERSION_2 : VERSION_1, `plantroom-soak-${process.pid}`);
    try {
      mkdirSync(folder);
    } catch {
      return undefined;
    }
    try {
      const bytes = String(mebibytes * MIB);
      writeFileSync(join(folder, isVersion2 ? 'memory.max' : 'memory.limit_in_bytes'), bytes);
      const swap = join(folder, isVersion2 ? 'memory.swap.max' : 'memory.memsw.limit_in_bytes');
      if (existsSync(swap)) writeFileSync(swap, isVersion2 ? '0' : bytes);
      return new MemoryLimit(folder, isVersion2 ? 'memory.peak' : 'memory.max_usage_in_bytes');
    } catch {
      rmdirSync(folder);
      return undefined;
    }
  }

  /** The command prefix that starts a program inside the group. */
  get launch(): readonly string[] {
    return ['/bin/sh', '-c', 'echo $$ > "$0" && exec "$@"', join(this.folder, 'cgroup.procs')];
  }

  /** The peak memory, including cached files, in MiB; NaN where the system does not report it. */
  get peak(): number {
    const file = join(this.folder, this.peakFile);
    return existsSync(file) ? Number(readFileSync(file, 'utf8')) / MIB : Number.NaN;
  }

  /** Removes the group; its processes must have exited. */
  remove(): void {
    rmdirSync(this.folder);
  }
}
