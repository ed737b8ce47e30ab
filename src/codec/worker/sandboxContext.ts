import type { QuickJSContext, QuickJSHandle, QuickJSRuntime } from 'quickjs-emscripten-core';
import type { SandboxGuest } from '../sandboxProtocol';
import type { Engine } from './engine';
import { LogLines } from './logLines';

/** The name of the user's script in stack traces. */
export const SCRIPT_FILE = 'codec.js';

const PRELUDE_FILE = 'plantroom.js';
const STACK_BYTES = 512 * 1024;
/** The size of each of the blocks of memory that freeReserve frees. */
const RESERVE_BYTES = 128 * 1024;
const RESERVE_NAMES = ['whenLoaded', 'whenFailed'] as const;
/** The number of promise jobs between two checks of the time. */
const JOBS_PER_TIME_CHECK = 100;

/** A value that guest code threw; `handle` refers to it. */
export class ScriptError extends Error {
  constructor(readonly handle: QuickJSHandle) {
    super('guest code threw');
  }
}

/**
 * A runtime and context for scripts. The values that a script creates are not freed one by one: restoring the engine's
 * memory removes them all. Handles that exist before the memory is saved stay valid.
 */
export class SandboxContext {
  private readonly runtime: QuickJSRuntime;
  private readonly context: QuickJSContext;
  private readonly guest: QuickJSHandle;
  private readonly methods: Readonly<Record<keyof SandboxGuest, QuickJSHandle>>;
  private readonly constants: {
    readonly true: QuickJSHandle;
    readonly false: QuickJSHandle;
    readonly undefined: QuickJSHandle;
  };
  /** Holds blocks of memory for inspecting a script that used up all other memory: see freeReserve. */
  private readonly reserves: QuickJSHandle;
  private readonly reserveNames: Readonly<Record<(typeof RESERVE_NAMES)[number], QuickJSHandle>>;
  private log = new LogLines();
  private randomNumbers = 0;
  private hasFailed = false;
  private shouldStop = (): boolean => false;

  /**
   * `preludes` are scripts of ours that run before the user's script; the first one is a bundle of src/codec/guest. It
   * defines the global `makeGuest`, which creates the object with our methods (SandboxGuest).
   */
  constructor(engine: Engine, preludes: readonly string[]) {
    this.runtime = engine.quickjs.newRuntime({
      maxStackSizeBytes: STACK_BYTES,
      interruptHandler: () => this.shouldStop(),
    });
    this.context = this.runtime.newContext();
    // The context creates the handles of constants when they are first used: that must be before the memory is saved.
    const { true: yes, false: no, undefined: nothing, global } = this.context;
    this.constants = { true: yes, false: no, undefined: nothing };
    for (const prelude of preludes) this.evaluate(prelude, PRELUDE_FILE);
    const makeGuest = this.context.getProp(global, 'makeGuest');
    this.evaluate('delete globalThis.makeGuest', PRELUDE_FILE);
    this.guest = unwrapResult(this.context.callFunction(makeGuest, nothing, ...this.createHostFunctions()));
    this.methods = {
      call: this.context.getProp(this.guest, 'call'),
      read: this.context.getProp(this.guest, 'read'),
      explain: this.context.getProp(this.guest, 'explain'),
    };
    this.reserves = this.context.newObject();
    this.reserveNames = { whenLoaded: this.createText('whenLoaded'), whenFailed: this.createText('whenFailed') };
    for (const name of RESERVE_NAMES)
      this.context
        .newArrayBuffer(new ArrayBuffer(RESERVE_BYTES))
        .consume((block) => this.context.setProp(this.reserves, this.reserveNames[name], block));
  }

  /** The log of the script. */
  get logs(): LogLines {
    return this.log;
  }

  /** How many random numbers scripts have read since the context was created. */
  get randomNumberCount(): number {
    return this.randomNumbers;
  }

  /** Whether the engine itself has failed, for example with a trap. Restoring its memory does not repair that. */
  get isBroken(): boolean {
    return this.hasFailed;
  }

