import type { JsonObject } from '../../kernel/jsonValue';
import type { RunReport } from '../codecRun';
import type { Role } from '../roles';
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
  readonly role: Role;
  readonly script: string;
  /** The JSON text of the role's input: an EncoderInput or a DecoderInput. */
  readonly input: string;
}

/** What came of it: `answer`, or `error`. */
export interface ScriptResult extends RunReport {
  /** As of a GuestResult. */
  readonly answer: JsonObject | undefined;
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
      readonly result: ScriptResult;
      /** The engine may be damaged, or holds more memory than at its start: the thread wants to be thrown away. */
      readonly spoiled: boolean;
    };
