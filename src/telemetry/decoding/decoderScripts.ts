/** A decoder, as the bound device's profile names it. */
export interface NamedDecoder {
  readonly codecId: string;
  /** Another one once the codec was changed. */
  readonly hash: string;
}

interface Kept {
  readonly hash: string;
  readonly script: Promise<string | undefined>;
  /** Characters; 0 until it is read. */
  size: number;
}

const MOST_CHARACTERS = 16 * 1024 * 1024;

/** The scripts of decoders that were lately used, so that not every uplink reads one of up to 256 KiB from the database. */
export class DecoderScripts {
  // The order of a Map is that of the use: the least recent first.
  private readonly kept = new Map<string, Kept>();
  private size = 0;

  constructor(
    private readonly read: (codecId: string) => Promise<string | undefined>,
    private readonly mostCharacters = MOST_CHARACTERS,
  ) {}

  /** The script; undefined: the codec has none for uplinks, or is gone. */
  async find({ codecId, hash }: NamedDecoder): Promise<string | undefined> {
    const known = this.kept.get(codecId);
    const kept = known?.hash === hash ? known : { hash, script: this.read(codecId), size: 0 };
    if (known) this.drop(codecId, known);
    this.keep(codecId, kept);
    try {
      const script = await kept.script;
      if (kept.size === 0) this.measure(codecId, kept, script ?? '');
      return script;
    } catch (error) {
      this.drop(codecId, kept);
      throw error;
    }
  }

  private measure(codecId: string, kept: Kept, script: string): void {
    if (this.kept.get(codecId) !== kept) return; // it was replaced while it was read
    kept.size = script.length + 1;
    this.size += kept.size;
    for (const [id, oldest] of this.kept) {
      if (this.size <= this.mostCharacters) return;
      this.drop(id, oldest);
    }
  }

  private keep(codecId: string, kept: Kept): void {
    this.kept.set(codecId, kept);
    this.size += kept.size;
  }

  private drop(codecId: string, kept: Kept): void {
    if (this.kept.get(codecId) !== kept) return;
    this.kept.delete(codecId);
    this.size -= kept.size;
  }
}
