import type { Role } from '../roles';
import type { EngineFactory } from './engine';
import { PreparedSandbox, type LoadedScript } from './preparedSandbox';

/** The preludes: scripts of ours that are evaluated in a context before the user's script. */
export interface BootstrapScripts {
  /** The guest side of encoders. */
  readonly encoder: string;
  /** The guest side of decoders. */
  readonly decoder: string;
  /** Defines atob, btoa, TextEncoder and TextDecoder. */
  readonly encoding: string;
  /** Defines `Buffer`. */
  readonly buffer: string;
  /** Defines `require`; needs `Buffer`. */
  readonly require: string;
}

// These load more slowly than most scripts run, so they are loaded only if the script names what they define.
const OPTIONAL_PRELUDES = [
  { names: /\b(atob|btoa|TextEncoder|TextDecoder)\b/, prelude: 'encoding' },
  { names: /\b(Buffer|require)\b/, prelude: 'buffer' },
  { names: /\brequire\b/, prelude: 'require' },
] as const;

/** The maximum size of all snapshots of scripts in a thread. A script of 16 KiB has a snapshot of about 400 KiB. */
const MAX_SNAPSHOT_BYTES = 16 * 1024 * 1024;
/** The memory of scripts stays with the process: a sandbox whose script used more is replaced. */
const MAX_SCRIPT_MEMORY_BYTES = 4 * 1024 * 1024;

/** The maximum number of sandboxes in a thread. Nearly all codecs need one of two. */
const MAX_SANDBOXES = 4;

/** A sandbox whose memory is restored, for one run of a script. */
export interface AcquiredSandbox {
  readonly sandbox: PreparedSandbox;
  /** Set if the script is loaded already. */
  readonly loaded: LoadedScript | undefined;
  /**
   * Saves the memory after the script was loaded, so that its next runs do not load it, unless it used much memory.
   * `cpuMs`: the CPU time of loading it, in milliseconds.
   */
  saveLoaded(cpuMs: number): void;
}

interface ScriptSnapshot extends LoadedScript {
  readonly sandbox: PreparedSandbox;
}

/**
 * The sandboxes of a thread: one for each combination of preludes that was needed lately, and snapshots of the memory
 * with the scripts that ran last.
 */
export class SandboxPool {
  /** By the names of the preludes, separated by commas; the one that was used longest ago is the first. */
  private readonly sandboxes = new Map<string, PreparedSandbox>();
  /** By the prelude of the role and the script; the one that was used longest ago is the first. */
  private readonly snapshots = new Map<string, ScriptSnapshot>();
  private snapshotBytes = 0;

  constructor(
    private readonly engines: EngineFactory,
    private readonly preludes: BootstrapScripts,
  ) {}

  /**
   * Returns a sandbox with the prelude of the role (both decoder roles share one) and the optional preludes that define
   * a name in the script.
   */
  async acquire(role: Role, script: string): Promise<AcquiredSandbox> {
    const rolePrelude = role === 'encoder' ? 'encoder' : 'decoder';
    const key = `${rolePrelude}\n${script}`;
    const snapshot = this.snapshots.get(key);
    if (snapshot) touch(this.snapshots, key);
    const sandbox = snapshot?.sandbox ?? (await this.getOrCreate([rolePrelude, ...findOptionalPreludes(script)]));
    sandbox.restore(snapshot);
    return { sandbox, loaded: snapshot, saveLoaded: (cpuMs) => this.saveLoaded(key, sandbox, cpuMs) };
  }

  /** Creates the sandbox for encoders without optional preludes, so that the first one does not wait for it. */
  async prepare(): Promise<void> {
    await this.getOrCreate(['encoder']);
  }

  /** Call it after each run. A sandbox whose script used much memory is replaced when it is needed again. */
  release(sandbox: PreparedSandbox): void {
    if (sandbox.scriptBytes > MAX_SCRIPT_MEMORY_BYTES) this.removeSandbox(sandbox);
  }

  private async getOrCreate(preludeNames: readonly (keyof BootstrapScripts)[]): Promise<PreparedSandbox> {
    const key = preludeNames.join();
    const existing = this.sandboxes.get(key);
    if (existing) {
      touch(this.sandboxes, key);
      return existing;
    }
    const [oldest] = this.sandboxes.values();
    if (oldest && this.sandboxes.size >= MAX_SANDBOXES) this.removeSandbox(oldest);
    const sandbox = new PreparedSandbox(
      await this.engines.start(),
      preludeNames.map((name) => this.preludes[name]),
    );
    this.sandboxes.set(key, sandbox);
    return sandbox;
  }

  private removeSandbox(sandbox: PreparedSandbox): void {
    for (const [names, one] of this.sandboxes) if (one === sandbox) this.sandboxes.delete(names);
    for (const [key, snapshot] of this.snapshots) if (snapshot.sandbox === sandbox) this.evict(key, snapshot);
  }

  private saveLoaded(key: string, sandbox: PreparedSandbox, cpuMs: number): void {
    if (sandbox.isCorrupted() || sandbox.scriptBytes > MAX_SCRIPT_MEMORY_BYTES) return;
    const snapshot = { sandbox, ...sandbox.save(cpuMs) };
    this.snapshots.set(key, snapshot);
    this.snapshotBytes += getBytes(key, snapshot);
    for (const [oldestKey, oldest] of this.snapshots) {
      if (this.snapshotBytes <= MAX_SNAPSHOT_BYTES) return;
      this.evict(oldestKey, oldest);
    }
  }

  private evict(key: string, snapshot: ScriptSnapshot): void {
    this.snapshots.delete(key);
    this.snapshotBytes -= getBytes(key, snapshot);
  }
}

/** Moves an entry to the end of a map: it was used now. */
function touch<Value>(entries: Map<string, Value>, key: string): void {
  const value = entries.get(key) as Value;
  entries.delete(key);
  entries.set(key, value);
}

/** Returns the size of a snapshot and its key in memory. */
function getBytes(key: string, { memory }: ScriptSnapshot): number {
  return 2 * key.length + memory.byteLength;
}

function findOptionalPreludes(script: string): (keyof BootstrapScripts)[] {
  return OPTIONAL_PRELUDES.filter(({ names }) => names.test(script)).map(({ prelude }) => prelude);
}
