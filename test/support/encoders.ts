import { Sandbox, type EncodeRequest } from '../../src/codec';
import type { Encoder } from '../../src/commands';
import { MemoryLog } from './edge';

/** An encoder for tests in which no encoder may run. It fails if it is called. */
export const noEncoder: Encoder = {
  encode: async () => {
    throw new Error('this test did not expect an encoder to run');
  },
};

/** The real sandbox, which counts the scripts that it runs. */
export interface TestEncoder extends Encoder, Pick<Sandbox, 'compile'> {
  readonly runs: EncodeRequest[];
  stop(): Promise<void>;
}

/** Starts an encoder with a single thread and long timeouts, because machines that run tests are busy. */
export function startEncoder(): TestEncoder {
  const sandbox = new Sandbox({ workers: 1, timeoutMs: 5000, hardTimeoutMs: 20_000, log: new MemoryLog() });
  const runs: EncodeRequest[] = [];
  return {
    runs,
    encode: async (request, signal) => {
      runs.push(request);
      return await sandbox.encode(request, signal);
    },
    compile: async (owner, script, signal) => await sandbox.compile(owner, script, signal),
    stop: async () => await sandbox.stop(),
  };
}

/** A compiler for tests whose commands need no check of their encoder. */
export const noCompiler: Pick<Sandbox, 'compile'> = { compile: async () => undefined };
