import { readFileSync, realpathSync } from 'node:fs';
import type { Config } from '../../config';
import { fail, ok, warn, type Finding } from './check';
import { nearestExisting } from './pathFacts';

const CHECK = 'file system';
/** Shares of other machines: their locks and their cache are not what SQLite relies on. */
const SHARES = /^(nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|glusterfs|lustre|ncpfs)$/;
/** Served by a program or by the machine that hosts this one: some keep locks and what was synced, and some do not. */
const SERVED = /^(fuse($|\.)|fuseblk|vboxsf|virtiofs|drvfs|vmhgfs)/;
const IN_MEMORY = /^(tmpfs|ramfs)$/;

/** Whether the data folder lies where a database may lie, by the list of mounts (Linux; elsewhere it finds nothing). */
export function fileSystem(config: Config): Finding[] {
  try {
    return [judged(typeOf(realpathSync(nearestExisting(config.data.dir)), readFileSync('/proc/mounts', 'utf8')), config)];
  } catch {
    return []; // no Linux, or no /proc
  }
}

/** What is said of a type of file system; with PostgreSQL no database lies on it. */
export function judged(type: string | undefined, { database: { url }, data }: Config): Finding {
  if (type === undefined) return ok(CHECK, 'unknown');
  const local = 'move the data folder to a disk of this machine (stop the server first)';
  if (SHARES.test(type)) return url === '' ? fail(CHECK, `${data.dir} lies on a share (${type}): SQLite can be destroyed there`, local) : warn(CHECK, `${data.dir} lies on a share (${type}): the lock of the folder may not hold`, local);
  if (SERVED.test(type)) return warn(CHECK, `${data.dir} lies on ${type}, which may not keep what was written when the power goes`, local);
  if (IN_MEMORY.test(type)) return warn(CHECK, `${data.dir} lies in memory (${type}): all of it is gone after a restart of the machine`, 'give a folder on a disk');
  if (type === 'overlay') return warn(CHECK, `${data.dir} lies in the container itself: all of it is gone with the container`, `mount a volume on ${data.dir}`);
  return ok(CHECK, type);
}

/** The type of the file system on which a path lies, of what /proc/mounts says; of several at one place the last is the one that is seen. */
export function typeOf(path: string, mounts: string): string | undefined {
  const found = mounts.split('\n').flatMap((line) => {
    const [, at = '', type] = line.split(' ');
    const point = at.replaceAll(/\\(\d{3})/g, (_, octal: string) => String.fromCodePoint(Number.parseInt(octal, 8)));
    return type !== undefined && (path === point || path.startsWith(point.endsWith('/') ? point : `${point}/`)) ? [{ point, type }] : [];
  });
  const longest = Math.max(...found.map(({ point }) => point.length));
  return found.findLast(({ point }) => point.length === longest)?.type;
}
