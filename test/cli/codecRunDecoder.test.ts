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
  it('prints the data, warnings, logs and run time', async () => {
    const { code, stdout, stderr } = await run(VALVE, '--bytes', '01 28', '--fport', '0');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.replace(/\d+\.\d\d ms/, 'N ms').split('\n')).toEqual([
      '{',
      '  "position": 40,',
      '  "open": true',
      '}',
      'time  N ms',
      'warnings:',
      '  battery low',
      'logs:',
      '  port 0',
      '',
    ]);
  });

  it('prints one JSON value with --json, and passes all input to the script', async () => {
    const { code, stdout } = await run(
      VALVE,
      '--bytes',
      '0128',
      '--fport',
      '10',
      '--recv-time',
      '2026-03-01T13:00:00+01:00',
      '--variables',
      '{"unit": "%"}',
      '--json',
    );
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      data: { position: 40, open: true, at: '2026-03-01T12:00:00.000Z', unit: '%' },
      logs: ['port 10'],
      warnings: ['battery low'],
      executionTimeMs: expect.any(Number),
      error: null,
    });
  });

  it.each(['0128', '01 28', '01:28', ' 0x01, 0x28 ', 'ASg='])('accepts the bytes as %j', async (bytes) => {
    const { stdout } = await run(VALVE, '--bytes', bytes, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ data: { position: 40 } });
  });

  it('accepts an empty payload', async () => {
    const { stdout } = await run('function Decoder(bytes) { return { n: bytes.length }; }', '--bytes', '', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ data: { n: 0 } });
  });

  it('runs the downlink decoder', async () => {
    const { stdout } = await run(VALVE, '--bytes', '01 28', '--downlink', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ data: { wanted: 40 } });
  });

  it('exits with 1 for a decoder that fails, and points at the line', async () => {
    const script = 'function Decoder(bytes) {\n  return bytes.none.value;\n}\n';
    const { code, stdout, stderr } = await run(script, '--bytes', '01');
    expect([code, stdout.replace(/\d+\.\d\d ms/, 'N ms')]).toEqual([1, 'time  N ms\n']);
    expect(stderr).toMatch(
      /valve\.js:2: runtime_error: .*\n {2}1 \| function Decoder\(bytes\) \{\n {2}2 \| {3}return bytes\.none\.value;\n/,
    );
    const json = await run('function decodeUplink() { return { errors: ["too short"] }; }', '--bytes', '01', '--json');
    expect([json.code, json.stderr]).toEqual([1, '']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      data: null,
      error: { code: 'decoder_errors', message: 'too short', lineNumber: null },
    });
  });

  it('removes terminal control sequences from script output, and still prints valid JSON', async () => {
    const { stdout } = await run(
      'function Decoder() { return { "\\u009b2J": "\\u202e \\u2028 \\u{e0041} \\u001b[2J" }; }',
      '--bytes',
      '01',
    );
    expect(stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
    expect(JSON.parse(stdout.slice(0, stdout.indexOf('time')))).toEqual({
      '\u009b2J': '\u202e \u2028 \u{e0041} \u001b[2J',
    });
  });

  it.each([
    ['invalid bytes', ['--bytes', '01 2'], /--bytes must be hex digits, two per byte, such as "01 28", or base64/],
    [
      'both directions at once',
      ['--bytes', '01', '--input', '{}'],
      /set either --input to run the encoder, or --bytes to run the decoder/,
    ],
    ['an invalid time', ['--bytes', '01', '--recv-time', 'noon'], /must be a time such as 2026-03-01T12:00:00Z/],
    [
      'an invalid port',
      ['--bytes', '01', '--fport', '256'],
      /must be a whole number from 1 to 223; with --bytes from 0 to 255/,
    ],
    [
      'the time of an uplink for an encoder',
      ['--input', '{}', '--recv-time', '2026-03-01T12:00:00Z'],
      /--recv-time and --downlink apply to decoders: add --bytes/,
    ],
    [
      'a downlink for an encoder',
      ['--input', '{}', '--downlink'],
      /--recv-time and --downlink apply to decoders: add --bytes/,
    ],
  ])('exits with 2 and explains the correct usage: %s', async (_, args, message) => {
    const { code, stdout, stderr } = await run(VALVE, ...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(message);
  });
});
