import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
import { exampleChirpStack, exampleLorawanDevices, lorawanDevicesFolder, yamlProfile, DECODER } from '../support/profileFolders';
import { TestClock } from '../support/testClock';
import { vendorOf } from '../support/vendors';

type Shown = Readonly<Record<string, unknown>>;

const [VALVE, COUNTER] = ['northmoor/valve-2/2.0/EU868', 'tessel-works/counter-7/0.4/EU868'];

const modelsOf = (ids: readonly string[]): string[] => [...new Set(ids.map((id) => id.split('/').slice(0, 2).join('/')))];

describe('plantroom profiles', () => {
  let folder: string;
  let yaml: string;
  let toml: string;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-cli-'));
    yaml = exampleLorawanDevices(join(folder, 'lorawan-devices'));
    toml = exampleChirpStack(join(folder, 'chirpstack-device-profiles'));
    await answerOf('migrate');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const run = async (...args: string[]): Promise<Ended> => await plantroomHere([...args, '--data-dir', join(folder, 'data')]);
  const profiles = async (...args: string[]): Promise<Ended> => await run('profiles', ...args);
  const answerOf = async <T = Shown>(...args: string[]): Promise<T> => {
    const { code, stdout, stderr } = await run(...args, '--json');
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as T;
  };
  const ids = async (...args: string[]): Promise<unknown[]> => (await answerOf<Shown[]>('profiles', 'list', '--ids', ...args)).map(({ id }) => id);
  const organization = async (name: string): Promise<string> => String((await answerOf('organizations', 'create', '--name', name))['id']);
  const onDatabase = async <T>(work: (database: Database) => Promise<T>): Promise<T> => {
    const database = await openDatabase({ url: '', dataDir: join(folder, 'data'), log: silentLogger, poolSize: 1 });
    try {
      return await work(database);
    } finally {
      await database.close();
    }
  };

  it('import either repository, and say that nothing changed the next time', async () => {
    const first = await profiles('import', yaml);
    expect([first.code, first.stderr]).toEqual([0, '']);
    expect(first.stdout).toBe('source         lorawan-devices\nvendors        2\ndevices        3\nprofiles       13\nnew            13\nchanged        0\nunchanged      0\nchangedCodecs  2\ngone           0\nkept           0\nwarnings       0\n');
    expect(await answerOf('profiles', 'import', yaml)).toEqual({ source: 'lorawan-devices', vendors: 2, devices: 3, profiles: 13, new: 0, changed: 0, unchanged: 13, changedCodecs: 0, gone: [], kept: [], warnings: [], stopped: false });
    expect(await answerOf('profiles', 'import', toml)).toMatchObject({ source: 'chirpstack-device-profiles', vendors: 2, devices: 4, new: 7, warnings: [] });
    expect(await answerOf('profiles', 'import', toml, '--vendor', 'northmoor', '--vendor', 'northmoor')).toMatchObject({ vendors: 1, devices: 1, unchanged: 3, gone: [] });
  });

  it('import what can be used, and show the rest: the first fifty, and plainly', async () => {
    const devices = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`broken-${at}`, 'name: [']));
    const good = { name: 'Good', description: '\u001b[31mred', firmwareVersions: [{ version: '1.0', profiles: { 'EU863-870': { id: 'eu' } } }] };
    const mixed = lorawanDevicesFolder(join(folder, 'mixed'), { evil: { name: 'E\u001b]0;mine\u0007vil', devices: { good, ...devices }, profiles: { eu: yamlProfile() } } });
    const shown = await profiles('import', mixed);
    expect(shown.code).toBe(0);
    expect(shown.stdout).toMatch(/^devices {8}1$[^]*^warnings {7}60\n\n file +reason/m);
    expect(shown.stdout.match(/vendor\/evil\/broken-\d+\.yaml/g)).toHaveLength(50);
    expect(shown.stdout).toMatch(/\nand 10 more warnings; --json has all of them\n$/);
    const again = await answerOf<{ warnings: unknown[] }>('profiles', 'import', mixed);
    expect(again.warnings).toHaveLength(60);
    expect(again.warnings[0]).toEqual({ file: expect.stringMatching(/^vendor\/evil\/broken-\d+\.yaml$/), reason: expect.any(String) });
    for (const args of [['list'], ['list', '--ids'], ['show', 'evil/good/1.0/EU868']]) expect((await profiles(...args)).stdout).not.toMatch(/(?!\n)\p{Cc}/u);
  });

  it('say what to give instead of what is no repository, no vendor or nothing that could be imported', async () => {
    mkdirSync(join(folder, 'empty'));
    for (const given of ['empty', 'missing']) expect(await profiles('import', join(folder, given))).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^plantroom: [^\n]*checkout[^\n]*\n$/) });
    expect(await profiles('import', yaml, '--vendor', 'nortmoor')).toMatchObject({ code: 2, stdout: '', stderr: 'plantroom: there is no vendor "nortmoor" in this repository; did you mean "northmoor"?\n' });
    const broken = lorawanDevicesFolder(join(folder, 'broken'), { none: { index: 'endDevices: [' } });
    const nothing = await profiles('import', broken);
    expect(nothing).toMatchObject({ code: 1, stderr: 'plantroom: nothing could be imported; the warnings say why\n' });
    expect(nothing.stdout).toContain('vendor/none/index.yaml');
    expect(await profiles('remove', '--source', 'elsewhere')).toMatchObject({ stderr: 'plantroom: --source "elsewhere" is none; give lorawan-devices or chirpstack-device-profiles\n' });
    for (const wrong of ['remove', `remove ${VALVE} --brand northmoor`, 'remove --source elsewhere', 'list --limit 0', 'list --band 27MHz', 'import', 'show']) {
      expect(await profiles(...wrong.split(' '))).toMatchObject({ code: 2, stdout: '' });
    }
  });

  it('name what the repository does not have any more, also whole vendors, and keep it', async () => {
    await profiles('import', yaml);
    const smaller = lorawanDevicesFolder(join(folder, 'smaller'), { northmoor: { devices: { 'valve-2': { name: 'Valve 2', description: '', firmwareVersions: [{ version: '2.0', profiles: { 'EU863-870': { id: 'eu' } } }] } }, profiles: { eu: yamlProfile() } } });
    const { gone, ...sums } = await answerOf<{ gone: string[] }>('profiles', 'import', smaller);
    expect(sums).toMatchObject({ vendors: 1, devices: 1, new: 0, changed: 1 });
    expect([gone.length, gone.filter((id) => id.startsWith('tessel-works/')).length]).toEqual([12, 2]);
    expect((await profiles('import', smaller)).stdout).toMatch(/^gone +12 that the repository does not have any more; they stay until `plantroom profiles remove`$/m);
    expect((await answerOf<{ gone: string[] }>('profiles', 'import', smaller, '--vendor', 'northmoor')).gone).toHaveLength(10);
    expect(await ids()).toHaveLength(13);
  });

  it('tell what could not be read from what is gone, and keep it as it was', async () => {
    await profiles('import', yaml);
    const other = { name: 'Other', description: '', firmwareVersions: [{ version: '1.0', profiles: { 'EU863-870': { id: 'eu' } } }] };
    const broken = lorawanDevicesFolder(join(folder, 'broken'), { northmoor: { devices: { 'valve-2': 'name: [', other }, profiles: { eu: yamlProfile() } }, 'tessel-works': { index: 'endDevices: [' } });
    const { gone, kept } = await answerOf<{ gone: string[]; kept: string[] }>('profiles', 'import', broken);
    expect([modelsOf(gone), modelsOf(kept), gone.length + kept.length]).toEqual([['northmoor/climate-1'], ['northmoor/valve-2', 'tessel-works/counter-7'], 13]);
    expect((await profiles('import', broken)).stdout).toMatch(new RegExp(`^kept +${kept.length} that could not be read; they stay as they were$`, 'm'));
    writeFileSync(join(folder, 'broken', 'vendor', 'index.yaml'), 'vendors: [');
    const nothing = await profiles('import', broken, '--json');
    const all = JSON.parse(nothing.stdout) as { gone: string[]; kept: string[] };
    expect([nothing.code, all.gone, all.kept.length]).toEqual([1, [], 14]);
  });

  it('show how far they came before an error, and which vendor it is about', async () => {
    const trigger = "create trigger full before insert on device_models when new.brand_id = 'tessel-works' begin select raise(abort, 'no room'); end";
    await onDatabase(async ({ db }) => void (await db.knex.raw(trigger)));
    const told = /^plantroom: stopped after 1 of 2 vendors; what is imported stays, and the same command goes on\nplantroom: at the vendor "tessel-works": [^\n]*no room[^\n]*\n$/;
    const failed = await profiles('import', yaml, '--json');
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringMatching(told)]);
    const { new: created, ...rest } = JSON.parse(failed.stdout) as { new: number };
    expect(rest).toMatchObject({ vendors: 1, unchanged: 0, stopped: true });
    expect((await ids()).length).toBe(created);
    const again = await profiles('import', yaml);
    expect([again.code, again.stderr]).toEqual([1, expect.stringMatching(told)]);
    expect(again.stdout).toMatch(new RegExp(`^vendors +1$[^]*^unchanged +${created}$`, 'm'));
    await onDatabase(async ({ db }) => void (await db.knex.raw('drop trigger full')));
    expect(await answerOf('profiles', 'import', yaml)).toMatchObject({ new: 13 - created, unchanged: created, stopped: false });
  });

  it('sum up more profiles than a call may have arguments', async () => {
    const report = new ImportReport(openRepository(yaml));
    const many = Array.from({ length: 200_000 }, (_, at) => `northmoor/gone-${at}/1.0/EU868`);
    report.add(vendorOf(), { models: 0, created: 0, changed: 0, unchanged: 0, changedCodecs: 0, gone: many, kept: many, warnings: [] });
    expect([report.gone.length, report.kept.length]).toEqual([200_000, 200_000]);
  });

  it('list models or profiles, and show one with its codec', async () => {
    expect(await profiles('list')).toMatchObject({ code: 0, stdout: 'none\n' });
    await profiles('import', yaml);
    await profiles('import', toml);
    const { stdout } = await profiles('list', '--brand', 'northmoor instruments', '--model', 'climate-1');
    expect(stdout.split('\n')).toEqual([expect.stringMatching(/^ brand +model +name +firmware +regions +source$/), expect.stringMatching(/^ northmoor +climate-1 +Climate 1 +1\.10, 1\.9, 1\.0 +AS923, EU868, US915 +lorawan-devices$/), '']);
    expect(await profiles('list', '--limit', '2')).toMatchObject({ code: 0, stderr: '2 of 7 models; --limit 7 shows all, --search, --brand, --model and --band fewer\n' });
    expect(await answerOf<unknown[]>('profiles', 'list', '--limit', '300')).toHaveLength(7);
    expect(await ids('--search', 'COUNTER')).toEqual(expect.arrayContaining([COUNTER]));
    expect(await ids('--search', 'valve', '--band', 'us902-928')).toEqual(['northmoor/valve-2/2.0/US915']);
    expect((await profiles('list', '--ids', '--model', 'level-3')).stdout).toMatch(/^ harrowgate\/level-3\/3\.10\.0\/US915 +1\.0\.3 +JS +true +false$/m);

    expect(await answerOf('profiles', 'show', VALVE)).toMatchObject({ id: VALVE, source: 'lorawan-devices', brandName: 'Northmoor Instruments', firmwareVersion: '2.0', region: 'EU868', supportsClassC: true, devices: 0, codec: expect.stringContaining('decodeUplink') });
    const shown = (await profiles('show', VALVE)).stdout;
    expect(shown).toMatch(/^macVersion +1\.0\.3$/m);
    expect(shown).toMatch(/^codec +\d+ characters; --codec shows them$/m);
    const { codec } = await answerOf<{ codec: string }>('profiles', 'show', VALVE, '--codec');
    expect((await profiles('show', VALVE, '--codec')).stdout).toBe(`${codec}\n`);
    expect(await profiles('show', 'harrowgate/tag-5/1.0/EU868', '--codec')).toMatchObject({ code: 1, stdout: '', stderr: 'plantroom: the profile "harrowgate/tag-5/1.0/EU868" has no codec\n' });
    expect(await profiles('show', 'harrowgate/tag-5/1.0/CN470')).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/^plantroom: no profile "harrowgate[^\n]*\n$/) });
  });

  it('show the lines of a codec on a terminal, and nothing that would steer it', async () => {
    const device = { name: 'Lamp', description: '', firmwareVersions: [{ version: '1', profiles: { 'EU863-870': { id: 'eu', codec: 'lamp-codec' } } }] };
    const lamp = lorawanDevicesFolder(join(folder, 'lamp'), { lamps: { devices: { lamp: device }, profiles: { eu: yamlProfile() }, codecs: { 'lamp-codec': { uplinkDecoder: { fileName: 'lamp.js' } } }, files: { 'lamp.js': `// \u001b[2J\r\n${DECODER}` } } });
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

  it('remove what no device uses, and name what devices use', async () => {
    await profiles('import', yaml);
    await profiles('import', toml);
    await answerOf('users', 'create', '--name', 'Owner');
    const organizationId = await organization('Site');
    await onDatabase(async (database) => {
      const connection = { id: newId(), organizationId, connectorId: 'gateway', name: 'Gateway', description: '', enabled: true, configuration: {}, sealedSecrets: {}, policy: {}, createdAt: 0, updatedAt: 0, revision: 1 };
      await new ConnectionRepository(database.db).create(organizationId, connection);
      const hooks = { onBindingChanged: async () => {}, onDeviceDeleted: async () => {}, sensorsInUse: async () => [] };
      const devices = new DeviceService({ database, clock: new TestClock(), cursors: new Cursors(Buffer.alloc(32)), hooks });
      for (const at of [1, 2]) await devices.create(organizationId, { name: `Valve ${at}`, physicalDevice: { clientDeviceId: `valve-${at}`, connectionId: connection.id, configuration: { profileId: VALVE } } });
    });
    expect(await answerOf('profiles', 'show', VALVE)).toMatchObject({ devices: 2 });
    const used = await profiles('remove', VALVE);
    expect(used).toMatchObject({ code: 1, stderr: `plantroom: the profile "${VALVE}" stays, because 2 devices use it; give those devices another configuration.profileId, or none, then remove it again\n` });
    expect(used.stdout).toMatch(/^removed +0\nmodels +0\ncodecs +0\nkept +1\n\n id +devices\n northmoor\/valve-2\/2\.0\/EU868 +2\n$/);
    expect(await answerOf('profiles', 'remove', COUNTER)).toEqual({ removed: 1, models: 0, codecs: 0, kept: [] });
    expect(await profiles('remove', COUNTER)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(`no profile "${COUNTER}" was imported`) });
    const rest = await profiles('remove', '--brand', 'northmoor', '--json');
    expect([rest.code, JSON.parse(rest.stdout)]).toEqual([1, { removed: 13, models: 2, codecs: 2, kept: [{ id: VALVE, devices: 2 }] }]);
    expect(await answerOf('profiles', 'remove', '--source', 'chirpstack-device-profiles')).toMatchObject({ removed: 4, models: 3 });
    expect(await profiles('remove', '--source', 'chirpstack-device-profiles', '--brand', 'harrowgate')).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('no profile of the brand "harrowgate" and the source chirpstack-device-profiles was imported') });
    expect(await ids()).toEqual([VALVE, 'tessel-works/counter-7/0.4/AS923_2']);
  });

  it('tell every organization who changed them, and nobody when nothing changed', async () => {
    await profiles('import', toml); // there is nobody to tell yet
    await answerOf('users', 'create', '--name', 'Owner');
    const organizations = [await organization('North'), await organization('South')];
    await profiles('import', toml);
    await profiles('import', yaml, '--vendor', 'tessel-works');
    await profiles('import', yaml);
    await profiles('import', yaml);
    await profiles('remove', '--brand', 'nobody');
    await profiles('remove', COUNTER);
    for (const id of organizations) {
      const events = await answerOf<Shown[]>('audit', 'list', '--organization', id, '--resource', 'device-profiles');
      expect(events.map(({ method, actor, outcome, fields }) => [method, actor, outcome, fields])).toEqual([
        ['profiles remove', 'command_line', 'succeeded', ['ids']],
        ['profiles import', 'command_line', 'succeeded', []],
        ['profiles import', 'command_line', 'succeeded', ['vendor']],
      ]);
      expect((await run('audit', 'verify', '--organization', id)).code).toBe(0);
    }
    expect(await answerOf('audit', 'list', '--organization', 'none', '--resource', 'device-profiles')).toEqual([]);
  });

  it('stop between two vendors when they are asked to, and go on the next time', async () => {
    const listening = process.listenerCount('SIGINT');
    const running = run('profiles', 'import', yaml, '--json');
    while (process.listenerCount('SIGINT') === listening) await new Promise((resolve) => setImmediate(resolve));
    process.emit('SIGINT');
    const { code, stdout, stderr } = await running;
    const { vendors, new: created, ...rest } = JSON.parse(stdout) as { vendors: number; new: number };
    expect([code, stderr]).toEqual([1, `plantroom: stopped after ${vendors} of 2 vendors; what is imported stays, and the same command goes on\n`]);
    expect(rest).toMatchObject({ stopped: true, gone: [] });
    expect(vendors).toBeLessThan(2);
    expect(process.listenerCount('SIGINT')).toBe(listening);
    expect(await answerOf('profiles', 'import', yaml)).toMatchObject({ vendors: 2, new: 13 - created, unchanged: created, stopped: false });
  });
});
