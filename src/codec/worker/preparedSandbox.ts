import type { Engine } from './engine';
import type { BaseSnapshot, MemorySnapshot } from './engineMemory';
import type { LogLines } from './logLines';
import { SandboxContext } from './sandboxContext';

/** The memory with a loaded script, and the log lines that the script wrote while it was loaded. */
export interface LoadedScript {
  readonly memory: MemorySnapshot;
  readonly logs: LogLines;
  /** The CPU time of loading it, in milliseconds. */
  readonly cpuMs: number;
}

/**
 * An engine with a context in which the preludes have run. It runs any number of scripts one after the other: before
 * each of them, the memory is restored, so that nothing of the scripts before is left.
 */
export class PreparedSandbox {
  readonly context: SandboxContext;
  private readonly base: BaseSnapshot;

  /** `preludes`: scripts of ours, see SandboxContext. */
  constructor(
    readonly engine: Engine,
    preludes: readonly string[],
  ) {
    this.context = new SandboxContext(engine, preludes);
    this.base = engine.memory.saveBase();
  }

  /** Restores the memory without a script, or with a loaded one. */
  restore(loaded?: LoadedScript): void {
    this.engine.memory.restore(loaded?.memory ?? { base: this.base, blocks: [] });
    this.context.reset(loaded?.logs);
  }

  /** Saves the memory with the script that was just loaded. */
  save(cpuMs: number): LoadedScript {
    return { memory: this.engine.memory.save(this.base), logs: this.context.logs.copy(), cpuMs };
  }

  /** Whether the engine cannot be restored. */
  isCorrupted(): boolean {
    return this.context.isBroken || this.engine.hasMemoryGrown() || this.engine.memory.hasStackOverflowed(this.base);
  }

  /** The memory that the last script used in addition to that without a script, in bytes. */
  get scriptBytes(): number {
    return this.engine.memory.usedBytes - this.base.usedBytes;
  }
}
