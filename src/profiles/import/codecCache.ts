import type { FileResult } from './vendorFiles';
import type { ImportQuota } from './importQuota';
import { toId } from './fields';
import type { ReadCodec, ReadModel } from './readVendor';

/** Reads each codec that the models of a vendor use once, and gives it a name that is unique in the vendor. */
export class CodecCache {
  /** The name of each codec, or why it cannot be used. */
  private readonly nameByPath = new Map<string, FileResult<string>>();
  private readonly codecByName = new Map<string, ReadCodec>();

  constructor(private readonly quota: ImportQuota) {}

  /**
   * Returns the name of the codec of a file, and reads the codec the first time: `preferredName`, with a number
   * appended if another file has it already.
   */
  getName(path: string, preferredName: string, read: () => FileResult<Omit<ReadCodec, 'name'>>): FileResult<string> {
    const name = this.nameByPath.get(path) ?? this.addCodec(path, preferredName, read());
    this.nameByPath.set(path, name);
    return name;
  }

  /** Lists the codecs that profiles of these models use. */
  listUsedBy(models: readonly ReadModel[]): ReadCodec[] {
    const used = new Set(models.flatMap(({ profiles }) => profiles.map(({ codec }) => codec)));
    return [...this.codecByName.values()].filter(({ name }) => used.has(name));
  }

  /** Adds a codec and returns its name, which gets a number if another codec has the preferred name. */
  private addCodec(
    path: string,
    preferredName: string,
    codec: FileResult<Omit<ReadCodec, 'name'>>,
  ): FileResult<string> {
    if ('problem' in codec) return codec;
    // The stored size: every codec stores its own copy of its scripts, even if several codecs use the same files.
    if (!this.quota.addBytes('stored', computeSize(codec.value)))
      return { problem: { file: path, reason: 'exceeds the size limit for the codecs of its vendor' } };
    const id = toId(preferredName);
    if ('problem' in id) return { problem: { file: path, reason: `has a name that ${id.problem}` } };
    let name = id.value;
    for (let suffix = 2; this.codecByName.has(name); suffix += 1) name = `${id.value}-${suffix}`;
    this.codecByName.set(name, { name, ...codec.value });
    return { value: name };
  }
}

/** Returns the size of the distinct scripts and the examples, bytes. */
function computeSize({ scripts, examples }: Omit<ReadCodec, 'name'>): number {
  const texts = [...new Set(Object.values(scripts))].map((script) => script?.text ?? '');
  return [...texts, JSON.stringify(examples)].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}
