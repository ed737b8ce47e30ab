import { Sandbox, type EncodeRequest } from '../../src/codec';
import type { Encoder } from '../../src/commands';
import { MemoryLog } from './edge';

/** Stands in where no encoder is to run: a test that runs one all the same fails. */
export const noEncoder: Encoder = {
  encode: async () => {
    throw new Error('this test did not expect an encoder to run');
  },
};

/** The real sandbox, which counts what it runs. */
export interface TestEncoder extends Encoder {
  readonly runs: EncodeRequest[];
  stop(): Promise<void>;
}

/** Starts one with a single thread and time to spare: machines that run tests are busy. */
export function startEncoder(): TestEncoder {
  const sandbox = new Sandbox({ workers: 1, scriptMs: 5000, hardMs: 20_000, log: new MemoryLog() });
  const runs: EncodeRequest[] = [];
  return {
    runs,
    encode: async (request, signal) => {
      runs.push(request);
      return await sandbox.encode(request, signal);
    },
    stop: async () => await sandbox.stop(),
  };
}
