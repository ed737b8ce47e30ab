import { posix } from 'node:path';
import type { CodecFile } from '../profile';
import { isTable, type Table } from './fields';
import type { Outcome } from './outcome';
import type { ImportWarning } from './readVendor';
import { LARGEST_DATA, LARGEST_SCRIPT, pathIn, type SafeFolder } from './safeFolder';
import { VendorRoom } from './vendorRoom';

/** What was found in a file, or what is wrong with which file. */
export type Found<T> = Outcome<T, ImportWarning>;

/** Files as the readers of both layouts need them; what is asked for twice is read once. */
export class VendorFiles {
  private readonly scripts = new Map<string, Found<CodecFile>>();

  constructor(
    private readonly folder: SafeFolder,
    private readonly room = new VendorRoom(),
  ) {}

  /** Where a name leads that stands in the file `from`; seen from the folder `within`. */
  path(within: string, name: string, from: string): Found<string> {
    const path = pathIn(within, name);
    return 'problem' in path ? { problem: { file: from, reason: `names the file ${JSON.stringify(name.slice(0, 100))}, which ${path.problem}` } } : path;
  }

  /** Whether a file lies there; that it can be read is another matter. */
  exists(path: string): boolean {
    return this.folder.has(path, 'file');
  }

  /** A file of data, as a text. */
  text(path: string, largest = LARGEST_DATA): Found<string> & { readonly isMissing?: true } {
    const text = this.folder.read(path, largest);
    if ('value' in text) return text;
    const problem = { file: path, reason: text.problem };
    return text.isMissing ? { problem, isMissing: true } : { problem };
  }

  /** A file of data, parsed; it holds a table. */
  table(path: string, parse: (text: string) => Outcome<unknown>): Found<Table> {
    const text = this.text(path);
    if ('problem' in text) return text;
    const parsed = parse(text.value);
    if ('problem' in parsed) return { problem: { file: path, reason: parsed.problem } };
    return isTable(parsed.value) ? { value: parsed.value } : { problem: { file: path, reason: text.value.trim() === '' ? 'is empty' : 'holds no fields' } };
  }

  /** The names of the files in a folder that end so, without that; none where there is no such folder. */
  stems(path: string, ending: string): string[] {
    const names = this.folder.list(path, 'files');
    return 'value' in names ? names.value.flatMap((name) => (name.endsWith(ending) ? [name.slice(0, -ending.length)] : [])) : [];
  }

  /** A script. The same path gives the same object. */
  script(path: string): Found<CodecFile> {
    const known = this.scripts.get(path) ?? this.readScript(path);
    this.scripts.set(path, known);
    return known;
  }

  private readScript(path: string): Found<CodecFile> {
    const text = this.folder.read(path, LARGEST_SCRIPT);
    if ('problem' in text) return { problem: { file: path, reason: text.problem } };
    if (text.value.trim() === '') return { problem: { file: path, reason: 'is an empty script' } };
    if (!this.room.takeBytes('read', Buffer.byteLength(text.value))) return { problem: { file: path, reason: 'does not fit beside the other scripts of its vendor' } };
    return { value: { name: posix.basename(path), text: text.value } };
  }
}

/** Answers what `make` gave for this key the first time. */
export function once<T>(cache: Map<string, T>, key: string, make: () => T): T {
  const known = cache.get(key);
  if (known !== undefined) return known;
  const made = make();
  cache.set(key, made);
  return made;
}
