import { type Encoder, runEncoder } from '../../src/commands';

const returning = (length: number, fPort?: number): Encoder => ({ encode: async () => await Promise.resolve({ output: { bytes: new Uint8Array(length), fPort }, warnings: [], logs: [], executionTimeMs: 1, error: undefined, blameless: false }) });
const run = (kind: string | undefined, fPort?: number) => ({ owner: 'org-1', kind, script: 'x', data: {}, variables: {}, fPort, signal: undefined });

describe('what a connection carries of an encoder', () => {
  it.each([
    ['chirpstack', 242, undefined],
    ['chirpstack', 243, 'too_large'],
    ['chirpstack_confirmed', 243, 'too_large'],
    ['chirpstack', 0, undefined],
    ['gateway', 65_536, undefined],
    ['gateway', 65_537, 'too_large'],
    ['mqtt', 243, undefined],
    ['mqtt_answer', 65_537, 'too_large'],
    [undefined, 243, undefined],
  ])('%s: %d bytes', async (kind, length, code) => {
    const { output, error } = await runEncoder(returning(length), run(kind));
    expect([output?.bytes.length, error?.code]).toEqual([code ? undefined : length, code]);
  });

  it('goes to the port of the encoder, else to that of the command', async () => {
    expect((await runEncoder(returning(1, 9), run('gateway', 42))).output?.fPort).toBe(9);
    expect((await runEncoder(returning(1), run('gateway', 42))).output?.fPort).toBe(42);
  });
});
