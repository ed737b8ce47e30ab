import { Scope, type QuickJSContext, type QuickJSHandle, type QuickJSRuntime } from 'quickjs-emscripten-core';
import type { Guest } from '../guestWords';
import type { Engine } from './engine';
import { LogLines } from './logLines';

/** The name that the user's script has in stack traces. */
export const SCRIPT_FILE = 'codec.js';

const OUR_FILE = 'plantroom.js';
const STACK_BYTES = 512 * 1024;
const RESERVE_BYTES = 128 * 1024;
const JOBS_AT_ONCE = 100;

/** Something that guest code threw; `handle` is the value. */
export class GuestThrew extends Error {
  constructor(readonly handle: QuickJSHandle) {
    super('guest code threw');
  }
}

/** A runtime and context that nobody has used: for one script, then it is closed. */
export class Cell {
  readonly logs = new LogLines();
  private readonly scope = new Scope();
  private readonly runtime: QuickJSRuntime;
  private readonly context: QuickJSContext;
  private readonly guest: QuickJSHandle;
  private readonly methods: Readonly<Record<keyof Guest, QuickJSHandle>>;
  private readonly reserves: QuickJSHandle[];
  private isOver = (): boolean => false;

  /** `preludes` are scripts of ours; the first is a bundle of src/codec/guest. */
  constructor(engine: Engine, preludes: readonly string[]) {
    this.runtime = this.scope.manage(engine.quickjs.newRuntime({ maxStackSizeBytes: STACK_BYTES, interruptHandler: () => this.isOver() }));
    this.context = this.scope.manage(this.runtime.newContext());
    for (const prelude of preludes) this.evaluate(prelude, OUR_FILE);
    const makeGuest = this.scope.manage(this.context.getProp(this.context.global, 'makeGuest'));
    this.evaluate('delete globalThis.makeGuest', OUR_FILE);
    const sink = this.scope.manage(this.context.newFunction('log', (line) => (this.logs.add(line && (JSON.parse(this.context.getString(line)) as string)) ? this.context.true : this.context.false)));
    const isPromise = this.scope.manage(this.context.newFunction('isPromise', (value) => (this.holdsPromise(value) ? this.context.true : this.context.false)));
    this.guest = this.kept(this.context.callFunction(makeGuest, this.context.undefined, sink, isPromise));
    this.methods = { call: this.methodNamed('call'), read: this.methodNamed('read'), explain: this.methodNamed('explain') };
    this.reserves = [this.context.newArrayBuffer(new ArrayBuffer(RESERVE_BYTES)), this.context.newArrayBuffer(new ArrayBuffer(RESERVE_BYTES))];
  }

  /** From now on guest code is stopped as soon as `isOver` says so. */
  limit(isOver: () => boolean): void {
    this.isOver = isOver;
  }

  /** Runs a script of ours. Throws GuestThrew. */
  evaluate(code: string, file: string): QuickJSHandle {
    return this.kept(this.context.evalCode(code, file, { type: 'global' }));
  }

  /** Whether a script can be parsed; nothing of it runs. */
  compiles(code: string): boolean {
    const compiled = this.context.evalCode(code, SCRIPT_FILE, { type: 'global', compileOnly: true });
    compiled.dispose();
    return compiled.error === undefined;
  }

  /** Runs what promises have waiting, until nothing waits or time is over. */
  drain(): void {
    while (this.runtime.hasPendingJob() && !this.isOver()) this.runtime.executePendingJobs(JOBS_AT_ONCE).dispose();
  }

  /** Calls the guest. Throws GuestThrew. */
  ask(word: keyof Guest, ...values: readonly QuickJSHandle[]): QuickJSHandle {
    return this.kept(this.context.callFunction(this.methods[word], this.guest, ...values));
  }

  /** A text for the guest. */
  text(value: string): QuickJSHandle {
    return this.scope.manage(this.context.newString(value));
  }

  /** A text of the guest's: only for values that guest code of ours made. */
  textOf(handle: QuickJSHandle): string {
    return this.context.getString(handle);
  }

  /** Whether the guest said yes. */
  isTrue(handle: QuickJSHandle): boolean {
    return this.context.eq(handle, this.context.true);
  }

  /**
   * Gives back a part of what was laid aside, so that a script that took all memory can still be talked to. Twice: after it was
   * loaded and after it failed.
   */
  freeReserve(): void {
    this.reserves.pop()?.dispose();
  }

  /** Gives all memory back. */
  close(): void {
    for (const reserve of this.reserves) reserve.dispose();
    this.scope.dispose();
  }

  private holdsPromise(handle: QuickJSHandle): boolean {
    const state = this.context.getPromiseState(handle);
    if (state.type === 'pending') return true;
    if (state.type === 'fulfilled' && state.notAPromise) return false;
    (state.type === 'fulfilled' ? state.value : state.error).dispose();
    return true;
  }

  private methodNamed(word: keyof Guest): QuickJSHandle {
    return this.scope.manage(this.context.getProp(this.guest, word));
  }

  private kept(result: ReturnType<QuickJSContext['evalCode']>): QuickJSHandle {
    if (result.error) throw new GuestThrew(this.scope.manage(result.error));
    return this.scope.manage(result.value);
  }
}
