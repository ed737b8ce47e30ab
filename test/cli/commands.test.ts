import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MIGRATIONS } from '../../src/database/migrations';
import { plantroomHere } from '../support/commandInProcess';
import { plantroom } from '../support/commandLine';
import { engines } from '../support/engines';

async function toAnswer(env: Readonly<Record<string, string>>, ...args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await plantroomHere([...args, '--json'], env);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

const ON_DATABASE = [
  ['keys', 'list'],
  ['keys', 'show', 'x'],
  ['keys', 'create', '--name', 'x', '--all-scopes'],
  ['audit', 'list'],
  ['audit', 'head'],
  ['audit', 'verify'],
  ['audit', 'export'],
  ['organizations', 'list'],
  ['organizations', 'show', 'x'],
  ['users', 'list'],
  ['users', 'show', 'x'],
  ['members', 'list'],
  ['roles', 'list'],
  ['profiles', 'list'],
  ['profiles', 'show', 'x'],
  ['codec', 'test', '--profiles'],
];
const OTHERS = [
  ['doctor'],
  ['backup'],
  ['backup', 'list'],
  ['config', 'print'],
  ['version'],
  ['health'],
  ['migrate', '--dry-run'],
];

describe('plantroom', () => {
  let folder: string;
  let env: Record<string, string>;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-cli-'));
    env = {
      PLANTROOM_DATA_DIR: join(folder, 'data'),
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
    };
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('prints its version', async () => {
    const { code, stdout } = await plantroom(['version', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      node: process.versions.node,
      sqlite: expect.stringMatching(/^3\.\d+/),
      schema: MIGRATIONS.at(-1)?.name,
      form: 'checkout',
    });
  });

  it.each([
    ['no command', [], /Usage: plantroom/],
    ['an unknown command', ['srve'], /unknown command 'srve'\n\(Did you mean serve\?\)/],
    ['an unknown option', ['serve', '--prot', '1'], /unknown option '--prot'/],
    ['a missing option', ['simulate'], /required option '--connection <id>' not specified/],
    [
      'no key',
      ['simulate', '--connection', 'c', '--address', 'localhost:1'],
      /requires an API key with the scope gateways:write: set --key/,
    ],
    [
      'no organization',
      ['simulate', '--connection', 'c', '--address', 'localhost:1', '--key', 'plr_x'],
      /organization of the key is required: set --organization/,
    ],
    ['an invalid broker', ['simulate', 'mqtt', '--broker', 'localhost'], /must be a URL that starts with mqtt:/],
    [
      'a topic for all devices',
      ['simulate', 'mqtt', '--uplink-topic', 'a/+/up'],
      /must contain \{clientDeviceId\} and no wildcard/,
    ],
    ['an invalid application', ['simulate', 'chirpstack', '--application', '1'], /must be a lower-case UUID/],
    ['contradictory answers', ['simulate', 'mqtt', '--simulate-reject', '--simulate-timeout'], /not both/],
    ['an invalid time', ['simulate', '--connection', 'c', '--delay', 'soon'], /use a number and a unit/],
    ['mutually exclusive options', ['keys', 'create', '--name', 'x'], /either --scopes a,b or --all-scopes/],
    ['no server to call', ['call', '--list'], /no server is running with this data folder/],
  ])('exits with 2 and explains the correct usage: %s', async (_, args, message) => {
    const { code, stderr } = await plantroomHere(args, env);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/\n {4}at /);
  });

  it.each([
    ['serve'],
    ['migrate'],
    ['secrets', 'rotate'],
    ['organizations', 'create'],
    ['organizations', 'list'],
    ['organizations', 'update'],
    ['organizations', 'show'],
    ['organizations', 'delete'],
    ['users', 'create'],
    ['users', 'list'],
    ['keys', 'create'],
    ['keys', 'list'],
    ['keys', 'revoke'],
    ['keys', 'rotate'],
    ['config', 'print'],
    ['call'],
    ['doctor'],
    ['version'],
    ['simulate', 'gateway'],
    ['simulate', 'mqtt'],
    ['simulate', 'chirpstack'],
    ['demo'],
    ['codec', 'run'],
    ['codec', 'test'],
  ])('prints help for %s', async (...names) => {
    const { code, stdout } = await plantroomHere([...names, '--help']);
    expect(code).toBe(0);
    expect(stdout).toContain('--json');
  });

  it.each([...ON_DATABASE, ...OTHERS].map((args) => [args.join(' '), args] as const))(
    'creates nothing if the data folder is missing: %s',
    async (_, args) => {
      const { code, stderr } = await plantroomHere(args, env);
      expect(readdirSync(folder)).toEqual([]);
      if (!ON_DATABASE.includes(args)) return;
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: expect.stringMatching(/there is no database in .*--data-dir/) as string,
      });
    },
  );

  it('creates nothing in an empty PostgreSQL database', async () => {
    const empty = await engines()[1]!.createEmpty([]);
    try {
      for (const args of ON_DATABASE) {
        const { code, stderr } = await plantroomHere(args, { ...env, PLANTROOM_DATABASE_URL: empty.url });
        expect({ code, stderr }).toEqual({
          code: 1,
          stderr: expect.stringContaining('the database is empty') as string,
        });
      }
      const tables = await empty.database.db.knex('pg_tables').where({ schemaname: 'public' }).pluck('tablename');
      expect({ tables, folder: readdirSync(folder) }).toEqual({ tables: [], folder: [] });
    } finally {
      await empty.drop();
    }
  });

  it('reports all configuration errors, and exits with 2', async () => {
    const { code, stderr } = await plantroom(['serve'], {
      ...env,
      PLANTROOM_LOG_LEVEL: 'loud',
      PLANTROOM_TLS_MOED: 'off',
      PLANTROOM_GRPC_LISTEN: '50051',
    });
    expect(code).toBe(2);
    expect(stderr.trim().split('\n')).toEqual([
      'plantroom: 3 errors in the configuration:',
      '  PLANTROOM_TLS_MOED: unknown setting; did you mean PLANTROOM_TLS_MODE?',
      expect.stringContaining('PLANTROOM_GRPC_LISTEN is "50051": must be host:port'),
      expect.stringContaining('PLANTROOM_LOG_LEVEL is "loud": must be one of debug, info, warn, error'),
    ]);
  });

  it('manages organizations, users and keys', async () => {
    await toAnswer(env, 'migrate');
    const user = (await toAnswer(env, 'users', 'create', '--name', 'Operator')) as { id: string };
    const organization = (await toAnswer(env, 'organizations', 'create', '--name', 'Site')) as { id: string };
    expect(await toAnswer(env, 'organizations', 'list')).toMatchObject([{ id: organization.id, name: 'Site' }]);
    const created = (await toAnswer(
      env,
      'keys',
      'create',
      '--organization',
      organization.id,
      '--name',
      'Reader',
      '--scopes',
      'devices:read,sensors:read',
      '--ttl',
      '90d',
    )) as { id: string; key: string };
    expect(created).toMatchObject({
      key: expect.stringMatching(/^plr_[0-9A-Za-z]{49}$/),
      scopes: ['devices:read', 'sensors:read'],
      ownerUserId: user.id,
    });
    const rotated = (await toAnswer(env, 'keys', 'rotate', created.id, '--grace', '1h')) as { id: string; key: string };
    expect(rotated.key).not.toBe(created.key);
    expect(await toAnswer(env, 'keys', 'revoke', rotated.id)).toMatchObject({
      id: rotated.id,
      revokedAt: expect.any(String),
    });
    const listed = (await toAnswer(env, 'keys', 'list')) as { id: string }[];
    expect(listed.map((key) => key.id)).toEqual([rotated.id, created.id]);
    expect(JSON.stringify(listed)).not.toContain(created.key);
  });

  it('changes the retention of readings of an organization', async () => {
    await toAnswer(env, 'migrate');
    await toAnswer(env, 'users', 'create', '--name', 'Operator');
    const { id } = (await toAnswer(env, 'organizations', 'create', '--name', 'Site')) as { id: string };
    expect(
      await toAnswer(env, 'organizations', 'update', id, '--retention-days', '90', '--downsample-after-days', '30'),
    ).toMatchObject({ id, name: 'Site', readingRetentionDays: 90, downsampleAfterDays: 30 });
    expect(
      await toAnswer(env, 'organizations', 'update', id, '--name', 'Plant', '--downsample-after-days', 'never'),
    ).toMatchObject({ name: 'Plant', readingRetentionDays: 90, downsampleAfterDays: null });
    expect(await toAnswer(env, 'organizations', 'list')).toMatchObject([
      { id, name: 'Plant', readingRetentionDays: 90, downsampleAfterDays: null },
    ]);
    expect(await plantroomHere(['organizations', 'update', id], env)).toMatchObject({ code: 2 });
    expect(await plantroomHere(['organizations', 'update', id, '--retention-days', 'many'], env)).toMatchObject({
      code: 2,
    });
    expect(await plantroomHere(['organizations', 'update', id, '--retention-days', '0'], env)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('1 to 36500'),
    });
  });

  it('explains a failure in one sentence, and exits with 1', async () => {
    await plantroomHere(['migrate'], env);
    const ownerless = await plantroomHere(['organizations', 'create', '--name', 'Site', '--owner', 'nobody'], env);
    expect(ownerless).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^plantroom: user "nobody" [^\n]*\n$/),
    });
    expect(await plantroomHere(['keys', 'revoke', 'none'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^plantroom: api key "none" [^\n]*\n$/),
    });
  });

  it('prints tables without --json', async () => {
    await plantroomHere(['migrate'], env);
    await plantroomHere(['users', 'create', '--name', 'Operator'], env);
    await plantroomHere(['organizations', 'create', '--name', 'Site'], env);
    const { stdout } = await plantroomHere(['organizations', 'list'], env);
    expect(stdout.split('\n')[0]).toMatch(/^ id +name +readingRetentionDays +downsampleAfterDays +createdAt$/);
    expect(stdout.split('\n')[1]).toMatch(/^ [0-9a-f-]{36} +Site +365 +- +\d{4}-/);
  });

  it('examines a machine before the first start', async () => {
    const { code, stdout } = await plantroomHere(['doctor', '--json'], env);
    expect(code).toBe(0);
    const findings = JSON.parse(stdout) as { check: string; state: string }[];
    expect(findings.map((finding) => finding.check)).toEqual(
      expect.arrayContaining(['configuration', 'data folder', 'disk space', 'gRPC port', 'database', 'TLS', 'clock']),
    );
    expect(findings).toContainEqual(
      expect.objectContaining({ check: 'server', state: 'warn', found: expect.stringContaining('stopped') as string }),
    );
    const taken = join(folder, 'key.json');
    writeFileSync(taken, 'the key of another installation');
    const refused = await plantroomHere(['doctor'], { ...env, PLANTROOM_BOOTSTRAP_KEY_FILE: taken });
    expect(refused).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^the server is stopped; 1 problem, [^]* fail +bootstrap key file /) as string,
    });
  });

  it('applies the same configuration rules in every command', async () => {
    const schedules = ['61 2 * * *', '0 0 31 2 *', 'daily'];
    for (const schedule of schedules) {
      const invalidEnv = { ...env, PLANTROOM_BACKUP_SCHEDULE: schedule };
      const message = `PLANTROOM_BACKUP_SCHEDULE is ${JSON.stringify(schedule)}: `;
      expect(await plantroomHere(['config', 'print'], invalidEnv)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(message) as string,
      });
      const { code, stdout } = await plantroomHere(['doctor', '--json'], invalidEnv);
      expect([code, JSON.parse(stdout)]).toEqual([
        1,
        [
          expect.objectContaining({
            check: 'configuration',
            state: 'fail',
            found: expect.stringContaining(message) as string,
          }),
        ],
      ]);
    }
  });
});
