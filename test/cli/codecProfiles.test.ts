import { join } from 'node:path';
import { ProfileImports, type ProfileSource } from '../../src/profiles';
import { plantroomHere } from '../support/commandInProcess';
import type { Ended } from '../support/commandLine';
import { sqliteOnly, type TestDatabase } from '../support/engines';
import { exampleChirpStack, exampleLorawanDevices } from '../support/profileFolders';
import { TestClock } from '../support/testClock';
import { createCodec, getModel, getProfile, getVendor } from '../support/vendors';

/** A codec for both directions: it rejects `fPort` 9 and hangs on byte 255. */
const BOTH = `
  function decodeUplink(input) {
    while (input.bytes[0] === 255);
    if (input.fPort === 9) return { errors: ['no such port'] };
    return { data: { celsius: input.bytes[0] / 10, at: input.recvTime, site: input.variables.site, unit: input.extraInput?.unit } };
  }
  function encodeDownlink(input) { return { bytes: [input.data.minutes], fPort: 7 }; }
  function decodeDownlink(input) { return { data: { minutes: input.bytes[0] } }; }`;

const decodes = (byte: number, celsius: number): object => ({
  description: `${byte} is ${celsius}`,
  input: { bytes: [byte], fPort: 1 },
  output: { data: { celsius } },
});

interface Answer {
  readonly code: number | null;
  readonly vendors: readonly Readonly<Record<string, unknown>>[];
  readonly failures: readonly Readonly<Record<string, unknown>>[];
}

