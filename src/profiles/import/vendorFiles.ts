import { posix } from 'node:path';
import type { CodecFile } from '../profile';
import { isTable, type Table } from './fields';
import type { Outcome } from '../../kernel/outcome';
import type { ImportWarning } from './readVendor';
import { MAX_DATA_BYTES, MAX_SCRIPT_BYTES, resolvePath, type SandboxedDirectory } from './sandboxedDirectory';
import { ImportQuota } from './importQuota';

/** The contents of a file, or the file with the error. */
export type FileResult<T> = Outcome<T, ImportWarning>;

/** Reads the files of a repository for both layouts. Each script is read once. */
export class VendorFiles {
  private readonly scriptByPath = new Map<string, FileResult<CodecFile>>();

  constructor(
    private readonly folder: SandboxedDirectory,
    private readonly quota = new ImportQuota(),
  ) {}

  /** Resolves a file name that the file `from` contains. The name is relative to the folder `within`. */
  resolvePath(within: string, name: string, from: string): FileResult<string> {
    const path = resolvePath(within, name);
    return 'problem' in path
      ? {
          problem: {
            file: from,
            reason: `names the file ${JSON.stringify(name.slice(0, 100))}, which ${path.problem}`,
          },
        }
      : path;
  }

  /** Returns whether the file exists. It may still be unreadable. */
  exists(path: string): boolean {
    return this.folder.has(path, 'file');
  }

  /** Reads a data file as text. `isMissing`: the file does not exist. */
  readText(path: string, maxBytes = MAX_DATA_BYTES): FileResult<string> & { readonly isMissing?: true } {
    const text = this.folder.read(path, maxBytes);
    if ('value' in text) return text;
    const problem = { file: path, reason: text.problem };
    return text.isMissing ? { problem, isMissing: true } : { problem };
  }

  /** Reads and parses a data file, which must contain a table. */
  readTable(path: string, parse: (text: string) => Outcome<unknown>): FileResult<Table> {
    const text = this.readText(path);
    if ('problem' in text) return text;
    const parsed = parse(text.value);
    if ('problem' in parsed) return { problem: { file: path, reason: parsed.problem } };
    return isTable(parsed.value)
      ? { value: parsed.value }
      : { problem: { file: path, reason: text.value.trim() === '' ? 'is empty' : 'contains no fields' } };
  }

  /**
   * Lists the names of the files in a folder with a file extension, without that extension; an empty list if the folder
   * does not exist.
   */
  listWithoutExtension(path: string, extension: string): string[] {
    const names = this.folder.list(path, 'files');
    return 'value' in names
      ? names.value.flatMap((name) => (name.endsWith(extension) ? [name.slice(0, -extension.length)] : []))
      : [];
  }

  /** Reads a script, each file once: the same path returns the same object. */
  readScript(path: string): FileResult<CodecFile> {
    return getOrCreate(this.scriptByPath, path, () => this.readNewScript(path));
  }

  /** Reads a script within the quota of the vendor. */
  private readNewScript(path: string): FileResult<CodecFile> {
    const text = this.folder.read(path, MAX_SCRIPT_BYTES);
    if ('problem' in text) return { problem: { file: path, reason: text.problem } };
    if (text.value.trim() === '') return { problem: { file: path, reason: 'is an empty script' } };
    if (!this.quota.addBytes('read', Buffer.byteLength(text.value)))
      return { problem: { file: path, reason: 'exceeds the size limit for the scripts of its vendor' } };
    return { value: { name: posix.basename(path), text: text.value } };
  }
}

/** Returns the cached value of a key. Calls `create` if there is none. */
export function getOrCreate<T>(cache: Map<string, T>, key: string, create: () => T): T {
  const cached = cache.get(key);
  if (cached !== undefined) return cached;
  const created = create();
  cache.set(key, created);
  return created;
}
