/** A decoder, as the profile of the bound device names it. */
interface NamedDecoder {
  readonly codecId: string;
  /** The hash of the script; it changes with the codec. */
  readonly hash: string;
}

interface CachedScript {
  readonly hash: string;
  readonly script: Promise<string | undefined>;
  /** In characters; 0 until the script is loaded. */
  size: number;
}

const MAX_CHARACTERS = 16 * 1024 * 1024;

/** Caches recently used decoder scripts, so that not every uplink reads up to 256 KiB from the database. */
export class DecoderScripts {
  // Ordered by use: the least recently used script is first.
  private readonly cache = new Map<string, CachedScript>();
  private totalSize = 0;

  constructor(
    private readonly load: (codecId: string) => Promise<string | undefined>,
    private readonly maxCharacters = MAX_CHARACTERS,
  ) {}

  /**
   * Returns the script; undefined if the codec has no decoder or was deleted. Concurrent calls share one load; a failed
   * load is not cached.
   */
  async find({ codecId, hash }: NamedDecoder): Promise<string | undefined> {
    const existing = this.cache.get(codecId);
    const cached = existing?.hash === hash ? existing : { hash, script: this.load(codecId), size: 0 };
    if (existing) this.remove(codecId, existing); // added again below, as the most recently used one
    this.add(codecId, cached);
    try {
      const script = await cached.script;
      const isFirstToLoad = cached.size === 0;
      if (isFirstToLoad) this.setSize(codecId, cached, script ?? '');
      return script;
    } catch (error) {
      this.remove(codecId, cached);
      throw error;
    }
  }

  /** Counts the size of a script once it is loaded, and evicts the least recently used scripts beyond the limit. */
  private setSize(codecId: string, cached: CachedScript, script: string): void {
    if (this.cache.get(codecId) !== cached) return; // another version replaced the entry while this one was loaded
    cached.size = script.length + 1; // size 0 means not loaded yet, even for an empty script
    this.totalSize += cached.size;
    for (const [id, oldest] of this.cache) {
      if (this.totalSize <= this.maxCharacters) return;
      this.remove(id, oldest);
    }
  }

  /** Adds an entry as the most recently used one. */
  private add(codecId: string, cached: CachedScript): void {
    this.cache.set(codecId, cached);
    this.totalSize += cached.size;
  }

  /** Removes an entry from the cache, unless another one has replaced it. */
  private remove(codecId: string, cached: CachedScript): void {
    if (this.cache.get(codecId) !== cached) return;
    this.cache.delete(codecId);
    this.totalSize -= cached.size;
  }
}
