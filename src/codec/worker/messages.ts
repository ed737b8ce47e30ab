import type { JsonObject } from '../../kernel/jsonValue';
import type { RunReport } from '../codecRun';
import type { Role } from '../roles';
import type { NonFiniteNumber } from '../sandboxProtocol';
import type { RunLimits } from '../runLimits';
import type { BootstrapScripts } from './sandboxPool';

/** The start data of a thread. The main thread reads the files, so that this also works inside a single binary. */
export interface WorkerStart {
  readonly engine: WebAssembly.Module;
  readonly preludes: BootstrapScripts;
  readonly limits: RunLimits;
}

/** One run, sent to the thread. */
export interface ScriptJob {
  readonly role: Role;
  readonly script: string;
  /** The JSON text of the role's input: an EncoderInput or a DecoderInput. Empty: only compile the script. */
  readonly input: string;
}

/** The outcome: `answer` or `error`. */
export interface ScriptResult extends RunReport {
  /** See GuestResult. */
  readonly answer: JsonObject | undefined;
  /** See GuestResult; undefined without an answer. */
  readonly nonFinite?: readonly NonFiniteNumber[] | undefined;
}

/** Sent by the thread: once when it has started, and after each job. */
export type WorkerReport = (
  | {
      readonly kind: 'ready';
      /** The system's id of the thread, if it has one. */
      readonly systemThreadId: number | undefined;
    }
  | {
      readonly kind: 'answer';
      readonly result: ScriptResult;
      /** The engine may be corrupt, or uses more memory than at its start: the thread must be replaced. */
      readonly isCorrupted: boolean;
    }
) & {
  /** The CPU time of the thread so far, in milliseconds. */
  readonly cpuMs: number;
};
