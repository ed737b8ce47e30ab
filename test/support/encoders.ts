import type { Encoder } from '../../src/commands';

/** Stands in where no encoder is to run: a test that runs one all the same fails. */
export const noEncoder: Encoder = {
  encode: async () => {
    throw new Error('this test did not expect an encoder to run');
  },
};
