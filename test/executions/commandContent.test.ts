import type { Encoder } from '../../src/commands';
import { encodeContent } from '../../src/executions/submit/commandContent';
import { encodeQuery } from '../../src/executions/submit/querySubmission';
import { command } from '../commands/definition';

/** Returns an encoder whose results have these ports, one after the other, and this number of bytes. */
function returning(ports: readonly (number | undefined)[], length = 1): Encoder {
  const left = [...ports];
  return {
    encode: async () => ({
      output: { bytes: new Uint8Array(length), fPort: left.shift() },
      warnings: [],
      logs: [],
      executionTimeMs: 1,
      error: undefined,
      isServerFault: false,
    }),
  };
}
const input = { kind: 'input', data: {}, variables: {} } as const;
const encoded = (fPort?: number) => command({ mode: 'encoded', directPayload: undefined, customEncoder: 'x', fPort });

describe('the content of a command', () => {
  it('is JSON without changes', async () => {
    const json = { kind: 'json', value: { a: 1 } } as const;
    expect(await encodeContent(returning([]), 'gateway', command({ fPort: 3 }), json)).toEqual({
      payload: json,
      fPort: 3,
      violations: [],
    });
  });

  it.each([
    ['gateway', undefined, undefined, undefined, []],
    ['gateway', 5, undefined, 5, []],
    ['gateway', 5, 6, 6, []],
    ['chirpstack', undefined, 6, 6, []],
    ['chirpstack', 5, undefined, 5, []],
    ['chirpstack', undefined, undefined, undefined, ['command.fPort']],
    ['chirpstack_confirmed', undefined, undefined, undefined, ['command.fPort']],
  ] as const)(
    'over %s with the port %s of the command and %s of its encoder uses %s',
    async (kind, own, returned, port, fields) => {
      const encoding = await encodeContent(returning([returned]), kind, encoded(own), input);
      expect([encoding.fPort, encoding.payload === undefined, encoding.violations.map(({ field }) => field)]).toEqual([
        port,
        fields.length > 0,
        fields,
      ]);
    },
  );

  it('is rejected on LoRaWAN when it exceeds the size of a frame', async () => {
    expect((await encodeContent(returning([1], 242), 'chirpstack', encoded(), input)).violations).toEqual([]);
    expect((await encodeContent(returning([1], 243), 'chirpstack', encoded(), input)).violations).toEqual([
      { field: 'command.customEncoder', description: expect.stringContaining('too_large') },
    ]);
    expect((await encodeContent(returning([1], 243), 'gateway', encoded(), input)).violations).toEqual([]);
  });

  it('is rejected with a shortened message of the encoder', async () => {
    const error = { code: 'encoder_errors', message: '\u20ac'.repeat(200_000), lineNumber: 3 } as const;
    const [violation] = (
      await encodeContent(
        {
          encode: async () => ({
            output: undefined,
            warnings: [],
            logs: [],
            executionTimeMs: 1,
            error,
            isServerFault: false,
          }),
        },
        'gateway',
        encoded(),
        input,
      )
    ).violations;
    expect(violation?.description).toMatch(
      /^failed with encoder_errors in line 3: \u20ac{2000}… \(198000 more characters\)$/,
    );
  });

  it('uses the same port at both tries of a query', async () => {
    const tries = [1, 2].map((data) => ({
      executionId: `e${data}`,
      content: { kind: 'input', data, variables: {} } as const,
    }));
    const draft = { command: encoded(), kind: 'gateway', params: {}, tries } as const;
    expect(await encodeQuery(returning([7, 7]), draft)).toMatchObject({
      query: { fPort: 7, tries: [{ executionId: 'e1' }, { executionId: 'e2' }] },
    });
    expect(await encodeQuery(returning([7, 8]), draft)).toMatchObject({
      query: undefined,
      violations: [{ field: 'command.queryCommandId', description: expect.stringContaining('another fPort') }],
    });
  });
});
