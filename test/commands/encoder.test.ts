import { outputProblem } from '../../src/commands/encoder';

const output = (length: number, fPort?: number) => ({ bytes: new Uint8Array(length), fPort });

describe('what a connection carries of an encoder', () => {
  it.each([
    ['chirpstack', 242, 1, undefined],
    ['chirpstack', 243, 1, 'too_large'],
    ['chirpstack_confirmed', 243, 1, 'too_large'],
    ['chirpstack', 0, undefined, undefined],
    ['gateway', 65_536, 223, undefined],
    ['gateway', 65_537, 223, 'too_large'],
    ['mqtt', 243, undefined, undefined],
    ['mqtt_answer', 65_537, undefined, 'too_large'],
    [undefined, 243, undefined, undefined],
    ['gateway', 1, 0, 'bad_output'],
    ['gateway', 1, 224, 'bad_output'],
    ['chirpstack', 1, 1.5, 'bad_output'],
    ['gateway', 1, Number.NaN, 'bad_output'],
  ])('%s: %d bytes to port %s', (kind, length, fPort, code) => expect(outputProblem(kind, output(length, fPort))?.code).toBe(code));
});
