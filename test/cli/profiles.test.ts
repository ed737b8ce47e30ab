import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ImportReport } from '../../src/cli/profiles/importReport';
import { ConnectionRepository } from '../../src/connections';
import { openDatabase, type Database } from '../../src/database';
import { DeviceService } from '../../src/devices';
import { newId } from '../../src/kernel/ids';
import { silentLogger } from '../../src/kernel/logger';
import { Cursors } from '../../src/kernel/pages';
import { openRepository } from '../../src/profiles';
import { plantroomHere } from '../support/commandInProcess';
import type { Ended } from '../support/commandLine';
import { noDeviceHooks } from '../support/deviceHooks';
import {
  exampleChirpStack,
  exampleLorawanDevices,
  lorawanDevicesFolder,
  yamlProfile,
  DECODER,
} from '../support/profileFolders';
import { TestClock } from '../support/testClock';
import { getVendor } from '../support/vendors';

type Shown = Readonly<Record<string, unknown>>;

const [VALVE, COUNTER] = ['northmoor/valve-2/2.0/EU868', 'tessel-works/counter-7/0.4/EU868'];

const listModels = (ids: readonly string[]): string[] => [
  ...new Set(ids.map((id) => id.split('/').slice(0, 2).join('/'))),
];

describe('plantroom profiles', () => {
  let folder: string;
  let yaml: string;
  let toml: string;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-cli-'));
    yaml = exampleLorawanDevices(join(folder, 'lorawan-devices'));
    toml = exampleChirpStack(join(folder, 'chirpstack-device-profiles'));
    await toAnswer('migrate');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const run = async (...args: string[]): Promise<Ended> =>
    await plantroomHere([...args, '--data-dir', join(folder, 'data')]);
  const profiles = async (...args: string[]): Promise<Ended> => await run('profiles', ...args);
  const toAnswer = async <T = Shown>(...args: string[]): Promise<T> => {
    const { code, stdout, stderr } = await run(...args, '--json');
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as T;
  };
  const ids = async (...args: string[]): Promise<unknown[]> =>
    (await toAnswer<Shown[]>('profiles', 'list', '--ids', ...args)).map(({ id }) => id);
  const organization = async (name: string): Promise<string> =>
    String((await toAnswer('organizations', 'create', '--name', name))['id']);
  const onDatabase = async <T>(work: (database: Database) => Promise<T>): Promise<T> => {
    const database = await openDatabase({ url: '', dataDir: join(folder, 'data'), log: silentLogger, poolSize: 1 });
    try {
      return await work(database);
    } finally {
      await database.close();
    }
  };

  it('import both repository layouts, and report no changes on the next import', async () => {
    const first = await profiles('import', yaml);
    expect([first.code, first.stderr]).toEqual([0, '']);
    expect(first.stdout).toBe(
      'source         lorawan-devices\nvendors        2\ndevices        3\nprofiles       13\nnew            13\nchanged        0\nunchanged      0\nchangedCodecs  2\ngone           0\nkept           0\nwarnings       0\n',
    );
    expect(await toAnswer('profiles', 'import', yaml)).toEqual({
      source: 'lorawan-devices',
      vendors: 2,
      devices: 3,
      profiles: 13,
      new: 0,
      changed: 0,
      unchanged: 13,
      changedCodecs: 0,
      gone: [],
      kept: [],
      warnings: [],
      stopped: false,
    });
    expect(await toAnswer('profiles', 'import', toml)).toMatchObject({
      source: 'chirpstack-device-profiles',
      vendors: 2,
      devices: 4,
      new: 7,
      warnings: [],
    });
    expect(await toAnswer('profiles', 'import', toml, '--vendor', 'northmoor', '--vendor', 'northmoor')).toMatchObject({
      vendors: 1,
      devices: 1,
      unchanged: 3,
      gone: [],
    });
  });

  it('import a script that cannot be compiled, and report its line', async () => {
    const file = readdirSync(yaml, { recursive: true, encoding: 'utf8' }).find((name) => name.endsWith('valve.js'));
    if (file === undefined) throw new Error('the example has no valve.js');
    writeFileSync(join(yaml, file), 'function decodeUplink(input) {\n  const a: number = 1;\n}\n');
    const { warnings } = await toAnswer<{ warnings: unknown[] }>('profiles', 'import', yaml);
    expect(warnings).toEqual([
      {
        file: 'northmoor/valve.js',
        reason: expect.stringMatching(
          /^cannot be compiled: syntax_error in line 2: .*looks like TypeScript.*cannot run$/,
        ),
      },
    ]);
  });

  it('import valid profiles, and report the first fifty errors', async () => {
    const devices = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`broken-${at}`, 'name: [']));
    const good = {
      name: 'Good',
      description: '\u001b[31mred',
      firmwareVersions: [{ version: '1.0', profiles: { 'EU863-870': { id: 'eu' } } }],
    };
    const mixed = lorawanDevicesFolder(join(folder, 'mixed'), {
      evil: { name: 'E\u001b]0;mine\u0007vil', devices: { good, ...devices }, profiles: { eu: yamlProfile() } },
    });
    const shown = await profiles('import', mixed);
    expect(shown.code).toBe(0);
    expect(shown.stdout).toMatch(/^devices {8}1$[^]*^warnings {7}60\n\n file +reason/m);
    expect(shown.stdout.match(/vendor\/evil\/broken-\d+\.yaml/g)).toHaveLength(50);
    expect(shown.stdout).toMatch(/\nand 10 more warnings; use --json to see all\n$/);
    const repeated = await toAnswer<{ warnings: unknown[] }>('profiles', 'import', mixed);
    expect(repeated.warnings).toHaveLength(60);
    expect(repeated.warnings[0]).toEqual({
      file: expect.stringMatching(/^vendor\/evil\/broken-\d+\.yaml$/),
      reason: expect.any(String),
    });
    for (const args of [['list'], ['list', '--ids'], ['show', 'evil/good/1.0/EU868']])
      expect((await profiles(...args)).stdout).not.toMatch(/(?!\n)\p{Cc}/u);
  });

  it('suggest a correction for a source that is not a repository, an unknown vendor, or an empty import', async () => {
    mkdirSync(join(folder, 'empty'));
    for (const given of ['empty', 'missing'])
      expect(await profiles('import', join(folder, given))).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(/^plantroom: [^\n]*checkout[^\n]*\n$/),
      });
    expect(await profiles('import', yaml, '--vendor', 'nortmoor')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: 'plantroom: vendor "nortmoor" not found in this repository; did you mean "northmoor"?\n',
    });
    const broken = lorawanDevicesFolder(join(folder, 'broken'), { none: { index: 'endDevices: [' } });
    const nothing = await profiles('import', broken);
    expect(nothing).toMatchObject({ code: 1, stderr: 'plantroom: nothing was imported; see the warnings\n' });
    expect(nothing.stdout).toContain('vendor/none/index.yaml');
    expect(await profiles('remove', '--source', 'elsewhere')).toMatchObject({
      stderr: 'plantroom: --source "elsewhere" is not a source: use lorawan-devices or chirpstack-device-profiles\n',
    });
    for (const invalidCommand of [
      'remove',
      `remove ${VALVE} --brand northmoor`,
      'remove --source elsewhere',
      'list --limit 0',
      'list --band 27MHz',
      'import',
      'show',
    ]) {
      expect(await profiles(...invalidCommand.split(' '))).toMatchObject({ code: 2, stdout: '' });
    }
  });

  it('name profiles and vendors that the repository no longer contains, and keep them', async () => {
    await profiles('import', yaml);
    const smaller = lorawanDevicesFolder(join(folder, 'smaller'), {
      northmoor: {
        devices: {
          'valve-2': {
            name: 'Valve 2',
            description: '',
            firmwareVersions: [{ version: '2.0', profiles: { 'EU863-870': { id: 'eu' } } }],
          },
        },
        profiles: { eu: yamlProfile() },
      },
    });
    const { gone, ...summary } = await toAnswer<{ gone: string[] }>('profiles', 'import', smaller);
    expect(summary).toMatchObject({ vendors: 1, devices: 1, new: 0, changed: 1 });
    expect([gone.length, gone.filter((id) => id.startsWith('tessel-works/')).length]).toEqual([12, 2]);
    expect((await profiles('import', smaller)).stdout).toMatch(
      /^gone +12 no longer in the repository; kept until `plantroom profiles remove`$/m,
    );
    expect(
      (await toAnswer<{ gone: string[] }>('profiles', 'import', smaller, '--vendor', 'northmoor')).gone,
    ).toHaveLength(10);
    expect(await ids()).toHaveLength(13);
  });

  it('distinguish unreadable files from removed ones, and keep the stored profiles', async () => {
    await profiles('import', yaml);
    const other = {
      name: 'Other',
      description: '',
      firmwareVersions: [{ version: '1.0', profiles: { 'EU863-870': { id: 'eu' } } }],
    };
    const broken = lorawanDevicesFolder(join(folder, 'broken'), {
      northmoor: { devices: { 'valve-2': 'name: [', other }, profiles: { eu: yamlProfile() } },
      'tessel-works': { index: 'endDevices: [' },
    });
    const { gone, kept } = await toAnswer<{ gone: string[]; kept: string[] }>('profiles', 'import', broken);
    expect([listModels(gone), listModels(kept), gone.length + kept.length]).toEqual([
      ['northmoor/climate-1'],
      ['northmoor/valve-2', 'tessel-works/counter-7'],
      13,
    ]);
    expect((await profiles('import', broken)).stdout).toMatch(
      new RegExp(`^kept +${kept.length} unreadable; kept unchanged$`, 'm'),
    );
    writeFileSync(join(folder, 'broken', 'vendor', 'index.yaml'), 'vendors: [');
    const nothing = await profiles('import', broken, '--json');
    const all = JSON.parse(nothing.stdout) as { gone: string[]; kept: string[] };
    expect([nothing.code, all.gone, all.kept.length]).toEqual([1, [], 14]);
  });

  it('show the progress before an error, and the vendor that it concerns', async () => {
    const trigger =
      "create trigger full before insert on device_models when new.brand_id = 'tessel-works' begin select raise(abort, 'no room'); end";
    await onDatabase(async ({ db }) => void (await db.knex.raw(trigger)));
    const expectedError =
      /^plantroom: stopped after 1 of 2 vendors; imported profiles are kept, run the same command again to continue\nplantroom: vendor "tessel-works": [^\n]*no room[^\n]*\n$/;
    const failed = await profiles('import', yaml, '--json');
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringMatching(expectedError)]);
    const { new: created, ...rest } = JSON.parse(failed.stdout) as { new: number };
    expect(rest).toMatchObject({ vendors: 1, unchanged: 0, stopped: true });
    expect((await ids()).length).toBe(created);
    const repeated = await profiles('import', yaml);
    expect([repeated.code, repeated.stderr]).toEqual([1, expect.stringMatching(expectedError)]);
    expect(repeated.stdout).toMatch(new RegExp(`^vendors +1$[^]*^unchanged +${created}$`, 'm'));
    await onDatabase(async ({ db }) => void (await db.knex.raw('drop trigger full')));
    expect(await toAnswer('profiles', 'import', yaml)).toMatchObject({
      new: 13 - created,
      unchanged: created,
      stopped: false,
    });
  });

  it('summarize more profiles than a call may have arguments', async () => {
    const report = new ImportReport(openRepository(yaml));
    const many = Array.from({ length: 200_000 }, (_, at) => `northmoor/gone-${at}/1.0/EU868`);
    report.add(getVendor(), {
      models: 0,
      created: 0,
      changed: 0,
      unchanged: 0,
      changedCodecs: 0,
      gone: many,
      kept: many,
      warnings: [],
    });
    expect([report.gone.length, report.kept.length]).toEqual([200_000, 200_000]);
  });

  it('list models or profiles, and show one with its codec', async () => {
    expect(await profiles('list')).toMatchObject({ code: 0, stdout: 'none\n' });
    await profiles('import', yaml);
    await profiles('import', toml);
    const { stdout } = await profiles('list', '--brand', 'northmoor instruments', '--model', 'climate-1');
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^ brand +model +name +firmware +regions +source$/),
      expect.stringMatching(
        /^ northmoor +climate-1 +Climate 1 +1\.10, 1\.9, 1\.0 +AS923, EU868, US915 +lorawan-devices$/,
      ),
      '',
    ]);
    expect(await profiles('list', '--limit', '2')).toMatchObject({
      code: 0,
      stderr: '2 of 7 models; use --limit 7 to see all, or filter with --search, --brand, --model or --band\n',
    });
    expect(await toAnswer<unknown[]>('profiles', 'list', '--limit', '300')).toHaveLength(7);
    expect(await ids('--search', 'COUNTER')).toEqual(expect.arrayContaining([COUNTER]));
    expect(await ids('--search', 'valve', '--band', 'us902-928')).toEqual(['northmoor/valve-2/2.0/US915']);
    expect((await profiles('list', '--ids', '--model', 'level-3')).stdout).toMatch(
      /^ harrowgate\/level-3\/3\.10\.0\/US915 +1\.0\.3 +JS +true +false$/m,
    );

    expect(await toAnswer('profiles', 'show', VALVE)).toMatchObject({
      id: VALVE,
      source: 'lorawan-devices',
      brandName: 'Northmoor Instruments',
      firmwareVersion: '2.0',
      region: 'EU868',
      supportsClassC: true,
      devices: 0,
      codec: expect.stringContaining('decodeUplink'),
    });
    const shown = (await profiles('show', VALVE)).stdout;
    expect(shown).toMatch(/^macVersion +1\.0\.3$/m);
    expect(shown).toMatch(/^codec +\d+ characters; use --codec to print them$/m);
    const { codec } = await toAnswer<{ codec: string }>('profiles', 'show', VALVE, '--codec');
    expect((await profiles('show', VALVE, '--codec')).stdout).toBe(`${codec}\n`);
    expect(await profiles('show', 'harrowgate/tag-5/1.0/EU868', '--codec')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'plantroom: profile "harrowgate/tag-5/1.0/EU868" has no codec\n',
    });
    expect(await profiles('show', 'harrowgate/tag-5/1.0/CN470')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^plantroom: device profile "harrowgate[^\n]*\n$/),
    });
  });

  it('print the lines of a codec without terminal control characters', async () => {
    const device = {
      name: 'Lamp',
      description: '',
      firmwareVersions: [{ version: '1', profiles: { 'EU863-870': { id: 'eu', codec: 'lamp-codec' } } }],
    };
    const lamp = lorawanDevicesFolder(join(folder, 'lamp'), {
      lamps: {
        devices: { lamp: device },
        profiles: { eu: yamlProfile() },
        codecs: { 'lamp-codec': { uplinkDecoder: { fileName: 'lamp.js' } } },
        files: { 'lamp.js': `// \u001b[2J\r\n${DECODER}` },
      },
    });
    await profiles('import', lamp);
    const { isTTY } = process.stdout;
    expect((await profiles('show', 'lamps/lamp/1/EU868', '--codec')).stdout).toContain('\u001b[2J');
    process.stdout.isTTY = true;
    try {
      const { stdout } = await profiles('show', 'lamps/lamp/1/EU868', '--codec');
      expect(stdout.split('\n').slice(0, 2)).toEqual([String.raw`// \u{1b}[2J`, 'function tenths(bytes) {']);
    } finally {
      process.stdout.isTTY = isTTY;
    }
  });

  it('remove unused profiles, and name the devices that use the others', async () => {
    await profiles('import', yaml);
    await profiles('import', toml);
    await toAnswer('users', 'create', '--name', 'Owner');
    const organizationId = await organization('Site');
    await onDatabase(async (database) => {
      const connection = {
        id: newId(),
        organizationId,
        connectorId: 'gateway',
        name: 'Gateway',
        description: '',
        enabled: true,
        configuration: {},
        encryptedSecrets: {},
        policy: {},
        createdAt: 0,
        updatedAt: 0,
        revision: 1,
      };
      await new ConnectionRepository(database.db).create(organizationId, connection);
      const devices = new DeviceService({
        database,
        clock: new TestClock(),
        cursors: new Cursors(Buffer.alloc(32)),
        hooks: noDeviceHooks,
      });
      for (const at of [1, 2])
        await devices.create(organizationId, {
          name: `Valve ${at}`,
          physicalDevice: {
            clientDeviceId: `valve-${at}`,
            connectionId: connection.id,
            configuration: { profileId: VALVE },
          },
        });
    });
    expect(await toAnswer('profiles', 'show', VALVE)).toMatchObject({ devices: 2 });
    const used = await profiles('remove', VALVE);
    expect(used).toMatchObject({
      code: 1,
      stderr: `plantroom: profile "${VALVE}" was not removed, because 2 devices use it; change or remove configuration.profileId of these devices, then try again\n`,
    });
    expect(used.stdout).toMatch(
      /^removed +0\nmodels +0\ncodecs +0\nkept +1\n\n id +devices\n northmoor\/valve-2\/2\.0\/EU868 +2\n$/,
    );
    expect(await toAnswer('profiles', 'remove', COUNTER)).toEqual({ removed: 1, models: 0, codecs: 0, kept: [] });
    expect(await profiles('remove', COUNTER)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(`profile "${COUNTER}" not found`),
    });
    const rest = await profiles('remove', '--brand', 'northmoor', '--json');
    expect([rest.code, JSON.parse(rest.stdout)]).toEqual([
      1,
      { removed: 13, models: 2, codecs: 2, kept: [{ id: VALVE, devices: 2 }] },
    ]);
    expect(await toAnswer('profiles', 'remove', '--source', 'chirpstack-device-profiles')).toMatchObject({
      removed: 4,
      models: 3,
    });
    expect(await profiles('remove', '--source', 'chirpstack-device-profiles', '--brand', 'harrowgate')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(
        'no profiles of the brand "harrowgate" and the source chirpstack-device-profiles are imported',
      ),
    });
    expect(await ids()).toEqual([VALVE, 'tessel-works/counter-7/0.4/AS923_2']);
  });

  it('record a change in the audit trail of every organization, and record nothing without a change', async () => {
    await profiles('import', toml); // No organization exists yet.
    await toAnswer('users', 'create', '--name', 'Owner');
    const organizations = [await organization('North'), await organization('South')];
    await profiles('import', toml);
    await profiles('import', yaml, '--vendor', 'tessel-works');
    await profiles('import', yaml);
    await profiles('import', yaml);
    await profiles('remove', '--brand', 'nobody');
    await profiles('remove', COUNTER);
    for (const id of organizations) {
      const events = await toAnswer<Shown[]>('audit', 'list', '--organization', id, '--resource', 'device-profiles');
      expect(events.map(({ method, actor, outcome, fields }) => [method, actor, outcome, fields])).toEqual([
        ['profiles remove', 'command_line', 'succeeded', ['ids']],
        ['profiles import', 'command_line', 'succeeded', []],
        ['profiles import', 'command_line', 'succeeded', ['vendor']],
      ]);
      expect((await run('audit', 'verify', '--organization', id)).code).toBe(0);
    }
    expect(await toAnswer('audit', 'list', '--organization', 'none', '--resource', 'device-profiles')).toEqual([]);
  });

  it('stop between two vendors on request, and continue on the next run', async () => {
    const listening = process.listenerCount('SIGINT');
    const running = run('profiles', 'import', yaml, '--json');
    while (process.listenerCount('SIGINT') === listening) await new Promise((resolve) => setImmediate(resolve));
    process.emit('SIGINT');
    const { code, stdout, stderr } = await running;
    const { vendors, new: created, ...rest } = JSON.parse(stdout) as { vendors: number; new: number };
    expect([code, stderr]).toEqual([
      1,
      `plantroom: stopped after ${vendors} of 2 vendors; imported profiles are kept, run the same command again to continue\n`,
    ]);
    expect(rest).toMatchObject({ stopped: true, gone: [] });
    expect(vendors).toBeLessThan(2);
    expect(process.listenerCount('SIGINT')).toBe(listening);
    expect(await toAnswer('profiles', 'import', yaml)).toMatchObject({
      vendors: 2,
      new: 13 - created,
      unchanged: created,
      stopped: false,
    });
  });
});