describe.each(sqliteOnly())('plantroom codec test --profiles on $name', (engine) => {
  let test: TestDatabase;
  beforeEach(async () => (test = await engine.createDatabase()));
  afterEach(async () => await test.drop());

  const run = async (...args: string[]): Promise<Ended> =>
    await plantroomHere([
      'codec',
      'test',
      '--profiles',
      '--data-dir',
      test.dataDir,
      ...(test.url === '' ? [] : ['--database-url', test.url]),
      ...args,
    ]);
  const toAnswer = async (...args: string[]): Promise<Answer> => {
    const { code, stdout, stderr } = await run(...args, '--json');
    expect(stderr).toBe('');
    return { code, ...(JSON.parse(stdout) as Omit<Answer, 'code'>) };
  };
  /** Stores the codecs of a vendor, each with a model from that source that uses it. */
  const store = async (source: ProfileSource, id: string, given: Parameters<typeof createCodec>[]): Promise<void> => {
    const models = given.map(([codec]) =>
      getModel({ id: `${source}-${codec}`, name: codec, profiles: [getProfile({ codec })] }),
    );
    const vendor = getVendor({ id, models, codecs: given.map((codec) => createCodec(...codec)) });
    await new ProfileImports({ database: test.database, clock: new TestClock() }).store(source, vendor);
  };

  it('runs every role of both repository layouts, and prints a summary by vendor', async () => {
    await store('lorawan-devices', 'quellwerk', [
      [
        'both',
        { decoder: BOTH, encoder: BOTH, downlinkDecoder: BOTH },
        [
          {
            role: 'decoder',
            file: 'vendor/quellwerk/both.yaml',
            items: [
              decodes(215, 21.5),
              {
                description: 'timed',
                input: { bytes: [10], fPort: 1, recvTime: '2026-03-01T12:00:00Z', extraInput: { unit: 'C' } },
                output: { data: { celsius: 1 + 2e-14, at: '2026-03-01T12:00:00.000Z', unit: 'C' } },
              },
              {
                description: 'refused',
                input: { bytes: [1], fPort: 9 },
                output: { errors: ['no such port'] },
                normalizedOutput: {},
              },
            ],
          },
          {
            role: 'encoder',
            file: 'vendor/quellwerk/both.yaml',
            items: [{ description: 'sets', input: { data: { minutes: 5 } }, output: { bytes: [5], fPort: 7 } }],
          },
          {
            role: 'downlinkDecoder',
            file: 'vendor/quellwerk/both.yaml',
            items: [{ description: 'reads back', input: { bytes: [5], fPort: 7 }, output: { data: { minutes: 5 } } }],
          },
        ],
      ],
      ['lonely', { decoder: BOTH }, []],
    ]);
    await store('chirpstack-device-profiles', 'quellwerk', [
      [
        'both',
        { decoder: BOTH },
        [
          {
            role: 'decoder',
            file: 'vendors/quellwerk/codecs/test_decode_both.json',
            items: [
              {
                name: 'warm',
                input: { fPort: 1, bytes: '64', variables: { site: 'B' } },
                expected: { data: { celsius: 10, site: 'B' } },
              },
            ],
          },
        ],
      ],
    ]);
    await store('chirpstack-device-profiles', 'seewacht', [
      [
        's',
        { decoder: BOTH },
        [{ role: 'decoder', file: 's.json', items: [{ name: 'silent', input: { bytes: 'ZA==' } }] }],
      ],
    ]);

    const none = { passed: 0, failed: 0, skipped: 0, noExamples: 0 };
    expect(await toAnswer()).toEqual({
      code: 0,
      codecs: 4,
      passed: 6,
      failed: 0,
      skipped: 1,
      noExamples: 1,
      vendors: [
        { vendor: 'quellwerk', source: 'chirpstack-device-profiles', ...none, codecs: 1, passed: 1 },
        { vendor: 'quellwerk', source: 'lorawan-devices', ...none, codecs: 2, passed: 5, noExamples: 1 },
        { vendor: 'seewacht', source: 'chirpstack-device-profiles', ...none, codecs: 1, skipped: 1 },
      ],
      failures: [],
    });
    const { code, stdout } = await run();
    expect(code).toBe(0);
    expect(stdout.replaceAll(/ {2,}/g, '  ').split('\n')).toEqual([
      ' vendor  source  codecs  passed  failed  skipped  no examples',
      ' quellwerk  chirpstack-device-profiles  1  1  0  0  0',
      ' quellwerk  lorawan-devices  2  5  0  0  1',
      ' seewacht  chirpstack-device-profiles  1  0  0  1  0',
      '',
      '6 passed, 0 failed, 1 of 4 codecs without examples, 1 skipped',
      '',
    ]);
    const listVendors = async (...args: string[]): Promise<unknown[]> =>
      (await toAnswer(...args)).vendors.map(({ vendor, source }) => `${String(source)}/${String(vendor)}`);
    expect(await listVendors('--vendor', 'SeeWacht')).toEqual(['chirpstack-device-profiles/seewacht']);
    expect(
      await listVendors('--vendor', 'quellwerk', '--vendor', 'seewacht', '--source', 'chirpstack-device-profiles'),
    ).toEqual(['chirpstack-device-profiles/quellwerk', 'chirpstack-device-profiles/seewacht']);
    expect(await listVendors('--source', 'lorawan-devices')).toEqual(['lorawan-devices/quellwerk']);
    expect(await run('--vendor', 'seewach')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: 'plantroom: no imported codec of the vendor "seewach"; did you mean "seewacht"?\n',
    });
    expect(await run('--vendor', 'seewacht', '--source', 'lorawan-devices')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no imported codec of the vendor "seewacht"'),
    });
  });

  it('lists failures, and skips only the remaining examples of a codec that hangs', async () => {
    const file = 'vendor/quellwerk/c.yaml';
    await store('lorawan-devices', 'quellwerk', [
      ['broken', { decoder: 'function decodeUplink(' }, [{ role: 'decoder', file, items: [decodes(1, 0.1)] }]],
      [
        'hangs',
        { decoder: BOTH, encoder: BOTH },
        [
          { role: 'decoder', file, items: Array.from({ length: 60 }, () => decodes(255, 25.5)) },
          { role: 'encoder', file, items: [{ input: { data: { minutes: 1 } }, output: { bytes: [1] } }] },
        ],
      ],
      [
        'odd',
        { decoder: BOTH },
        [
          {
            role: 'decoder',
            file,
            items: [5, { description: 'wrong\u001b[2J', input: { bytes: 'x' } }, decodes(10, 2)],
          },
          { role: 'encoder', file, items: [{ input: { data: 1 }, output: { bytes: [1] } }] },
        ],
      ],
      [
        'well',
        { decoder: BOTH },
        [{ role: 'decoder', file, items: Array.from({ length: 45 }, (_, at) => decodes(at, at / 10)) }],
      ],
    ]);
    const { failures, ...summary } = await toAnswer('--codec-timeout-ms', '50', '--codec-hard-timeout-ms', '200');
    expect(summary).toMatchObject({ code: 1, codecs: 4, passed: 46, failed: 65, skipped: 0, noExamples: 0 });
    expect(failures.slice(0, 2)).toEqual([
      {
        vendor: 'quellwerk',
        source: 'lorawan-devices',
        codec: 'broken',
        role: 'decoder',
        file,
        example: '1 is 0.1',
        why: expect.stringMatching(/^syntax_error at line 1: /),
        timeMs: expect.any(Number),
      },
      {
        vendor: 'quellwerk',
        source: 'lorawan-devices',
        codec: 'hangs',
        role: 'decoder',
        file,
        example: '255 is 25.5',
        why: expect.stringMatching(/^timeout/),
        timeMs: expect.any(Number),
      },
    ]);
    expect(failures[60]).toMatchObject({
      codec: 'hangs',
      why: expect.stringMatching(/^not run: the script exceeded its time or memory limit \d times$/),
      timeMs: null,
    });
    expect(failures.slice(61).map(({ codec, example, why }) => [codec, example, why])).toEqual([
      ['odd', '[0]', `${file}: [0]: must be an object with description, input and output`],
      [
        'odd',
        'wrong\u001b[2J',
        `${file}: [1].input.bytes: must be a list of whole numbers from 0 to 255, or a string of hex digits or base64`,
      ],
      ['odd', '10 is 2', 'data.celsius: expected 2, got 1'],
      ['odd', '[0]', 'the codec has no encoder'],
    ]);
    const { stdout } = await run('--codec-timeout-ms', '50', '--codec-hard-timeout-ms', '200');
    expect(stdout).toMatch(
      /^ quellwerk +odd +decoder +wrong\\u\{1b\}\[2J +vendor\/quellwerk\/c\.yaml: \[1\]\.input\.bytes: must be/m,
    );
    expect(stdout).not.toContain('\u001b');
  });

  it('prints only the first hundred failures', async () => {
    await store('lorawan-devices', 'quellwerk', [
      [
        'c',
        { decoder: BOTH },
        [
          {
            role: 'decoder',
            file: 'c.yaml',
            items: Array.from({ length: 123 }, (_, at) => ({ ...decodes(1, 2), description: `number ${at}` })),
          },
        ],
      ],
    ]);
    const { code, stdout } = await run();
    expect([code, stdout.match(/number \d+ /g)?.length]).toEqual([1, 100]);
    expect(stdout).toContain('\n... and 23 more; --json shows all\n\n0 passed, 123 failed\n');
    expect((await toAnswer()).failures.map(({ example }) => example)).toEqual(
      Array.from({ length: 123 }, (_, at) => `number ${at}`),
    );
  });

  it('runs codecs imported from both layouts, and reports examples that do not match', async () => {
    for (const [name, writeRepository] of [
      ['yaml', exampleLorawanDevices],
      ['toml', exampleChirpStack],
    ] as const) {
      const folder = join(test.dataDir, name);
      writeRepository(folder);
      const imported = await plantroomHere([
        'profiles',
        'import',
        folder,
        '--data-dir',
        test.dataDir,
        ...(test.url === '' ? [] : ['--database-url', test.url]),
      ]);
      expect(imported).toMatchObject({ code: 0, stderr: '' });
    }
    const { failures, ...summary } = await toAnswer();
    expect(summary).toMatchObject({ code: 1, codecs: 4, passed: 9, failed: 2, skipped: 0, noExamples: 0 });
    expect(failures.map(({ source, codec, role, file, why }) => [source, codec, role, file, why])).toEqual([
      [
        'chirpstack-device-profiles',
        'valve-9',
        'encoder',
        'vendors/northmoor/codecs/test_encode_valve-9.json',
        'bytes[0]: expected 7, got 0 (expected 07, got 00)',
      ],
      [
        'lorawan-devices',
        'climate-codec',
        'decoder',
        'vendor/northmoor/climate-codec.yaml',
        'data.temperature: expected 11, got 10',
      ],
    ]);
  });

  it('reads codecs in pages, each codec once', async () => {
    for (const id of ['quellwerk', 'quellwerk-2'])
      await store(
        'lorawan-devices',
        id,
        Array.from({ length: 45 }, (_, at) => [
          `c${at}`,
          { decoder: BOTH },
          [{ role: 'decoder', file: 'c.yaml', items: [decodes(at, at / 10)] }],
        ]),
      );
    expect(await toAnswer()).toMatchObject({
      code: 0,
      codecs: 90,
      passed: 90,
      vendors: [
        { codecs: 45, passed: 45 },
        { codecs: 45, passed: 45 },
      ],
    });
  });

  it('exits with 1 if nothing was imported, and with 2 for wrong usage', async () => {
    expect(await run()).toEqual({
      code: 1,
      stdout: 'No codecs found: import profiles with `plantroom profiles import <folder>` first.\n',
      stderr: '',
    });
    expect(await toAnswer()).toEqual({
      code: 1,
      codecs: 0,
      passed: 0,
      failed: 0,
      skipped: 0,
      noExamples: 0,
      vendors: [],
      failures: [],
    });
    expect(await run('folder')).toMatchObject({
      code: 2,
      stderr: 'plantroom: a folder and --profiles cannot be combined: use one of them\n',
    });
    expect(await run('--vendor', 'nobody')).toMatchObject({
      code: 2,
      stderr: 'plantroom: no imported codec of the vendor "nobody"\n',
    });
    expect(await run('--source', 'elsewhere')).toMatchObject({
      code: 2,
      stderr: 'plantroom: --source "elsewhere" is not a source: use lorawan-devices or chirpstack-device-profiles\n',
    });
    expect(await plantroomHere(['codec', 'test', 'folder', '--vendor', 'x'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('add --profiles'),
    });
  });
});
