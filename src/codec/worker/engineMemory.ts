/** Snapshots of scripts store only the blocks of this size that differ from the base snapshot. */
const BLOCK_BYTES = 4096;
const WORD_BYTES = 4;
/** The static variables of the engine are in this part of its memory. */
const STATIC_BYTES = 256 * 1024;
/** Larger than any free block of an engine without scripts, so that its allocation enlarges the heap. */
const PROBE_BYTES = 2 * 1024 * 1024;
/** The engine limits the stack of a script to 512 KiB; its own functions may need a little more. */
const MAX_STACK_BYTES = 640 * 1024;
/** Below the largest stack, this many bytes must never be written. */
const GUARD_BYTES = 64 * 1024;
const ZEROS = Buffer.alloc(GUARD_BYTES);

/** A part of the memory. */
interface MemoryBlock {
  readonly offset: number;
  readonly content: Uint8Array;
}

/** The content of the memory before a script is loaded. */
export interface BaseSnapshot {
  /** Everything except the unused part of the stack, which is zero. */
  readonly blocks: readonly MemoryBlock[];
  /**
   * The address of the first block that is not zero after the unused stack. The stack grows towards lower addresses.
   */
  readonly stackStart: number;
  readonly usedBytes: number;
}

/** The content of the memory as the difference to a base snapshot. */
export interface MemorySnapshot {
  readonly base: BaseSnapshot;
  readonly blocks: readonly MemoryBlock[];
  readonly byteLength: number;
}

/**
 * The memory of an engine, which can be saved and restored: everything that a script can change is in it. Use it only
 * while the engine runs nothing and its memory has not grown.
 */
export class EngineMemory {
  private readonly bytes: Buffer;
  private readonly words: Uint32Array;

  /** `heapEndAddress`: see findHeapEndAddress. */
  constructor(
    memory: WebAssembly.Memory,
    private readonly heapEndAddress: number,
  ) {
    this.bytes = Buffer.from(memory.buffer);
    this.words = new Uint32Array(memory.buffer);
  }

  /** The address behind the last byte in use. What follows was never written, or was set to zero by `restore`. */
  get usedBytes(): number {
    return this.words[this.heapEndAddress / WORD_BYTES] ?? 0;
  }

  /** Copies the complete content. */
  saveBase(): BaseSnapshot {
    const { usedBytes } = this;
    const unused = this.findUnusedStack();
    if (unused.end - unused.start < MAX_STACK_BYTES + GUARD_BYTES) throw createLayoutError();
    return {
      blocks: [this.copyBlock(0, unused.start), this.copyBlock(unused.end, usedBytes)],
      stackStart: unused.end,
      usedBytes,
    };
  }

  /**
   * Copies what differs from a base snapshot of this memory. The stack below that of the snapshot is not a part of it.
   */
  save(base: BaseSnapshot): MemorySnapshot {
    const blocks = base.blocks.flatMap((block) => this.copyChanges(block));
    if (this.usedBytes > base.usedBytes) blocks.push(this.copyBlock(base.usedBytes, this.usedBytes));
    return { base, blocks, byteLength: blocks.reduce((sum, { content }) => sum + content.length, 0) };
  }

  /**
   * Restores a snapshot of this memory: sets the stack and what the heap has grown by to zero, then copies the base and
   * the changed blocks.
   */
  restore({ base, blocks }: Pick<MemorySnapshot, 'base' | 'blocks'>): void {
    const { usedBytes } = this; // read first: it is in the memory that is overwritten
    this.bytes.fill(0, base.stackStart - MAX_STACK_BYTES, base.stackStart);
    this.bytes.fill(0, base.usedBytes, usedBytes); // what the heap has grown by since
    for (const { offset, content } of base.blocks) this.bytes.set(content, offset);
    for (const { offset, content } of blocks) this.bytes.set(content, offset);
  }

  /** Whether a script used more stack than `restore` sets to zero. */
  hasStackOverflowed({ stackStart }: BaseSnapshot): boolean {
    const end = stackStart - MAX_STACK_BYTES;
    return this.bytes.compare(ZEROS, 0, GUARD_BYTES, end - GUARD_BYTES, end) !== 0;
  }

  /** Finds the unused part of the stack: the largest part of the memory that is zero. */
  private findUnusedStack(): { readonly start: number; readonly end: number } {
    let largest = { start: 0, end: 0 };
    let start = 0;
    for (let offset = 0; offset + BLOCK_BYTES <= this.usedBytes; offset += BLOCK_BYTES) {
      const end = offset + BLOCK_BYTES;
      if (this.bytes.compare(ZEROS, 0, BLOCK_BYTES, offset, end) !== 0) start = end;
      else if (end - start > largest.end - largest.start) largest = { start, end };
    }
    return largest;
  }

  private copyBlock(start: number, end: number): MemoryBlock {
    return { offset: start, content: Uint8Array.from(this.bytes.subarray(start, end)) };
  }

  /** Copies the parts of a block of the base snapshot that differ from the memory. */
  private copyChanges({ offset, content }: MemoryBlock): MemoryBlock[] {
    const changes: MemoryBlock[] = [];
    for (let from = 0; from < content.length; from += BLOCK_BYTES) {
      const to = Math.min(from + BLOCK_BYTES, content.length);
      if (this.bytes.compare(content, from, to, offset + from, offset + to) !== 0)
        changes.push(this.copyBlock(offset + from, offset + to));
    }
    return changes;
  }
}

/**
 * Finds the address of the word that holds the end of the heap in an engine's memory, which the engine does not export.
 * `allocate` allocates a number of bytes in the engine; `free` frees all allocations. Throws if the memory is laid out
 * in an unknown way.
 */
export function findHeapEndAddress(
  memory: WebAssembly.Memory,
  { allocate, free }: { readonly allocate: (bytes: number) => void; readonly free: () => void },
): number {
  const copyWords = (): Uint32Array => new Uint32Array(memory.buffer.slice(0, STATIC_BYTES));
  const before = copyWords();
  allocate(PROBE_BYTES);
  const between = copyWords();
  allocate(PROBE_BYTES);
  const after = copyWords();
  free();
  const freed = copyWords();
  const index = findHeapEnd(before, between, after);
  const end = after[index] ?? 0;
  // `restore` needs a heap that never shrinks, with nothing behind its end.
  if (end === 0 || freed[index] !== end || end + GUARD_BYTES > memory.buffer.byteLength) throw createLayoutError();
  if (!Buffer.from(memory.buffer, end, GUARD_BYTES).equals(ZEROS)) throw createLayoutError();
  return index * WORD_BYTES;
}

/**
 * Returns the index of the word that grew with both allocations. The allocator also stores the start of its last free
 * block and the size of the heap, which are smaller.
 */
function findHeapEnd(before: Uint32Array, between: Uint32Array, after: Uint32Array): number {
  let found = 0;
  for (let index = 0; index < before.length; index += 1) {
    const hasGrown = growsByProbe(before[index], between[index]) && growsByProbe(between[index], after[index]);
    if (hasGrown && (after[index] ?? 0) > (after[found] ?? 0)) found = index;
  }
  return found;
}

function createLayoutError(): Error {
  return new Error('the memory of the script engine is laid out in an unknown way');
}

function growsByProbe(from = 0, to = 0): boolean {
  return from > 0 && to - from >= PROBE_BYTES && to - from < 2 * PROBE_BYTES;
}
