import { readFileSync, realpathSync } from 'node:fs';
import type { Config } from '../../config';
import { fail, ok, warn, type Finding } from './check';
import { findNearestExisting } from './pathFacts';

const CHECK = 'file system';
/** Network file systems: their locks and caches do not give the guarantees that SQLite needs. */
const NETWORK_SHARE = /^(nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|glusterfs|lustre|ncpfs)$/;
/** File systems of a user program or of the host of a virtual machine: only some guarantee locks and fsync. */
const HOST_SHARE = /^(fuse($|\.)|fuseblk|vboxsf|virtiofs|drvfs|vmhgfs)/;
const IN_MEMORY = /^(tmpfs|ramfs)$/;

/**
 * Checks that the file system of the data folder is suitable for a database. Linux only; elsewhere it returns nothing.
 */
export function checkFileSystem(config: Config): Finding[] {
  try {
    return [
      judgeFileSystem(
        findFileSystemType(realpathSync(findNearestExisting(config.data.dir)), readFileSync('/proc/mounts', 'utf8')),
        config,
      ),
    ];
  } catch {
    return []; // not Linux, or /proc is not mounted
  }
}

/** Judges a file system type. With PostgreSQL, the data folder does not contain the database. */
export function judgeFileSystem(type: string | undefined, { database: { url }, data }: Config): Finding {
  if (type === undefined) return ok(CHECK, 'unknown');
  const moveToDisk = 'move the data folder to a local disk (stop the server first)';
  if (NETWORK_SHARE.test(type))
    return url === ''
      ? fail(
          CHECK,
          `${data.dir} is on a network share (${type}): a SQLite database can become corrupt there`,
          moveToDisk,
        )
      : warn(CHECK, `${data.dir} is on a network share (${type}): the lock of the folder may not work`, moveToDisk);
  if (HOST_SHARE.test(type))
    return warn(CHECK, `${data.dir} is on ${type}, which may lose written data on a power failure`, moveToDisk);
  if (IN_MEMORY.test(type))
    return warn(
      CHECK,
      `${data.dir} is in memory (${type}): a restart of the machine deletes all data`,
      'set PLANTROOM_DATA_DIR to a folder on a disk',
    );
  if (type === 'overlay')
    return warn(
      CHECK,
      `${data.dir} is in the container itself: all data is deleted with the container`,
      `mount a volume on ${data.dir}`,
    );
  return ok(CHECK, type);
}

/**
 * Finds the file system type of a path in the text of /proc/mounts. If several are mounted at the same place, the last
 * one is visible.
 */
export function findFileSystemType(path: string, mounts: string): string | undefined {
  const found = mounts.split('\n').flatMap((line) => {
    const [, escapedMountPoint = '', type] = line.split(' ');
    // Spaces and some other characters are written as an octal number, for example \040.
    const mountPoint = escapedMountPoint.replaceAll(/\\(\d{3})/g, (_, octal: string) =>
      String.fromCodePoint(Number.parseInt(octal, 8)),
    );
    return type !== undefined &&
      (path === mountPoint || path.startsWith(mountPoint.endsWith('/') ? mountPoint : `${mountPoint}/`))
      ? [{ mountPoint, type }]
      : [];
  });
  const longestLength = Math.max(...found.map(({ mountPoint }) => mountPoint.length));
  return found.findLast(({ mountPoint }) => mountPoint.length === longestLength)?.type;
}
