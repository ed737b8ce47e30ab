import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import Database from 'better-sqlite3';
import {
  CreateDigitalDeviceRequest,
  type DigitalDevice,
  DigitalDeviceServiceClient,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { call } from '../support/edge';
import { plantroomHere } from '../support/commandInProcess';
import { plantroomServe, type Ended, type ServeProcess } from '../support/commandLine';

describe('plantroom audit', () => {
  let folder: string;
  let env: Record<string, string>;
  let server: ServeProcess | undefined;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'plantroom-audit-'));
    env = {
      PLANTROOM_DATA_DIR: join(folder, 'data'),
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: 'off',
      PLANTROOM_TLS_MODE: 'off',
      PLANTROOM_BOOTSTRAP_KEY_FILE: join(folder, 'key.json'),
    };
  });
  afterEach(async () => {
    if (server?.child.exitCode === null && server.child.signalCode === null) await server.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  const run = async (...args: string[]): Promise<Ended> => await plantroomHere(['audit', ...args], env);
  const json = async <T>(...args: string[]): Promise<T> => {
    const { code, stdout, stderr } = await run(...args, '--json');
    expect([code, stderr]).toEqual([0, '']);
    return JSON.parse(stdout) as T;
  };
  const inDatabase = <T>(work: (database: Database.Database) => T): T => {
    const database = new Database(join(folder, 'data', 'plantroom.db'));
    try {
      return work(database);
    } finally {
      database.close();
    }
  };

  it('records an event for every change acknowledged before the server was killed, and no other event', async () => {
    const acknowledged: string[] = [];
    let key = { organizationId: '', apiKey: '' };
    for (let round = 0; round < 3; round++) {
      server = await plantroomServe(env);
      key = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8')) as typeof key;
      const client = new DigitalDeviceServiceClient(String(server.ready['grpc']), credentials.createInsecure(), {
        'grpc.enable_retries': 0,
      });
      const fields = { 'x-api-key': key.apiKey, 'x-organization-id': key.organizationId };
      const { promise: enough, resolve } = Promise.withResolvers<void>();
      const before = acknowledged.length;
      const writers = Array.from({ length: 16 }, async () => {
        for (;;) {
          const device = await call<CreateDigitalDeviceRequest, DigitalDevice>(
            client.createDigitalDevice.bind(client),
            CreateDigitalDeviceRequest.fromPartial({ name: 'x' }),
            fields,
          ).catch(() => undefined);
          if (!device) return;
          acknowledged.push(device.id);
          if (acknowledged.length >= before + 200) resolve();
        }
      });
      await enough;
      await server.stop('SIGKILL');
      await Promise.all(writers);
      client.close();
    }
    server = await plantroomServe(env);
    expect(await server.stop()).toBe(0);
    const { events, devices, pending } = inDatabase((database) => ({
      events: database
        .prepare("select resource, outcome from audit_events where method like '%/CreateDigitalDevice'")
        .all() as { resource: string; outcome: string }[],
      devices: (database.prepare('select id from digital_devices').all() as { id: string }[]).map(({ id }) => id),
      pending: database.prepare('select count(*) as count from audit_pending').get(),
    }));
    expect(pending).toEqual({ count: 0 });
    const recordedIds = new Set(
      events.filter(({ outcome }) => outcome === 'succeeded').map(({ resource }) => resource.slice('devices/'.length)),
    );
    const unknown = events.filter(({ outcome }) => outcome === 'unknown').length;
    expect([...recordedIds].filter((id) => !devices.includes(id))).toEqual([]); // Every event belongs to a device that exists.
    // Each stored change has an event. Which of the unacknowledged changes were stored is not known.
    expect(devices.filter((id) => !recordedIds.has(id)).length).toBeLessThanOrEqual(unknown);
    expect(acknowledged.filter((id) => !devices.includes(id))).toEqual([]);
    const { code, stdout } = await run('verify');
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(new RegExp(`${key.organizationId} +\\d+ +valid +\\d+:[0-9a-f]{64}`)),
    ]);
  });

  it('lists, exports and verifies events and prints the chain head, on the database and on an exported file', async () => {
    server = await plantroomServe(env);
    const { organizationId } = JSON.parse(readFileSync(join(folder, 'key.json'), 'utf8')) as { organizationId: string };
    // The event of the first start is written after the server reports ready.
    while ((await json<unknown[]>('list')).length === 0);
    const created = await plantroomHere(
      ['keys', 'create', '--name', 'other', '--scopes', 'devices:read', '--json'],
      env,
    );
    expect(created.code).toBe(0);
    await plantroomHere(['organizations', 'update', organizationId, '--name', 'other', '--json'], env);
    const listed = await json<Record<string, unknown>[]>('list');
    expect(listed.map(({ sequence, method, actor, outcome }) => [sequence, method, actor, outcome])).toEqual([
      [3, 'organizations update', 'command_line', 'succeeded'],
      [2, 'keys create', 'command_line', 'succeeded'],
      [1, 'bootstrap', 'server', 'succeeded'],
    ]);
    expect(listed[1]?.['resource']).toBe(`api-keys/${(JSON.parse(created.stdout) as { id: string }).id}`);
    expect(
      (
        await json<unknown[]>(
          'list',
          '--method',
          'keys create',
          '--outcome',
          'succeeded',
          '--resource',
          'api-keys',
          '--from',
          '2020-01-01',
        )
      ).length,
    ).toBe(1);
    expect((await run('list')).stdout).toMatch(/^ *sequence +time +by +method/);
    const [head] = await json<{ head: string }[]>('head');
    expect(head).toMatchObject({ organizationId, events: 3, head: expect.stringMatching(/^3:[0-9a-f]{64}$/) });
    expect((await run('verify', '--organization', organizationId, '--expect-head', head?.head ?? '')).code).toBe(0);
    expect(
      (await run('verify', '--organization', organizationId, '--expect-head', `3:${'0'.repeat(64)}`)).stderr,
    ).toMatch(/head mismatch .* at 3/);
    expect((await run('verify', '--expect-head', head?.head ?? '')).code).toBe(2);

    const file = join(folder, 'export.jsonl');
    const whole = (await run('export', '--organization', organizationId)).stdout;
    const rest = (await run('export', '--from-seq', '3')).stdout;
    expect(whole.trimEnd().split('\n')).toHaveLength(5);
    writeFileSync(file, whole.split('\n').slice(0, 3).join('\n') + '\n');
    expect(await run('verify', '--file', file)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('INVALID'),
      stderr: expect.stringMatching(/tail missing .*--from-seq 3/),
    });
    const lines = whole.trimEnd().split('\n') as [string, string, string, string, string];
    const verified = async (...all: string[]) => {
      writeFileSync(file, `${all.join('\n')}\n`);
      const { code, stdout } = await run('verify', '--file', file, '--json');
      const { chains, faults } = JSON.parse(stdout) as {
        chains: { from: number; whole: boolean }[];
        faults: { what: string }[];
      };
      return [code, chains[0]?.from, chains[0]?.whole, ...faults.map(({ what }) => what)];
    };
    const [begin, one, two, three, end] = lines;
    expect(await verified(...lines)).toEqual([0, 1, true]);
    expect(await verified(begin, one, two, two, three, end)).toEqual([1, 1, false, 'inserted']);
    expect(await verified(begin, one, two, three)).toEqual([1, 1, false, 'tail missing']);
    expect(await verified(begin)).toEqual([1, 1, false, 'tail missing']);
    expect(await verified(begin, one, two.replace('{', '{"note":"x",'), three, end)).toEqual([
      1,
      1,
      false,
      'changed',
      'removed',
    ]);
    expect(await verified(begin, one, 'x', two, three, end)).toEqual([1, 1, false, 'changed']);
    expect(await verified(...lines, three, end)).toEqual([1, 1, false, 'changed', 'inserted']);
    expect(await verified(...rest.trimEnd().split('\n'))).toEqual([0, 3, true]);
    expect((await run('verify', '--file', file)).stdout).toContain('valid from 3 on');
    writeFileSync(file, `${one}\n`);
    expect((await run('verify', '--file', file)).code).toBe(1);
    expect(await run('verify', '--organization', 'typo')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('no audit trail of'),
    });
    expect(await run('export', '--organization', 'typo')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('audit head'),
    });
    expect((await run('verify', '--organization', 'none')).code).toBe(0);
    expect(await run('export', '--output', '/dev/full')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('the events cannot be written'),
    });
    writeFileSync(file, `${whole.split('\n').slice(0, 3).join('\n')}\n${rest}`);
    expect(await run('verify', '--file', file, '--expect-head', head?.head ?? '')).toMatchObject({
      code: 0,
      stderr: '',
    });
    writeFileSync(file, whole.replace('"succeeded"', '"refused"'));
    expect(await run('verify', '--file', file)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/changed in the chain of organization .* at 1/),
    });
    expect(await json<{ head: string }>('export', '--output', join(folder, 'out.jsonl'))).toMatchObject({
      events: 3,
      head: head?.head,
    });

    inDatabase((database) => database.prepare("update audit_events set peer = 'somebody' where seq = 2").run());
    expect(await run('verify')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/changed in the chain of organization .* at 2/),
    });
    expect(await server.stop()).toBe(0);
    expect(server.stdout()).toMatch(/"audit\.checkpoint"/);
  });
});
