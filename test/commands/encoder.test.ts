import { type Encoder, runEncoder } from '../../src/commands';

const returning = (length: number, fPort?: number): Encoder => ({
  encode: async () =>
    await Promise.resolve({
      output: { bytes: new Uint8Array(length), fPort },
      warnings: [],
      logs: [],
      executionTimeMs: 1,
      error: undefined,
      isServerFault: false,
    }),
});
const run = (kind: string | undefined, fPort?: number) => ({
  owner: 'org-1',
  connectorType: kind,
  script: 'x',
  data: {},
  variables: {},
  fPort,
  signal: undefined,
});

describe('the payload limit of a connection for encoded commands', () => {
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
  ])('is checked for %s: %d bytes', async (kind, length, code) => {
    const { output, error } = await runEncoder(returning(length), run(kind));
    expect([output?.bytes.length, error?.code]).toEqual([code ? undefined : length, code]);
  });

  it('depends on the port of the encoder, or else on that of the command', async () => {
    expect((await runEncoder(returning(1, 9), run('gateway', 42))).output?.fPort).toBe(9);
    expect((await runEncoder(returning(1), run('gateway', 42))).output?.fPort).toBe(42);
  });
});