  /** Records what was thrown: anything but ScriptError is a failure of the engine itself. */
  recordThrown(error: unknown): void {
    this.hasFailed ||= !(error instanceof ScriptError);
  }

  /** Starts the log of the next run. `logs`: what the script wrote while it was loaded. */
  reset(logs: LogLines | undefined): void {
    this.log = logs?.copy() ?? new LogLines();
  }

  /** From now on, guest code is stopped as soon as `shouldStop` returns true. */
  setInterruptCheck(shouldStop: () => boolean): void {
    this.shouldStop = shouldStop;
  }

  /** Runs a script, ours or the user's, and returns the value of its last statement. Throws ScriptError. */
  evaluate(code: string, file: string): QuickJSHandle {
    return this.guard(() => unwrapResult(this.context.evalCode(code, file, { type: 'global' })));
  }

  /** Whether a script can be parsed. Does not run it. */
  canCompile(code: string): boolean {
    return this.guard(
      () => this.context.evalCode(code, SCRIPT_FILE, { type: 'global', compileOnly: true }).error === undefined,
    );
  }

  /** Runs the pending jobs (callbacks) of promises until none is left or the script must stop. */
  runPendingJobs(): void {
    this.guard(() => {
      while (this.runtime.hasPendingJob() && !this.shouldStop()) this.runtime.executePendingJobs(JOBS_PER_TIME_CHECK);
    });
  }

  /** Calls a method of the guest, our code inside the context. Throws ScriptError. */
  callGuest(method: keyof SandboxGuest, ...values: readonly QuickJSHandle[]): QuickJSHandle {
    return this.guard(() => unwrapResult(this.context.callFunction(this.methods[method], this.guest, ...values)));
  }

  /** Creates a string in the guest. */
  createText(value: string): QuickJSHandle {
    return this.context.newString(value);
  }

  /** Reads a string of the guest. Only for values that our guest code created. */
  readText(handle: QuickJSHandle): string {
    return this.guard(() => this.context.getString(handle));
  }

  /** Whether the guest returned true. */
  isTrue(handle: QuickJSHandle): boolean {
    return this.context.eq(handle, this.constants.true);
  }

  /**
   * Frees a block of reserved memory, so that a script that used up its memory can still be inspected: one after the
   * script was loaded, the other after it failed.
   */
  freeReserve(name: (typeof RESERVE_NAMES)[number]): void {
    this.context.setProp(this.reserves, this.reserveNames[name], this.constants.undefined);
  }

  /** Creates the parameters of `makeGuest`: the functions that the guest calls. */
  private createHostFunctions(): QuickJSHandle[] {
    const toBoolean = (value: boolean): QuickJSHandle => (value ? this.constants.true : this.constants.false);
    return [
      // The LogSink of the guest: receives a line as JSON text, or nothing to count a discarded line.
      this.context.newFunction('log', (line) =>
        toBoolean(this.log.add(line && (JSON.parse(this.readText(line)) as string))),
      ),
      this.context.newFunction('isPromise', (value) => toBoolean(this.guard(() => this.isPromiseHandle(value)))),
      // The engine's own function would return the same numbers in every run, because its state is in the memory.
      this.context.newFunction('random', () => {
        this.randomNumbers += 1;
        return this.guard(() => this.context.newNumber(Math.random()));
      }),
    ];
  }

  /** Whether the value is a promise of the engine. */
  private isPromiseHandle(handle: QuickJSHandle): boolean {
    const state = this.context.getPromiseState(handle);
    return state.type !== 'fulfilled' || state.notAPromise !== true;
  }

  /** Makes a call into the engine, and notes if the engine itself fails: it throws anything but ScriptError. */
  private guard<Result>(call: () => Result): Result {
    try {
      return call();
    } catch (error) {
      this.recordThrown(error);
      throw error;
    }
  }
}

/** Returns the value. Throws ScriptError if guest code threw. */
function unwrapResult(result: ReturnType<QuickJSContext['evalCode']>): QuickJSHandle {
  if (result.error) throw new ScriptError(result.error);
  return result.value;
}
