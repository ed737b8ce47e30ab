import { insertManyRows } from './manyRows';
import { getRows } from '../backup/populatedSite';
import { plantroomHere } from '../support/commandInProcess';
import { plantroomServe, type ServeProcess } from '../support/commandLine';
import { sqliteOnly, type TestDatabase } from '../support/engines';

const left = (rows: Record<string, number>): [string, number][] =>
  Object.entries(rows).filter(([, count]) => count > 0);

const wrote = async ({ child, stdout }: ServeProcess, text: string): Promise<void> => {
  await new Promise<void>((found) => {
    const checkOutput = (): void => (stdout().includes(text) ? found() : undefined);
    child.stdout?.on('data', checkOutput);
    checkOutput();
  });
};

describe.each(sqliteOnly())('an organization that is deleted on the command line, on $name', (engine) => {
  let test: TestDatabase;
  let env: Record<string, string>;
  let server: ServeProcess | undefined;
  beforeAll(async () => {
    test = await engine.createDatabase();
    env = {
      PLANTROOM_DATA_DIR: test.dataDir,
      PLANTROOM_DATABASE_URL: test.url,
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: 'off',
      PLANTROOM_TLS_MODE: 'off',
      PLANTROOM_LOG_LEVEL: 'debug',
    };
  });
  afterAll(async () => {
    await server?.stop('SIGKILL');
    await test.drop();
  });

  const answer = async (
    ...args: string[]
  ): Promise<{ code: number | null; json: Record<string, unknown>; stderr: string }> => {
    const { code, stdout, stderr } = await plantroomHere(['organizations', ...args, '--json'], {
      ...env,
      PLANTROOM_LOG_LEVEL: 'warn',
    });
    return { code, json: (stdout === '' ? {} : JSON.parse(stdout)) as Record<string, unknown>, stderr };
  };

  it('requires its name first, is noticed by a running server, and is deleted completely although the server is killed meanwhile', async () => {
    server = await plantroomServe(env);
    const { json } = await answer('create', '--name', 'Going');
    const id = json['id'] as string;
    await insertManyRows(test.database, id, { devices: 20, readings: 2000, executions: 5 });
    const sameNamed = (await answer('create', '--name', 'Going')).json['id'] as string;
    const holds = { devices: 20, connections: 1, members: 1, apiKeys: 0 };
    expect((await answer('show', id)).json).toMatchObject({ id, name: 'Going', readingRetentionDays: 365, ...holds });

    expect(await answer('delete', id)).toMatchObject({
      code: 2,
      json: { id, name: 'Going', deleted: false, ...holds },
      stderr: expect.stringContaining('nothing was deleted'),
    });
    expect(await answer('delete', id, '--confirm', 'going')).toMatchObject({
      code: 2,
      json: {},
      stderr: expect.stringContaining('exact name'),
    });
    expect(await answer('delete', id, '--confirm', 'Going')).toMatchObject({
      code: 0,
      json: { deleted: true, ...holds },
      stderr: '',
    });
    expect(await answer('delete', id, '--confirm', 'Going')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('does not exist'),
    });
    await wrote(server, '"step":"devices"');
    await server.stop('SIGKILL');
    const half = await getRows(test.database, id);
    expect(half).toMatchObject({ digital_devices: 0, executions: 100, connections: 1 });
    expect(half['reading_series']).toBeGreaterThan(0);

    server = await plantroomServe(env);
    await wrote(server, '"organizations.removed"');
    expect(left(await getRows(test.database, id))).toEqual([]);
    expect(left(await getRows(test.database, sameNamed))).toEqual([['members', 1]]);
    expect((await answer('list')).json).toMatchObject([{ name: 'Plantroom' }, { id: sameNamed, name: 'Going' }]);
    expect(await server.stop()).toBe(0);
  });
});
