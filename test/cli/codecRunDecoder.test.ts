import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plantroomHere } from '../support/commandInProcess';
import type { Ended } from '../support/commandLine';

let folder: string;
beforeAll(() => (folder = mkdtempSync(join(tmpdir(), 'plantroom-decoder-'))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(script: string, ...args: string[]): Promise<Ended> {
  const file = join(folder, 'valve.js');
  writeFileSync(file, script);
  return await plantroomHere(['codec', 'run', '--script', file, ...args]);
}

const VALVE = `function decodeUplink(input) {
  console.log('port', input.fPort);
  return { data: { position: input.bytes[1], open: true, at: input.recvTime, unit: input.variables.unit }, warnings: ['battery low'] };
}
function decodeDownlink(input) {
  return { data: { wanted: input.bytes[1] } };
}
function encodeDownlink(input) {
  return [1, input.data.position];
}`;

describe('plantroom codec run --bytes', () => {
  it('shows people the data, warnings, logs and the time', async () => {
    const { code, stdout, stderr } = await run(VALVE, '--bytes', '01 28', '--fport', '0');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.replace(/\d+\.\d\d ms/, 'N ms').split('\n')).toEqual(['{', '  "position": 40,', '  "open": true', '}', 'time  N ms', 'warnings:', '  battery low', 'logs:', '  port 0', '']);
  });

  it('gives programs one JSON value, and the script all that it is to get', async () => {
    const { code, stdout } = await run(VALVE, '--bytes', '0128', '--fport', '10', '--recv-time', '2026-03-01T13:00:00+01:00', '--variables', '{"unit": "%"}', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ data: { position: 40, open: true, at: '2026-03-01T12:00:00.000Z', unit: '%' }, logs: ['port 10'], warnings: ['battery low'], executionTimeMs: expect.any(Number), error: null });
  });

  it.each(['0128', '01 28', '01:28', ' 0x01, 0x28 ', 'ASg='])('takes the bytes as %j', async (bytes) => {
    const { stdout } = await run(VALVE, '--bytes', bytes, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ data: { position: 40 } });
  });

  it('takes no bytes at all', async () => {
    const { stdout } = await run('function Decoder(bytes) { return { n: bytes.length }; }', '--bytes', '', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ data: { n: 0 } });
  });

  it('runs the decoder of downlinks', async () => {
    const { stdout } = await run(VALVE, '--bytes', '01 28', '--downlink', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ data: { wanted: 40 } });
  });

  it('ends with 1 for a decoder that fails, and points at the line', async () => {
    const script = 'function Decoder(bytes) {\n  return bytes.none.value;\n}\n';
    const { code, stdout, stderr } = await run(script, '--bytes', '01');
    expect([code, stdout.replace(/\d+\.\d\d ms/, 'N ms')]).toEqual([1, 'time  N ms\n']);
    expect(stderr).toMatch(/valve\.js:2: runtime_error: .*\n {2}1 \| function Decoder\(bytes\) \{\n {2}2 \| {3}return bytes\.none\.value;\n/);
    const json = await run('function decodeUplink() { return { errors: ["too short"] }; }', '--bytes', '01', '--json');
    expect([json.code, json.stderr]).toEqual([1, '']);
    expect(JSON.parse(json.stdout)).toMatchObject({ data: null, error: { code: 'decoder_errors', message: 'too short', lineNumber: null } });
  });

  it('does not let a script write to the terminal, and shows JSON still', async () => {
    const { stdout } = await run('function Decoder() { return { "\\u009b2J": "\\u202e \\u2028 \\u{e0041} \\u001b[2J" }; }', '--bytes', '01');
    expect(stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
    expect(JSON.parse(stdout.slice(0, stdout.indexOf('time')))).toEqual({ '\u009b2J': '\u202e \u2028 \u{e0041} \u001b[2J' });
  });

  it.each([
    ['bytes that are none', ['--bytes', '01 2'], /--bytes must be hex digits, two for each byte, such as "01 28", or base64/],
    ['both ways at once', ['--bytes', '01', '--input', '{}'], /give either --input, which runs the encoder, or --bytes, which runs the decoder/],
    ['a time that is none', ['--bytes', '01', '--recv-time', 'noon'], /give a time such as 2026-03-01T12:00:00Z/],
    ['a port that is none', ['--bytes', '01', '--fport', '256'], /give a whole number from 1 to 223, with --bytes from 0 to 255/],
    ['the time of an uplink for an encoder', ['--input', '{}', '--recv-time', '2026-03-01T12:00:00Z'], /--recv-time and --downlink are of decoders; give them with --bytes/],
    ['a downlink for an encoder', ['--input', '{}', '--downlink'], /--recv-time and --downlink are of decoders; give them with --bytes/],
  ])('ends with 2 and says what would be right: %s', async (_, args, said) => {
    const { code, stdout, stderr } = await run(VALVE, ...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(said);
  });
});
