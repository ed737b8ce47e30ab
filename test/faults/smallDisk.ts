import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A separate file system of a few MiB. */
export class SmallDisk {
  readonly root = mkdtempSync(join(tmpdir(), 'plantroom-disk-'));

  private constructor() {}

  /** Mounts a file system in memory. */
  static inMemory(mib: number): SmallDisk {
    const disk = new SmallDisk();
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', disk.root], { stdio: 'pipe' });
    return disk;
  }

  /** Mounts a file system in a file, whose kernel driver can be made to report failure. */
  static inFile(mib: number): SmallDisk {
    const disk = new SmallDisk();
    const image = `${disk.root}.img`;
    execFileSync('truncate', ['-s', `${mib}M`, image]);
    execFileSync('mkfs.ext4', ['-q', image], { stdio: 'pipe' });
    execFileSync('mount', ['-o', 'loop', image, disk.root], { stdio: 'pipe' });
    return disk;
  }

  /** Uses all free space. `free` releases it. */
  fill(): void {
    const file = openSync(join(this.root, 'filler'), 'w');
    for (let bytes = 1024 * 1024; bytes >= 512; bytes /= 2) while (this.wrote(file, bytes));
    closeSync(file);
  }

  free(): void {
    rmSync(join(this.root, 'filler'));
  }

  /** From now on the file system is read-only, like a disk that failed. */
  fail(): void {
    execFileSync('mount', ['-o', 'remount,abort', this.root], { stdio: 'pipe' });
  }

  remove(): void {
    execFileSync('umount', [this.root], { stdio: 'pipe' });
    for (const path of [this.root, `${this.root}.img`]) rmSync(path, { recursive: true, force: true });
  }

  private wrote(file: number, bytes: number): boolean {
    try {
      return writeSync(file, Buffer.alloc(bytes)) === bytes;
    } catch {
      return false;
    }
  }
}

/** Returns whether this machine lets the tests mount such a file system. */
export function canMount(kind: 'inMemory' | 'inFile'): boolean {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false;
  try {
    mkdirSync(tmpdir(), { recursive: true });
    SmallDisk[kind](4).remove();
    return true;
  } catch {
    return false;
  }
}
