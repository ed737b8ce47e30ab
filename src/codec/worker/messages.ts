import type { EncodeResult } from '../codecRun';
import type { RunLimits } from '../runLimits';
import type { Preludes } from './cellStock';

/** What a thread is started with. Files are read on the main thread, so that it works from inside a single binary too. */
export interface WorkerStart {
  readonly engine: WebAssembly.Module;
  readonly preludes: Preludes;
  readonly limits: RunLimits;
}

/** One run, to the thread. */
export interface Job {
  readonly script: string;
  /** The JSON text of a GuestInput. */
  readonly input: string;
}

/** From the thread. `ready` is said after the start and after each answer, when the next clean context waits. */
export type Report =
  | {
      readonly kind: 'ready';
      /** The system's id of the thread, where it has one. */
      readonly tid: number | undefined;
      /** What the thread has computed so far, in milliseconds. */
      readonly cpuMs: number;
    }
  | {
      readonly kind: 'answer';
      readonly result: EncodeResult;
      /** The engine may be damaged, or holds more memory than at its start: the thread wants to be thrown away. */
      readonly spoiled: boolean;
    };
