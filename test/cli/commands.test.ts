import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MIGRATIONS } from '../../src/database/migrations';
import { plantroomHere } from '../support/commandInProcess';
import { plantroom } from '../support/commandLine';

async function answerOf(env: Readonly<Record<string, string>>, ...args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await plantroomHere([...args, '--json'], env);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

describe('plantroom', () => {
  let folder: string;
  let env: Record<string, string>;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-cli-'));
    env = { PLANTROOM_DATA_DIR: join(folder, 'data'), PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: '127.0.0.1:0' };
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('says its version', async () => {
    const { code, stdout } = await plantroom(['version', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ version: expect.stringMatching(/^\d+\.\d+\.\d+$/), node: process.versions.node, sqlite: expect.stringMatching(/^3\.\d+/), schema: MIGRATIONS.at(-1)?.name, form: 'checkout' });
  });

  it.each([
    ['no command', [], /Usage: plantroom/],
    ['an unknown command', ['srve'], /unknown command 'srve'\n\(Did you mean serve\?\)/],
    ['an unknown option', ['serve', '--prot', '1'], /unknown option '--prot'/],
    ['a missing option', ['simulate'], /required option '--connection <id>' not specified/],
    ['no key', ['simulate', '--connection', 'c', '--address', 'localhost:1'], /needs an API key with the scope gateways:write; give --key/],
    ['no organization', ['simulate', '--connection', 'c', '--address', 'localhost:1', '--key', 'plr_x'], /give the organization of the key: --organization/],
    ['a broker that is none', ['simulate', 'mqtt', '--broker', 'localhost'], /must be a URL that begins with mqtt:/],
    ['a topic for all devices', ['simulate', 'mqtt', '--uplink-topic', 'a/+/up'], /must hold \{clientDeviceId\} and no wildcard/],
    ['an application that is none', ['simulate', 'chirpstack', '--application', '1'], /must be a UUID/],
    ['answers that contradict each other', ['simulate', 'mqtt', '--reject', '--no-answer'], /not both/],
    ['a time that is none', ['simulate', '--connection', 'c', '--delay', 'soon'], /give a number and a unit/],
    ['options that exclude each other', ['keys', 'create', '--name', 'x'], /either --scopes a,b or --all-scopes/],
    ['no server to call', ['call', '--list'], /no server runs on the data folder/],
  ])('ends with 2 and says what would be right: %s', async (_, args, said) => {
    const { code, stderr } = await plantroomHere(args, env);
    expect(code).toBe(2);
    expect(stderr).toMatch(said);
    expect(stderr).not.toMatch(/\n {4}at /);
  });

  it.each([['serve'], ['migrate'], ['secrets', 'rotate'], ['organizations', 'create'], ['organizations', 'list'], ['organizations', 'update'], ['organizations', 'show'], ['organizations', 'delete'], ['users', 'create'], ['users', 'list'], ['keys', 'create'], ['keys', 'list'], ['keys', 'revoke'], ['keys', 'rotate'], ['config', 'print'], ['call'], ['doctor'], ['version'], ['simulate', 'gateway'], ['simulate', 'mqtt'], ['simulate', 'chirpstack'], ['demo'], ['codec', 'run'], ['codec', 'test']])('helps with %s', async (...names) => {
    const { code, stdout } = await plantroomHere([...names, '--help']);
    expect(code).toBe(0);
    expect(stdout).toContain('--json');
  });

  it('reports all mistakes of the configuration, with 2', async () => {
    const { code, stderr } = await plantroom(['serve'], { ...env, PLANTROOM_LOG_LEVEL: 'loud', PLANTROOM_TLS_MOED: 'off', PLANTROOM_GRPC_LISTEN: '50051' });
    expect(code).toBe(2);
    expect(stderr.trim().split('\n')).toEqual([
      'plantroom: there are 3 mistakes in the configuration:',
      '  PLANTROOM_TLS_MOED: there is no such setting; did you mean PLANTROOM_TLS_MODE?',
      expect.stringContaining('PLANTROOM_GRPC_LISTEN is "50051": must be host:port'),
      expect.stringContaining('PLANTROOM_LOG_LEVEL is "loud": must be one of debug, info, warn, error'),
    ]);
  });

  it('manages organizations, users and keys', async () => {
    await answerOf(env, 'migrate');
    const user = (await answerOf(env, 'users', 'create', '--name', 'Operator')) as { id: string };
    const organization = (await answerOf(env, 'organizations', 'create', '--name', 'Site')) as { id: string };
    expect(await answerOf(env, 'organizations', 'list')).toMatchObject([{ id: organization.id, name: 'Site' }]);
    const created = (await answerOf(env, 'keys', 'create', '--organization', organization.id, '--name', 'Reader', '--scopes', 'devices:read,sensors:read', '--expires-in', '90d')) as { id: string; key: string };
    expect(created).toMatchObject({ key: expect.stringMatching(/^plr_[0-9A-Za-z]{49}$/), scopes: ['devices:read', 'sensors:read'], ownerUserId: user.id });
    const rotated = (await answerOf(env, 'keys', 'rotate', created.id, '--grace', '1h')) as { id: string; key: string };
    expect(rotated.key).not.toBe(created.key);
    expect(await answerOf(env, 'keys', 'revoke', rotated.id)).toMatchObject({ id: rotated.id, revokedAt: expect.any(String) });
    const listed = (await answerOf(env, 'keys', 'list')) as { id: string }[];
    expect(listed.map((key) => key.id)).toEqual([rotated.id, created.id]);
    expect(JSON.stringify(listed)).not.toContain(created.key);
  });

  it('changes how long an organization keeps its readings', async () => {
    await answerOf(env, 'migrate');
    await answerOf(env, 'users', 'create', '--name', 'Operator');
    const { id } = (await answerOf(env, 'organizations', 'create', '--name', 'Site')) as { id: string };
    expect(await answerOf(env, 'organizations', 'update', id, '--retention-days', '90', '--thin-after-days', '30')).toMatchObject({ id, name: 'Site', readingRetentionDays: 90, thinReadingsAfterDays: 30 });
    expect(await answerOf(env, 'organizations', 'update', id, '--name', 'Plant', '--thin-after-days', 'never')).toMatchObject({ name: 'Plant', readingRetentionDays: 90, thinReadingsAfterDays: null });
    expect(await answerOf(env, 'organizations', 'list')).toMatchObject([{ id, name: 'Plant', readingRetentionDays: 90, thinReadingsAfterDays: null }]);
    expect(await plantroomHere(['organizations', 'update', id], env)).toMatchObject({ code: 2 });
    expect(await plantroomHere(['organizations', 'update', id, '--retention-days', 'many'], env)).toMatchObject({ code: 2 });
    expect(await plantroomHere(['organizations', 'update', id, '--retention-days', '0'], env)).toMatchObject({ code: 2, stderr: expect.stringContaining('1 to 36500') });
  });

  it('says in one sentence what went wrong, with 1', async () => {
    await plantroomHere(['migrate'], env);
    const ownerless = await plantroomHere(['organizations', 'create', '--name', 'Site', '--owner', 'nobody'], env);
    expect(ownerless).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/^plantroom: user "nobody" [^\n]*\n$/) });
    expect(await plantroomHere(['keys', 'revoke', 'none'], env)).toMatchObject({ code: 1, stderr: expect.stringMatching(/^plantroom: api key "none" [^\n]*\n$/) });
  });

  it('shows tables to people', async () => {
    await plantroomHere(['migrate'], env);
    await plantroomHere(['users', 'create', '--name', 'Operator'], env);
    await plantroomHere(['organizations', 'create', '--name', 'Site'], env);
    const { stdout } = await plantroomHere(['organizations', 'list'], env);
    expect(stdout.split('\n')[0]).toMatch(/^ id +name +readingRetentionDays +thinReadingsAfterDays +createdAt$/);
    expect(stdout.split('\n')[1]).toMatch(/^ [0-9a-f-]{36} +Site +365 +- +\d{4}-/);
  });

  it('examines a machine before the first start', async () => {
    const { code, stdout } = await plantroomHere(['doctor', '--json'], env);
    expect(code).toBe(0);
    const findings = JSON.parse(stdout) as { check: string; state: string }[];
    expect(findings.map((finding) => finding.check)).toEqual(expect.arrayContaining(['configuration', 'data folder', 'disk space', 'gRPC port', 'database', 'TLS', 'clock']));
  });
});
