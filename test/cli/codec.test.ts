import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { plantroomHere } from '../support/commandInProcess';
import { plantroom, type Ended } from '../support/commandLine';

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'plantroom-codec-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Writes a file into the folder. Content that is not a string is written as JSON. */
function write(name: string, content: unknown): string {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

async function run(script: string, ...args: string[]): Promise<Ended> {
  return await plantroomHere(['codec', 'run', '--script', script, ...args]);
}

async function testFolder(...args: string[]): Promise<Ended> {
  return await plantroomHere(['codec', 'test', folder, ...args]);
}

async function results(...args: string[]): Promise<{
  code: number | null;
  passed: number;
  failed: number;
  results: { script: string; example: string; result: string; why: string }[];
}> {
  const { code, stdout, stderr } = await testFolder('--json', ...args);
  expect(stderr).toBe('');
  return { code, ...(JSON.parse(stdout) as { passed: number; failed: number; results: [] }) };
}

const VALVE = `function encodeDownlink(input) {
  console.log('to', input.data.position);
  return { bytes: [1, input.data.position], fPort: 10, warnings: ['slow'] };
}`;

describe('plantroom codec run', () => {
  it('prints the bytes in every format, the port, warnings and logs', async () => {
    const { code, stdout, stderr } = await run(write('valve.js', VALVE), '--input', '{"position": 40}');
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout.replace(/\d+\.\d\d ms/, 'N ms').split('\n')).toEqual([
      'bytes   01 28',
      'base64  ASg=',
      'list    [1, 40]',
      'fPort   10',
      'time    N ms',
      'warnings:',
      '  slow',
      'logs:',
      '  to 40',
      '',
    ]);
  });

  it('prints the response of a preview with --json', async () => {
    const { stdout } = await run(write('valve.js', VALVE), '--input', '{"position": 40}', '--json');
    expect(JSON.parse(stdout)).toEqual({
      output: { bytes: [1, 40], bytesHex: '0128', bytesBase64: 'ASg=', fPort: 10 },
      logs: ['to 40'],
      warnings: ['slow'],
      executionTimeMs: expect.any(Number),
      error: null,
    });
  });

  it('passes the port, variables and data to the script, also from stdin', async () => {
    const script = write(
      'all.js',
      'function encodeDownlink(i) { return [i.fPort, Number(i.variables.offset), i.data.length]; }',
    );
    const { stdout } = await plantroom(
      [
        'codec',
        'run',
        '--script',
        script,
        '--input',
        '-',
        '--fport',
        '223',
        '--variables',
        '{"offset": "7"}',
        '--json',
      ],
      {},
      '[1, 2, 3]',
    );
    expect(JSON.parse(stdout)).toMatchObject({ output: { bytes: [223, 7, 3], fPort: 223 } });
  });

  it('exits with 1 for an encoder that fails, and points at the line', async () => {
    const script = write('bad.js', 'function encodeDownlink(input) {\n  return input.data.a.b;\n}\n');
    const { code, stdout, stderr } = await run(script, '--input', '{}');
    expect(code).toBe(1);
    expect(stdout).toMatch(/^time +\S+ ms\n$/);
    expect(stderr.split('\n')).toEqual([
      expect.stringContaining(`plantroom: ${script}:2: runtime_error: `),
      '  1 | function encodeDownlink(input) {',
      '  2 |   return input.data.a.b;',
      '    |   ^^^^^^^^^^^^^^^^^^^^^^',
      '',
    ]);
    const json = await run(script, '--input', '{}', '--json');
    expect([json.code, json.stderr]).toEqual([1, '']);
    expect(JSON.parse(json.stdout)).toMatchObject({ output: null, error: { code: 'runtime_error', lineNumber: 2 } });
  });

  it('removes terminal control sequences from script output', async () => {
    const { stdout, stderr } = await run(
      write(
        'evil.js',
        'function encodeDownlink() { console.log("\\u001b[2J\\u202e"); return { errors: ["a\\u001b]0;x\\u0007\\nb"] }; }',
      ),
      '--input',
      '{}',
    );
    expect(stdout).toContain('  \\u{1b}[2J\\u{202e}\n');
    expect(stderr).toContain('encoder_errors: a\\u001b]0;x\\u0007\\nb\n');
  });

  it('applies the limits of the server configuration', async () => {
    const { stdout } = await plantroomHere(
      [
        'codec',
        'run',
        '--script',
        write('loop.js', 'function encodeDownlink() { for (;;); }'),
        '--input',
        '{}',
        '--json',
      ],
      { PLANTROOM_CODEC_TIMEOUT_MS: '20' },
    );
    expect(JSON.parse(stdout)).toMatchObject({ output: null, error: { code: 'timeout' } });
  });

  it.each([
    ['no script', ['--input', '{}'], /required option '--script <file>' not specified/],
    ['no input', ['--script', 'x.js'], /set either --input to run the encoder, or --bytes to run the decoder/],
    ['a missing script', ['--script', '/none.js', '--input', '{}'], /\/none\.js cannot be read \(ENOENT\)/],
    ['a folder instead of a script', ['--script', '/', '--input', '{}'], /\/ cannot be read \(EISDIR\)/],
    [
      'an input that is not JSON',
      ['--script', 'VALVE', '--input', '{"a":\n [1, x]}'],
      /--input is not JSON at line 2, column 6: Unexpected token 'x'/,
    ],
    ['an empty input', ['--script', 'VALVE', '--input', ''], /--input is not JSON at line 1, column 1: Unexpected end/],
    [
      'an input with a key that would be lost',
      ['--script', 'VALVE', '--input', '{"__proto__": 1}'],
      /--input has the key "__proto__"/,
    ],
    [
      'variables that are not strings',
      ['--script', 'VALVE', '--input', '{}', '--variables', '{"a": 1}'],
      /--variables must be an object with string values/,
    ],
    [
      'an invalid port',
      ['--script', 'VALVE', '--input', '{}', '--fport', '224'],
      /must be a whole number from 1 to 223/,
    ],
    ['port 0', ['--script', 'VALVE', '--input', '{}', '--fport', '0'], /must be a whole number from 1 to 223/],
    ['an unknown option', ['--script', 'VALVE', '--input', '{}', '--port', '1'], /unknown option '--port'/],
  ])('exits with 2 and explains the correct usage: %s', async (_, args, message) => {
    const valve = write('valve.js', VALVE);
    const { code, stdout, stderr } = await plantroomHere([
      'codec',
      'run',
      ...args.map((arg) => (arg === 'VALVE' ? valve : arg)),
    ]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/\n {4}at /);
  });
});

