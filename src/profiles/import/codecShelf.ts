import type { Found } from './vendorFiles';
import type { VendorRoom } from './vendorRoom';
import { idOf } from './fields';
import type { ReadCodec, ReadModel } from './readVendor';

/** The codecs that the models of a vendor name, each read once, by names that are unique in the vendor. */
export class CodecShelf {
  private readonly byPath = new Map<string, Found<string>>();
  private readonly byName = new Map<string, ReadCodec>();

  constructor(private readonly room: VendorRoom) {}

  /** The name of the codec of a file; `wanted` if no other file has it. */
  nameOf(path: string, wanted: string, read: () => Found<Omit<ReadCodec, 'name'>>): Found<string> {
    const known = this.byPath.get(path) ?? this.take(path, wanted, read());
    this.byPath.set(path, known);
    return known;
  }

  /** Those that profiles of these models name. */
  usedBy(models: readonly ReadModel[]): ReadCodec[] {
    const used = new Set(models.flatMap(({ profiles }) => profiles.map(({ codec }) => codec)));
    return [...this.byName.values()].filter(({ name }) => used.has(name));
  }

  private take(path: string, wanted: string, codec: Found<Omit<ReadCodec, 'name'>>): Found<string> {
    if ('problem' in codec) return codec;
    // As it is stored: each codec with scripts of its own, though others name the same files.
    if (!this.room.takeBytes('kept', bytesOf(codec.value))) return { problem: { file: path, reason: 'does not fit beside the other codecs of its vendor' } };
    const id = idOf(wanted);
    if ('problem' in id) return { problem: { file: path, reason: `has a name that ${id.problem}` } };
    let name = id.value;
    for (let again = 2; this.byName.has(name); again += 1) name = `${id.value}-${again}`;
    this.byName.set(name, { name, ...codec.value });
    return { value: name };
  }
}

function bytesOf({ scripts, examples }: Omit<ReadCodec, 'name'>): number {
  const texts = [...new Set(Object.values(scripts))].map((script) => script?.text ?? '');
  return [...texts, JSON.stringify(examples)].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}
