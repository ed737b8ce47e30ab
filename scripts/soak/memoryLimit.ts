import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const VERSION_2 = '/sys/fs/cgroup';
const VERSION_1 = '/sys/fs/cgroup/memory';
const MIB = 1024 * 1024;

/** A control group whose processes have so much memory and no swap: what a container with a limit is. */
export class MemoryLimit {
  private constructor(
    private readonly folder: string,
    private readonly peakFile: string,
  ) {}

  /** Makes one; undefined where this machine does not let us. */
  static make(mebibytes: number): MemoryLimit | undefined {
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

  /** The words that start a program inside of it. */
  get launch(): readonly string[] {
    return ['/bin/sh', '-c', 'echo $$ > "$0" && exec "$@"', join(this.folder, 'cgroup.procs')];
  }

  /** The most that was ever taken, with what the machine keeps of files for it, in MiB; NaN where it does not tell. */
  get peak(): number {
    const file = join(this.folder, this.peakFile);
    return existsSync(file) ? Number(readFileSync(file, 'utf8')) / MIB : Number.NaN;
  }

  /** Takes it away, once its processes have ended. */
  remove(): void {
    rmdirSync(this.folder);
  }
}
