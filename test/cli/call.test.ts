import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plantroomHere } from '../support/commandInProcess';
import { plantroom, plantroomServe, type Ended, type ServeProcess } from '../support/commandLine';

describe('plantroom call', () => {
  let folder: string;
  let env: Record<string, string>;
  let server: ServeProcess;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-call-'));
    env = { PLANTROOM_DATA_DIR: join(folder, 'data'), PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: '127.0.0.1:0', PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'key.json') };
    server = await plantroomServe(env);
  });
  afterAll(async () => {
    await server.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  const call = async (...args: string[]): Promise<Ended> => await plantroomHere(['call', ...args], env);
  const answer = async (...args: string[]): Promise<Record<string, unknown>> => {
    const { code, stdout, stderr } = await call(...args);
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as Record<string, unknown>;
  };

  it('finds address, CA, key and organization by itself', async () => {
    expect(await answer('AccessControlService/WhoAmI')).toMatchObject({ apiKey: { name: 'First key', allConnections: true }, organizationName: 'Plantroom' });
  });

  it('takes the key from the environment and the organization from the server that has only one', async () => {
    const { key } = JSON.parse((await plantroomHere(['keys', 'create', '--name', 'x', '--scopes', 'devices:read', '--json'], env)).stdout) as { key: string };
    const alone = { PLANTROOM_DATA_DIR: env['PLANTROOM_DATA_DIR'] as string, PLANTROOM_API_KEY: key };
    expect(await plantroomHere(['call', 'ListDigitalDevices'], alone)).toMatchObject({ code: 0, stderr: '' });
    expect(await plantroomHere(['call', 'CreateDigitalDevice', '{"name":"x"}'], alone)).toMatchObject({ code: 1, stderr: expect.stringMatching(/^plantroom: PERMISSION_DENIED scope_missing: /) });
  });

  it('calls another address with a CA', async () => {
    const elsewhere = { PLANTROOM_DATA_DIR: join(folder, 'nowhere') };
    const ended = await plantroomHere(['call', 'WhoAmI', '--address', String(server.ready['grpc']), '--ca', String(server.ready['ca']), '--key-file', env['PLANTROOM_BOOTSTRAP_KEY_FILE'] as string, '--json'], elsewhere);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout.trim()).not.toContain('\n');
  });

  it('lists the methods of the server', async () => {
    const { stdout } = await call('--list', '--json');
    expect(JSON.parse(stdout)).toEqual(expect.arrayContaining([{ method: 'gateway.v1.GatewayService/Attach', request: 'stream gateway.v1.AttachRequest', response: 'stream gateway.v1.AttachResponse' }]));
  });

  it('speaks the JSON of the contract', async () => {
    const connection = await answer('ConnectionService/CreateConnection', '{"connectorId": "gateway", "name": "Boiler room"}');
    expect(connection).toMatchObject({ enabled: true, configuration: {}, status: { state: 'disconnected' } });
    const device = await answer('digitaldevice.v2.DigitalDeviceService.CreateDigitalDevice', JSON.stringify({ name: 'Valve', physicalDevice: { clientDeviceId: 'v', connectionId: connection['id'], configuration: { a: [1, null, { b: 'c' }] } } }));
    expect(device).toMatchObject({ createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/), physicalDevice: { configuration: { a: [1, null, { b: 'c' }] } }, sensors: [] });
    const updated = await answer('UpdateDigitalDevice', JSON.stringify({ id: device['id'], dataSendingInterval: { unit: 'minute', value: 5 } }));
    expect(updated['dataSendingInterval']).toEqual({ unit: 'minute', value: 5 });
  });

  it('writes one member of the answer for scripts, and says what there is instead of one that is missing', async () => {
    const said = async (...args: string[]): Promise<string> => (await call(...args)).stdout.trimEnd();
    const id = await said('CreateConnection', '{"connectorId": "gateway", "name": "Pump room"}', '--field', 'id');
    expect(id).toMatch(/^[\w-]{36}$/);
    expect(await said('ListConnections', '--field', 'connections.name=Pump room.id')).toBe(id);
    expect(await said('GetConnection', JSON.stringify({ id }), '--field', 'status.state')).toBe('disconnected');
    expect(await said('GetConnection', JSON.stringify({ id }), '--field', 'configuration')).toBe('{}');
    const missing = await call('GetConnection', JSON.stringify({ id }), '--field', 'status.colour');
    expect(missing).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/the answer has no "status\.colour": "status" has state/) });
    expect((await call('ListConnections', '--field', 'connections.name=Nobody.id')).stderr).toMatch(/"connections" is a list of \d+; take one by its number from 0, or by a member/);
  });

  it('calls a service without a package by its plain name, and shows a day count of zero', async () => {
    const { organizationId: id } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8')) as { organizationId: string };
    expect(await answer('OrganizationsService/GetOrganization', JSON.stringify({ id }))).toMatchObject({ id, name: 'Plantroom', readingRetentionDays: 365, thinReadingsAfterDays: 0 });
    expect(await answer('UpdateOrganization', JSON.stringify({ id, thinReadingsAfterDays: 90 }))).toMatchObject({ thinReadingsAfterDays: 90 });
  });

  it('reads the request from stdin', async () => {
    expect(await plantroom(['call', 'CreateDigitalDevice', '-'], env, '{"name": "From stdin"}')).toMatchObject({ code: 0, stdout: expect.stringContaining('"From stdin"') });
  });

  it('writes a stream one line an answer', async () => {
    const { code, stdout } = await call('Health/Watch', '{}', '--timeout', '2s');
    expect(code).toBe(1); // the time was over
    expect(stdout).toBe('{"status":"serving"}\n');
  });

  it('says what the server said: reason, every wrong field, the request id', async () => {
    const { code, stderr } = await call('CreateDigitalDevice', '{"physicalDevice": {}}');
    expect(code).toBe(1);
    expect(stderr.trim().split('\n')).toEqual([
      'plantroom: INVALID_ARGUMENT validation_failed: 3 mistakes',
      expect.stringMatching(/^ {2}name: /),
      expect.stringMatching(/^ {2}physicalDevice\.clientDeviceId: /),
      expect.stringMatching(/^ {2}physicalDevice\.connectionId: /),
      expect.stringMatching(/^ {2}request id \S+$/),
    ]);
    const json = await call('GetDigitalDevice', '{"id": "none"}', '--json');
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { status: 'NOT_FOUND', reason: 'device_not_found', metadata: { device_id: 'none' }, requestId: expect.any(String) } });
  });

  it.each([
    ['no JSON', ['GetDigitalDevice', '{id}'], /the request is not JSON/],
    ['a field that is none', ['GetDigitalDevice', '{"idd": "x"}'], /idd: there is no such field; did you mean id\?/],
    ['a method that is none', ['GetDigitalDevic'], /did you mean .*GetDigitalDevice\?/],
    ['a name that could be two', ['ServerReflectionInfo'], /could be .* or .*; give the full name/],
    ['no method', [], /name a method/],
    ['a CA that is not there', ['WhoAmI', '--ca', '/none.pem'], /--ca \/none\.pem cannot be read \(ENOENT\)/],
  ])('ends with 2 for %s', async (_, args, said) => {
    const { code, stderr } = await call(...args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(said)]);
  });

  it('says what is wrong with the key, and what may be wrong when nobody answers', async () => {
    expect(await call('WhoAmI', '--key', 'plr_x')).toMatchObject({ code: 1, stderr: expect.stringMatching(/^plantroom: UNAUTHENTICATED api_key_invalid: /) });
    expect(await call('WhoAmI', '--address', '127.0.0.1:1', '--plaintext')).toMatchObject({ code: 1, stderr: expect.stringContaining('the server at 127.0.0.1:1 cannot be reached') });
  });

  it('is refused soon after a command beside the server revoked the key', async () => {
    const created = JSON.parse((await plantroomHere(['keys', 'create', '--name', 'short', '--scopes', 'devices:read', '--json'], env)).stdout) as { id: string; key: string };
    await answer('ListDigitalDevices', '{}', '--key', created.key);
    await plantroomHere(['keys', 'revoke', created.id], env);
    let last: Ended;
    do last = await call('ListDigitalDevices', '{}', '--key', created.key);
    while (last.code === 0);
    expect(last.stderr).toContain('UNAUTHENTICATED api_key_revoked');
  });

  it('is examined by doctor while it runs', async () => {
    const findings = JSON.parse((await plantroomHere(['doctor', '--json'], env)).stdout) as { check: string; state: string; found: string }[];
    expect(findings.filter((finding) => finding.state === 'fail')).toEqual([]);
    expect(findings).toEqual(expect.arrayContaining([expect.objectContaining({ check: 'health', found: `it serves on ${String(server.ready['grpc'])}` }), expect.objectContaining({ check: 'integrity', state: 'ok' })]));
  });

  it('knows the methods of a server that does not tell them', async () => {
    const quiet = { ...env, PLANTROOM_DATA_DIR: join(folder, 'quiet'), PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'quiet.json'), PLANTROOM_GRPC_REFLECTION: 'false', PLANTROOM_TLS_MODE: 'off' };
    const other = await plantroomServe(quiet);
    try {
      expect(await plantroomHere(['call', 'WhoAmI'], quiet)).toMatchObject({ code: 0, stderr: '' });
    } finally {
      await other.stop('SIGKILL');
    }
  });
});

describe('plantroom demo', () => {
  it('executes a command, shows its way, and leaves nothing behind', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-demo-test-'));
    try {
      const { code, stdout, stderr } = await plantroom(['demo'], { TMPDIR: folder });
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toMatch(/new -> enqueued[^]*enqueued -> in_transit[^]*in_transit -> delivered[^]*delivered -> accepted[^]*accepted -> converged/);
      expect(stdout).toMatch(/^ {2}enqueued +0 ms [^]*^ {2}converged +\d+ ms .*the sensor shows the effect$/m);
      expect(readdirSync(folder)).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('gives programs the execution alone', async () => {
    const { code, stdout } = await plantroomHere(['demo', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ state: 'converged', attempts: 1, params: { position: 40 } });
  });
});
