import type { Encoder } from '../../src/commands';
import { encodeContent } from '../../src/executions/submit/commandContent';
import { freezeQuery } from '../../src/executions/submit/querySubmission';
import { command } from '../commands/definition';

/** Returns these ports, one after the other, with as many bytes as it is told. */
function returning(ports: readonly (number | undefined)[], length = 1): Encoder {
  const left = [...ports];
  return { encode: async () => ({ output: { bytes: new Uint8Array(length), fPort: left.shift() }, warnings: [], logs: [], executionTimeMs: 1, error: undefined, blameless: false }) };
}
const input = { kind: 'input', data: {}, variables: {} } as const;
const encoded = (fPort?: number) => command({ mode: 'encoded', directPayload: undefined, customEncoder: 'x', fPort });

describe('what a command sends', () => {
  it('is JSON as it is', async () => {
    const json = { kind: 'json', value: { a: 1 } } as const;
    expect(await encodeContent(returning([]), 'gateway', command({ fPort: 3 }), json)).toEqual({ payload: json, fPort: 3, violations: [] });
  });

  it.each([
    ['gateway', undefined, undefined, undefined, []],
    ['gateway', 5, undefined, 5, []],
    ['gateway', 5, 6, 6, []],
    ['chirpstack', undefined, 6, 6, []],
    ['chirpstack', 5, undefined, 5, []],
    ['chirpstack', undefined, undefined, undefined, ['command.fPort']],
    ['chirpstack_confirmed', undefined, undefined, undefined, ['command.fPort']],
  ] as const)('on %s with the port %s of the command and %s of its encoder goes to %s', async (kind, own, returned, port, fields) => {
    const encoding = await encodeContent(returning([returned]), kind, encoded(own), input);
    expect([encoding.fPort, encoding.payload === undefined, encoding.violations.map(({ field }) => field)]).toEqual([port, fields.length > 0, fields]);
  });

  it('is refused on LoRaWAN beyond what a frame holds', async () => {
    expect((await encodeContent(returning([1], 242), 'chirpstack', encoded(), input)).violations).toEqual([]);
    expect((await encodeContent(returning([1], 243), 'chirpstack', encoded(), input)).violations).toEqual([{ field: 'command.customEncoder', description: expect.stringContaining('too_large') }]);
    expect((await encodeContent(returning([1], 243), 'gateway', encoded(), input)).violations).toEqual([]);
  });

  it('is refused with no more of what an encoder says than can be read', async () => {
    const error = { code: 'encoder_errors', message: '\u20ac'.repeat(200_000), lineNumber: 3 } as const;
    const [violation] = (await encodeContent({ encode: async () => ({ output: undefined, warnings: [], logs: [], executionTimeMs: 1, error, blameless: false }) }, 'gateway', encoded(), input)).violations;
    expect(violation?.description).toMatch(/^fails with encoder_errors in line 3: \u20ac{2000}… \(198000 more characters\)$/);
  });

  it('goes to one port at both tries of a query', async () => {
    const tries = [1, 2].map((data) => ({ executionId: `e${data}`, content: { kind: 'input', data, variables: {} } as const }));
    const draft = { command: encoded(), kind: 'gateway', params: {}, tries } as const;
    expect(await freezeQuery(returning([7, 7]), draft)).toMatchObject({ part: { fPort: 7, tries: [{ executionId: 'e1' }, { executionId: 'e2' }] } });
    expect(await freezeQuery(returning([7, 8]), draft)).toMatchObject({ part: undefined, violations: [{ field: 'command.queryCommandId', description: expect.stringContaining('another fPort') }] });
  });
});
