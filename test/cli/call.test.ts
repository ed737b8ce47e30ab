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
    env = {
      PLANTROOM_DATA_DIR: join(folder, 'data'),
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
      PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'key.json'),
    };
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

  it('finds the address, CA, key and organization without options', async () => {
    expect(await answer('AccessControlService/WhoAmI')).toMatchObject({
      apiKey: { name: 'First key', allConnections: true },
      organizationName: 'Plantroom',
    });
  });

  it('reads the key from the environment, and uses the only organization of the server', async () => {
    const { key } = JSON.parse(
      (await plantroomHere(['keys', 'create', '--name', 'x', '--scopes', 'devices:read', '--json'], env)).stdout,
    ) as { key: string };
    const keyOnly = { PLANTROOM_DATA_DIR: env['PLANTROOM_DATA_DIR'] as string, PLANTROOM_API_KEY: key };
    expect(await plantroomHere(['call', 'ListDigitalDevices'], keyOnly)).toMatchObject({ code: 0, stderr: '' });
    expect(await plantroomHere(['call', 'CreateDigitalDevice', '{"name":"x"}'], keyOnly)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^plantroom: PERMISSION_DENIED insufficient_scope: /),
    });
  });

  it('calls another address with a given CA', async () => {
    const elsewhere = { PLANTROOM_DATA_DIR: join(folder, 'nowhere') };
    const ended = await plantroomHere(
      [
        'call',
        'WhoAmI',
        '--address',
        String(server.ready['grpc']),
        '--ca',
        String(server.ready['ca']),
        '--key-file',
        env['PLANTROOM_BOOTSTRAP_KEY_FILE'] as string,
        '--json',
      ],
      elsewhere,
    );
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout.trim()).not.toContain('\n');
  });

  it('lists the methods of the server', async () => {
    const { stdout } = await call('--list', '--json');
    expect(JSON.parse(stdout)).toEqual(
      expect.arrayContaining([
        {
          method: 'gateway.v1.GatewayService/Attach',
          request: 'stream gateway.v1.AttachRequest',
          response: 'stream gateway.v1.AttachResponse',
        },
      ]),
    );
  });

  it('accepts and prints the JSON of the contract', async () => {
    const connection = await answer(
      'ConnectionService/CreateConnection',
      '{"connectorId": "gateway", "name": "Boiler room"}',
    );
    expect(connection).toMatchObject({ enabled: true, configuration: {}, status: { state: 'disconnected' } });
    const device = await answer(
      'digitaldevice.v2.DigitalDeviceService.CreateDigitalDevice',
      JSON.stringify({
        name: 'Valve',
        physicalDevice: {
          clientDeviceId: 'v',
          connectionId: connection['id'],
          configuration: { a: [1, null, { b: 'c' }] },
        },
      }),
    );
    expect(device).toMatchObject({
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      physicalDevice: { configuration: { a: [1, null, { b: 'c' }] } },
      sensors: [],
    });
    const updated = await answer(
      'UpdateDigitalDevice',
      JSON.stringify({ id: device['id'], dataSendingInterval: { unit: 'minute', value: 5 } }),
    );
    expect(updated['dataSendingInterval']).toEqual({ unit: 'minute', value: 5 });
  });

  it('prints a single field of the response for scripts, and lists the available fields if it is missing', async () => {
    const printField = async (...args: string[]): Promise<string> => (await call(...args)).stdout.trimEnd();
    const id = await printField('CreateConnection', '{"connectorId": "gateway", "name": "Pump room"}', '--field', 'id');
    expect(id).toMatch(/^[\w-]{36}$/);
    expect(await printField('ListConnections', '--field', 'connections.name=Pump room.id')).toBe(id);
    expect(await printField('GetConnection', JSON.stringify({ id }), '--field', 'status.state')).toBe('disconnected');
    expect(await printField('GetConnection', JSON.stringify({ id }), '--field', 'configuration')).toBe('{}');
    const missing = await call('GetConnection', JSON.stringify({ id }), '--field', 'status.colour');
    expect(missing).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/the response has no "status\.colour": "status" has state/),
    });
    expect((await call('ListConnections', '--field', 'connections.name=Nobody.id')).stderr).toMatch(
      /"connections" is a list of \d+: select an item by its index from 0, or by a field/,
    );
  });

  it('calls a service without a package by its plain name, and prints a day count of zero', async () => {
    const { organizationId: id } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8')) as {
      organizationId: string;
    };
    expect(await answer('OrganizationsService/GetOrganization', JSON.stringify({ id }))).toMatchObject({
      id,
      name: 'Plantroom',
      readingRetentionDays: 365,
      downsampleAfterDays: 0,
    });
    expect(await answer('UpdateOrganization', JSON.stringify({ id, downsampleAfterDays: 90 }))).toMatchObject({
      downsampleAfterDays: 90,
    });
  });

  it('reads the request from stdin', async () => {
    expect(await plantroom(['call', 'CreateDigitalDevice', '-'], env, '{"name": "From stdin"}')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('"From stdin"'),
    });
  });

  it('prints a stream with one message per line', async () => {
    const { code, stdout } = await call('Health/Watch', '{}', '--timeout', '2s');
    expect(code).toBe(1); // The deadline was exceeded.
    expect(stdout).toBe('{"status":"serving"}\n');
  });

  it('prints the error of the server: reason, every invalid field, request ID', async () => {
    const { code, stderr } = await call('CreateDigitalDevice', '{"physicalDevice": {}}');
    expect(code).toBe(1);
    expect(stderr.trim().split('\n')).toEqual([
      'plantroom: INVALID_ARGUMENT validation_failed: 3 invalid fields',
      expect.stringMatching(/^ {2}name: /),
      expect.stringMatching(/^ {2}physicalDevice\.clientDeviceId: /),
      expect.stringMatching(/^ {2}physicalDevice\.connectionId: /),
      expect.stringMatching(/^ {2}request id \S+$/),
    ]);
    const json = await call('GetDigitalDevice', '{"id": "none"}', '--json');
    expect(JSON.parse(json.stderr)).toMatchObject({
      error: {
        status: 'NOT_FOUND',
        reason: 'device_not_found',
        metadata: { device_id: 'none' },
        requestId: expect.any(String),
      },
    });
  });

  it.each([
    ['invalid JSON', ['GetDigitalDevice', '{id}'], /the request is not JSON/],
    [
      'deeply nested JSON',
      ['ExecuteCommand', `{"params":${'{"a":'.repeat(20_000)}1${'}'.repeat(20_001)}`],
      /the request has more than 100 levels: reduce its nesting/,
    ],
    ['an unknown field', ['GetDigitalDevice', '{"idd": "x"}'], /idd: unknown field; did you mean id\?/],
    ['an unknown method', ['GetDigitalDevic'], /did you mean .*GetDigitalDevice\?/],
    ['an ambiguous method name', ['ServerReflectionInfo'], /is ambiguous \(.* or .*\): use the full name/],
    ['no method', [], /specify a method/],
    ['a missing CA file', ['WhoAmI', '--ca', '/none.pem'], /--ca \/none\.pem cannot be read \(ENOENT\)/],
  ])('exits with 2 for %s', async (_, args, message) => {
    const { code, stderr } = await call(...args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
  });

  it('explains what is wrong with the key, and suggests causes when no server responds', async () => {
    expect(await call('WhoAmI', '--key', 'plr_x')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^plantroom: UNAUTHENTICATED api_key_invalid: /),
    });
    expect(await call('WhoAmI', '--address', '127.0.0.1:1', '--plaintext')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('cannot reach the server at 127.0.0.1:1'),
    });
  });

  it('is rejected soon after another command revoked the key', async () => {
    const created = JSON.parse(
      (await plantroomHere(['keys', 'create', '--name', 'short', '--scopes', 'devices:read', '--json'], env)).stdout,
    ) as { id: string; key: string };
    await answer('ListDigitalDevices', '{}', '--key', created.key);
    await plantroomHere(['keys', 'revoke', created.id], env);
    let last: Ended;
    do last = await call('ListDigitalDevices', '{}', '--key', created.key);
    while (last.code === 0);
    expect(last.stderr).toContain('UNAUTHENTICATED api_key_revoked');
  });

  it('calls a server that doctor reports as healthy', async () => {
    const findings = JSON.parse((await plantroomHere(['doctor', '--json'], env)).stdout) as {
      check: string;
      state: string;
      found: string;
    }[];
    expect(findings.filter((finding) => finding.state === 'fail')).toEqual([]);
    expect(findings).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ check: 'health', found: `serving on ${String(server.ready['grpc'])}` }),
        expect.objectContaining({ check: 'integrity', state: 'ok' }),
      ]),
    );
  });

  it('knows the methods of a server without reflection', async () => {
    const silentServer = {
      ...env,
      PLANTROOM_DATA_DIR: join(folder, 'quiet'),
      PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'quiet.json'),
      PLANTROOM_GRPC_REFLECTION: 'false',
      PLANTROOM_TLS_MODE: 'off',
    };
    const other = await plantroomServe(silentServer);
    try {
      expect(await plantroomHere(['call', 'WhoAmI'], silentServer)).toMatchObject({ code: 0, stderr: '' });
    } finally {
      await other.stop('SIGKILL');
    }
  });
});

describe('plantroom demo', () => {
  it('runs a command, prints its timeline, and removes its data', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-demo-test-'));
    try {
      const { code, stdout, stderr } = await plantroom(['demo'], { TMPDIR: folder });
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toMatch(
        /new -> enqueued[^]*enqueued -> in_transit[^]*in_transit -> delivered[^]*delivered -> accepted[^]*accepted -> converged/,
      );
      expect(stdout).toMatch(/^ {2}enqueued +0 ms [^]*^ {2}converged +\d+ ms .*the sensor shows the effect$/m);
      expect(readdirSync(folder)).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('prints only the execution with --json', async () => {
    const { code, stdout } = await plantroomHere(['demo', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ state: 'converged', attempts: 1, params: { position: 40 } });
  });
});