describe('plantroom codec test', () => {
  const good = { description: 'opens', input: { data: { position: 40 } }, output: { bytes: [1, 40], fPort: 10 } };

  it('prints a table and a summary', async () => {
    write('a/valve.js', VALVE);
    write('a/valve.json', [good, { ...good, description: 'wrong', output: { bytes: [1, 41] } }]);
    write('lonely.js', VALVE);
    const { code, stdout, stderr } = await testFolder();
    expect([code, stderr]).toEqual([1, '']);
    expect(
      stdout
        .replaceAll(/\d+\.\d ms/g, 'N ms')
        .replaceAll(/ {2,}/g, '  ')
        .split('\n'),
    ).toEqual([
      ' script  example  result  time  why',
      ' a/valve.js  opens  passed  N ms  -',
      ' a/valve.js  wrong  failed  N ms  bytes[1]: expected 41, got 40 (expected 01 29, got 01 28)',
      ' lonely.js  -  no examples  -  there is no example file next to it',
      '',
      '1 passed, 1 failed, 1 without examples',
      '',
    ]);
  });

  it('fails for a script that cannot be compiled, also without examples', async () => {
    write('lonely.js', "\nimport { x } from './x';\n");
    const { code, stdout } = await testFolder();
    expect(code).toBe(1);
    expect(stdout).toMatch(/lonely\.js .* failed .* syntax_error in line 2: .*remove `import`/);
  });

  it('tests the other scripts if a link is broken or circular', async () => {
    write('valve.js', VALVE);
    write('valve.json', [good]);
    symlinkSync(join(folder, 'gone.js'), join(folder, 'a.js'));
    symlinkSync(join(folder, 'z.js'), join(folder, 'z.js'));
    const { code, ...answer } = await results();
    expect([code, answer.passed, answer.failed]).toEqual([1, 1, 2]);
    expect(answer.results.map(({ script, result, why }) => [script, result, why])).toEqual([
      ['a.js', 'failed', 'cannot be read (ENOENT): repair or remove it'],
      ['valve.js', 'passed', ''],
      ['z.js', 'failed', 'cannot be read (ELOOP): repair or remove it'],
    ]);
  });

  it('exits with 0 if all examples pass, and finds them in each supported location', async () => {
    write('one.js', VALVE);
    write('one.examples.json', [good]);
    write('one.json', { id: 'something else' });
    write('two.js', VALVE);
    write('two.json', [good]);
    write('three/index.js', VALVE);
    write('three/examples.json', [good]);
    write('node_modules/x.js', VALVE);
    write('.hidden/x.js', VALVE);
    symlinkSync(folder, join(folder, 'three', 'circle'));
    const { code, ...answer } = await results();
    expect(answer).toMatchObject({ passed: 3, failed: 0, noExamples: 0, skipped: 0 });
    expect([code, answer.results.map(({ script }) => script)]).toEqual([0, ['one.js', 'three/index.js', 'two.js']]);
  });

  it('names the first difference by its path', async () => {
    write('v.js', 'function encodeDownlink(i) { if (i.data.fail) throw new Error("broken"); return i.data; }');
    const cases: [data: unknown, output: unknown, why: string][] = [
      [{ bytes: [1, 2] }, { bytes: [1, 2, 3] }, 'bytes: expected 3, got 2 (expected 01 02 03, got 01 02)'],
      [{ bytes: [1] }, { bytes: [] }, 'bytes: expected 0, got 1 (expected none, got 01)'],
      [{ bytes: [9, 2] }, { bytes: [1, 2] }, 'bytes[0]: expected 1, got 9 (expected 01 02, got 09 02)'],
      [{ bytes: [1] }, { bytes: [1], fPort: 2 }, 'fPort: expected 2, got none'],
      [{ bytes: [1], fPort: 3 }, { bytes: [1], fPort: 2 }, 'fPort: expected 2, got 3'],
      [
        { bytes: [1], warnings: ['a', 'c'] },
        { bytes: [1], warnings: ['a', 'b'] },
        'warnings[1]: expected "b", got "c"',
      ],
      [{ bytes: [1], warnings: ['a'] }, { bytes: [1], warnings: [] }, 'warnings[0]: none expected, got "a"'],
      [{ bytes: [1], warnings: ['a'] }, { bytes: [1] }, ''],
      [{ errors: ['no'] }, { errors: ['no'] }, ''],
      [{ errors: ['no'] }, { errors: ['yes'] }, 'errors: expected "yes", got "no"'],
      [{ errors: ['no'] }, { bytes: [1] }, 'errors: expected none, got "no"'],
      [{ bytes: [1] }, { errors: ['no'] }, 'errors: expected "no", got none'],
      [{ fail: true }, { errors: ['broken'] }, 'runtime_error at line 1: Error: broken'],
      [{ bytes: [256] }, { bytes: [0] }, expect.stringMatching(/^bad_output: .*256/) as string],
    ];
    write(
      'v.json',
      cases.map(([data, output]) => ({ description: '', input: { data }, output })),
    );
    const answer = await results();
    expect(answer.results.map(({ why }) => why)).toEqual(cases.map(([, , why]) => why));
    expect(answer.results.map(({ example }) => example)).toEqual(cases.map((_, at) => `[${at}]`));
  });

  it('names invalid files and examples with their location, and runs the others', async () => {
    const files = ['broken', 'end', 'object', 'mixed', 'fine', 'empty'];
    for (const name of files) write(`${name}.js`, VALVE);
    write('broken.json', '[\n  {"description": oops}\n]');
    write('end.json', '[{');
    write('object.json', { a: 1 });
    write('mixed.json', [
      good,
      { description: 'no bytes', input: { data: 1 }, output: { bytes: [1, 300] } },
      null,
      { description: 'deaf', output: {} },
      { description: 'silent', input: { data: {} }, output: { fPort: null } },
    ]);
    write('fine.json', [good]);
    write('empty.json', []);
    const { code, ...answer } = await results();
    expect(code).toBe(1);
    expect(answer.results).toMatchObject([
      {
        script: 'broken.js',
        result: 'failed',
        why: `${join(folder, 'broken.json')} is not JSON at line 2, column 19: Unexpected token 'o'`,
      },
      { script: 'empty.js', result: 'no examples', why: expect.stringContaining('is an empty list') },
      { script: 'end.js', result: 'failed', why: expect.stringMatching(/end\.json is not JSON at line 1, column 3: /) },
      { script: 'fine.js', result: 'passed' },
      { script: 'mixed.js', result: 'passed' },
      {
        script: 'mixed.js',
        result: 'failed',
        why: expect.stringMatching(/mixed\.json: \[1\]\.output\.bytes\[1\]: .*255/),
      },
      { script: 'mixed.js', example: '[2]', result: 'failed', why: expect.stringContaining('[2]: ') },
      { script: 'mixed.js', result: 'failed', why: expect.stringMatching(/\[3\]\.input: must be an object with data/) },
      {
        script: 'mixed.js',
        example: 'silent',
        result: 'skipped',
        why: 'nothing to compare: set output.bytes or output.errors',
        timeMs: null,
      },
      { script: 'object.js', result: 'failed', why: expect.stringContaining('object.json: must be a list') },
    ]);
  });

  it('accepts null for optional fields', async () => {
    write(
      'v.js',
      'function encodeDownlink(i) { return i.data === null ? { errors: ["no"] } : { bytes: [i.fPort === undefined ? 1 : 2], warnings: ["w"] }; }',
    );
    write('v.json', [
      {
        description: 'bytes',
        input: { data: {}, fPort: null, variables: null, bytes: null },
        output: { bytes: [1], fPort: null, warnings: null, errors: null },
      },
      { description: 'errors', input: { data: null }, output: { bytes: null, errors: ['no'] } },
    ]);
    expect(await results()).toMatchObject({ code: 0, passed: 2, failed: 0, skipped: 0 });
  });

  it('explains how to fix an invalid example', async () => {
    write('v.js', VALVE);
    const bad = [
      1,
      { description: true, input: null, output: 'x' },
      {
        description: '',
        input: { data: 1, fPort: 0, variables: { a: 1 } },
        output: { bytes: 'x?', warnings: 1, errors: [1] },
      },
    ];
    write('v.json', bad);
    expect(
      (await results()).results.map(({ why }) => why.slice(why.indexOf('['))).map((why) => why.split('; [')),
    ).toEqual([
      ['[0]: must be an object with description, input and output'],
      [
        '[1].description: must be a string: set the name of the example',
        '1].input: must be an object with data, and optional fPort and variables',
        '1].output: must be an object with bytes or errors, and optional fPort and warnings',
      ],
      [
        '[2].input.fPort: must be a whole number from 1 to 223',
        '2].input.variables.a: must be a string',
        '2].output.bytes: must be a list of whole numbers from 0 to 255, or a string of hex digits or base64',
        '2].output.warnings: must be a list of strings',
        '2].output.errors[0]: must be a string',
      ],
    ]);
  });

  it('runs decoders (examples with bytes) in every form of decoder and bytes', async () => {
    write(
      'thermometer.js',
      `
      function decodeUplink({ bytes, fPort, recvTime, variables }) {
        if (fPort === 9) return { errors: ['no such port'] };
        return { data: { raw: bytes, fPort, at: recvTime && recvTime.toISOString(), ...variables }, warnings: fPort === 0 ? ['odd'] : [] };
      }
      function encodeDownlink({ data }) { return { bytes: [data.limit] }; }`,
    );
    write('thermometer.json', [
      {
        description: 'list',
        input: { bytes: [1, 40], fPort: 2 },
        output: { data: { raw: [1, 40], fPort: 2 }, warnings: [], errors: null },
      },
      {
        name: 'hex',
        input: { bytes: '01 28', fPort: 2, recvTime: '2026-03-01T12:00:00+01:00' },
        expected: { data: { raw: [1, 40], fPort: 2, at: '2026-03-01T11:00:00.000Z' } },
      },
      {
        name: 'base64',
        input: { bytes: 'ASg=', fPort: 0, recvTime: '2026-03-01 12:00:00', variables: { unit: 'K' } },
        expected: { data: { raw: [1, 40], fPort: 0, at: '2026-03-01T12:00:00.000Z', unit: 'K' }, warnings: ['odd'] },
      },
      {
        name: 'refused',
        input: { bytes: '', fPort: 9 },
        expected: { errors: 'no such port' },
        normalizedOutput: { data: [{ air: 1 }] },
      },
      { name: 'encoder', input: { data: { limit: 7 } }, expected: { bytes: '0x07' } },
    ]);
    write('old.js', 'function Decode(fPort, bytes) { return { sum: fPort + bytes[0] }; }');
    write('old.json', [{ description: 'adds', input: { bytes: '0a', fPort: 2 }, output: { data: { sum: 12 } } }]);
    write('oldest.js', 'function Decoder(bytes, fPort) { return { sum: fPort + bytes[0] }; }');
    write('oldest.json', [{ description: 'adds', input: { bytes: '0A', fPort: 2 }, output: { data: { sum: 12 } } }]);
    const { results: rows, ...summary } = await results();
    expect(rows.map(({ example, why }) => [example, why])).toEqual(
      ['adds', 'adds', 'list', 'hex', 'base64', 'refused', 'encoder'].map((name) => [name, '']),
    );
    expect(summary).toEqual({ code: 0, passed: 7, failed: 0, noExamples: 0, skipped: 0 });
  });

  it('passes all input fields of an example and its extraInput to the script', async () => {
    const echo = 'var { bytes, data, fPort, recvTime, variables, ...rest } = i; return';
    write(
      'echo.js',
      `function decodeUplink(i) { ${echo} { data: { rest, byte: i.bytes[0] } }; }\nfunction encodeDownlink(i) { ${echo} [rest.extraInput.level, rest.state.n]; }`,
    );
    const extraInput = { devEui: '0011', calibration: [1, 2] };
    write('echo.json', [
      {
        description: 'inside',
        input: { bytes: [7], extraInput, state: { n: 1 } },
        output: { data: { rest: { extraInput, state: { n: 1 } }, byte: 7 } },
      },
      {
        description: 'beside',
        input: { bytes: [7], fPort: 1 },
        extraInput,
        output: { data: { rest: { extraInput }, byte: 7 } },
      },
      {
        description: 'encoder',
        input: { data: {}, extraInput: { level: 3 }, state: { n: 4 } },
        output: { bytes: [3, 4] },
      },
      {
        description: 'deep',
        input: { bytes: [7], state: JSON.parse('['.repeat(40) + ']'.repeat(40)) as unknown },
        output: { data: {} },
      },
    ]);
    expect((await results()).results.map(({ example, why }) => [example, why])).toEqual([
      ['inside', ''],
      ['beside', ''],
      ['encoder', ''],
      ['deep', expect.stringContaining('[3].input is nested deeper than 32 levels') as string],
    ]);
  });

  it('names the first difference in decoder output', async () => {
    write(
      'echo.js',
      'function decodeUplink(i) { return JSON.parse(i.variables.answer, (_, value) => (value === "NaN" ? NaN : value === "-0" ? -0 : value)); }',
    );
    const cases: [answer: object, output: object, why: string][] = [
      [{ data: { temperature: 21.4 } }, { data: { temperature: 21.5 } }, 'data.temperature: expected 21.5, got 21.4'],
      [{ data: { temperature: 21.499999999999996 } }, { data: { temperature: 21.5 } }, ''],
      [
        { data: { temperature: 21.49999999 } },
        { data: { temperature: 21.5 } },
        'data.temperature: expected 21.5, got 21.49999999 (differs only by rounding)',
      ],
      [{ data: { a: { 'b c': [1, 2] } } }, { data: { a: { 'b c': [1, 3] } } }, 'data.a["b c"][1]: expected 3, got 2'],
      [{ data: { a: [1] } }, { data: { a: [1, 2] } }, 'data.a: expected 2 items, got 1 item'],
      [{ data: { a: [] } }, { data: { a: {} } }, 'data.a: expected {}, got []'],
      [{ data: { a: '1' } }, { data: { a: 1 } }, 'data.a: expected 1, got "1"'],
      [{ data: {} }, { data: { a: false } }, 'data.a: expected false, got none'],
      [
        { data: { a: 1, b: 'x'.repeat(200) } },
        { data: { a: 1 } },
        `data.b: none expected, got "${'x'.repeat(99)} … (102 more characters)`,
      ],
      [{ data: { a: 1 } }, { data: { a: null } }, 'data.a: expected null, got 1'],
      [{ data: { a: 1 }, warnings: ['w'] }, { data: { a: 1 }, warnings: [] }, 'warnings[0]: none expected, got "w"'],
      [{ data: { a: 1 } }, { errors: ['no'] }, 'errors: expected "no", got none'],
      [{ errors: ['no'] }, { data: { a: 1 } }, 'errors: expected none, got "no"'],
      [{ data: { b: 2, a: [{ y: 1, x: 'NaN' }], c: '-0' } }, { data: { c: 0, a: [{ x: null, y: 1 }], b: 2 } }, ''],
      [{ data: {} }, { data: { a: null } }, ''],
      [{ data: { a: 1 } }, { data: null, warnings: [] }, ''],
      [{ data: 5 }, { data: {} }, expect.stringMatching(/^bad_output: /) as string],
    ];
    write(
      'echo.json',
      cases.map(([answer, output]) => ({
        input: { bytes: [], variables: { answer: JSON.stringify(answer) } },
        output,
      })),
    );
    expect((await results()).results.map(({ why }) => why)).toEqual(cases.map(([, , why]) => why));
  });

  it('explains how to fix an invalid decoder example', async () => {
    write('v.js', 'function decodeUplink() { return { data: {} }; }');
    const input = { bytes: [1] };
    const cases: [item: object, why: string][] = [
      [{ input: { bytes: [256] } }, '.input.bytes[0]: must be a whole number from 0 to 255'],
      [
        { input: { bytes: '012' } },
        '.input.bytes: must be a list of whole numbers from 0 to 255, or a string of hex digits or base64',
      ],
      [{ input: { ...input, fPort: 256 } }, '.input.fPort: must be a whole number from 0 to 255'],
      [{ input: { ...input, recvTime: 'noon' } }, '.input.recvTime: must be a time such as 2026-03-01T12:00:00Z'],
      [
        { input: { ...input, recvTime: '2026-13-01T12:00' } },
        '.input.recvTime: must be a time such as 2026-03-01T12:00:00Z',
      ],
      [{ input, output: { data: 5 } }, '.output.data: must be an object'],
      [{ input, expected: { data: [1] } }, '.expected.data: must be an object'],
      [{ input, output: 'x' }, '.output: must be an object with data or errors, and optional warnings'],
    ];
    write('v.json', [...cases.map(([item]) => item), { input }]);
    const file = join(folder, 'v.json');
    expect((await results()).results.map((row) => row.why)).toEqual([
      ...cases.map(([, text], at) => `${file}: [${at}]${text}`),
      'nothing to compare: set output.data or output.errors',
    ]);
  });

  it('is not blocked by hostile scripts', async () => {
    write('loop.js', 'function encodeDownlink() { for (;;); }');
    write(
      'loop.json',
      Array.from({ length: 500 }, () => good),
    );
    write('native.js', 'function encodeDownlink() { Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1); }');
    write(
      'native.json',
      Array.from({ length: 500 }, () => good),
    );
    write('decoder.js', 'function decodeUplink() { for (;;); }');
    write(
      'decoder.json',
      Array.from({ length: 500 }, () => ({ input: { bytes: [1] }, output: { data: {} } })),
    );
    write('valve.js', VALVE);
    write(
      'valve.json',
      Array.from({ length: 50 }, () => good),
    );
    const answer = await results('--codec-timeout-ms', '100', '--codec-hard-timeout-ms', '500');
    expect(answer).toMatchObject({ passed: 50, failed: 1500 });
    expect(answer.results.at(0)).toMatchObject({ why: expect.stringMatching(/^timeout/) });
    expect(answer.results.at(499)).toMatchObject({
      why: 'not run: the script exceeded its time or memory limit 3 times',
    });
  });

  it('exits with 1 if there is nothing to test, with 2 for a missing folder', async () => {
    expect(await testFolder()).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('No scripts (*.js) in'),
    });
    write('valve.js', VALVE);
    expect(await testFolder()).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('0 passed, 0 failed, 1 without examples'),
    });
    expect(await plantroomHere(['codec', 'test', join(folder, 'none')])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('none cannot be read (ENOENT)'),
    });
    expect(await plantroomHere(['codec', 'test'])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: 'plantroom: specify a folder of scripts, or --profiles for the imported codecs\n',
    });
  });
});

describe('docs/codec.md', () => {
  it('contains examples that work when pasted', () => {
    const root = join(__dirname, '..', '..');
    const blocks = [
      ...readFileSync(join(root, 'docs', 'codec.md'), 'utf8').matchAll(/<!-- paste -->\n```sh\n([^]*?)```/g),
    ].map(([, block]) => block);
    const script = [`plantroom() { "${process.execPath}" "${join(root, 'dist', 'main.js')}" "$@"; }`, ...blocks].join(
      '\n',
    );
    const stdout = execFileSync('bash', ['-euc', script], { cwd: folder, encoding: 'utf8' });
    expect(stdout).toMatch(/^bytes +01 28$/m);
    expect(stdout).toMatch(/^ {2}"position": 40$/m);
    expect(stdout).toContain('3 passed, 0 failed');
  });
});
