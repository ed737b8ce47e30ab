import type { ClientReadableStream } from '@grpc/grpc-js';
import {
  CancelExecutionRequest,
  DeleteCommandRequest,
  type Execution,
  ExecuteCommandRequest,
  GetExecutionRequest,
  ListExecutionsRequest,
  type ListExecutionsResponse,
  WatchExecutionsRequest,
  type WatchExecutionsResponse,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { ExecutionScopeRepository } from '../../src/executions/store/executionScopeRepository';
import { call, callFails, headers, type GrpcErrorInfo } from '../support/edge';
import { sqliteOnly } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { type LimitedDevice, type LimitedSite, readUntil, startLimitedSite, streamFails } from './limitedSite';

const NOBODY = '0190a0a0-0000-7000-8000-000000000001';
type Headers = Record<string, string>;
const submitted = (answers: readonly WatchExecutionsResponse[]): (string | undefined)[] =>
  answers.filter(({ event }) => event?.event === 'submitted').map(({ execution }) => execution?.id);

const formatError = ({ code, reason, message, metadata }: GrpcErrorInfo, requestedId: string): string =>
  JSON.stringify({ code, reason, message, metadata }).replaceAll(requestedId, 'ID');

/** Resources outside the scope are reported as not found. */
async function expectUnknown(attempt: (id: string) => Promise<GrpcErrorInfo>, id: string): Promise<void> {
  const refused = await attempt(id);
  expect(refused.reason).toBe('execution_not_found');
  expect(formatError(refused, id)).toEqual(formatError(await attempt(NOBODY), NOBODY));
}

describe.each(sqliteOnly())('executions for restricted keys, on $name', (engine) => {
  let site: LimitedSite;
  let byDevice: Headers;
  let byCommand: Headers;
  let count = 0;
  beforeAll(async () => {
    site = await startLimitedSite(engine);
    const { named, bound, connections } = site;
    byDevice = await site.key({ deviceIds: [named.id], connectionIds: [connections[0]] });
    byCommand = await site.key({ commandIds: [named.first, bound.first] });
  });
  afterAll(async () => await site.stop());

  /** Creates an execution that equals no earlier one. */
  const execute = async (commandId: string, device: LimitedDevice, caller = site.all): Promise<string> =>
    (await site.execute(commandId, device, caller, { params: { n: (count += 1) } })).executionId;
  const get = async (executionId: string, caller: Headers): Promise<Execution> =>
    await call(
      site.commands.getExecution.bind(site.commands),
      GetExecutionRequest.fromPartial({ executionId }),
      caller,
    );
  const getFails = async (executionId: string, caller: Headers): Promise<GrpcErrorInfo> =>
    await callFails(
      site.commands.getExecution.bind(site.commands),
      GetExecutionRequest.fromPartial({ executionId }),
      caller,
    );
  const cancelFails = async (executionId: string, caller: Headers): Promise<GrpcErrorInfo> =>
    await callFails(
      site.commands.cancelExecution.bind(site.commands),
      CancelExecutionRequest.fromPartial({ executionId }),
      caller,
    );
  const watch = (
    fields: Partial<WatchExecutionsRequest>,
    caller: Headers,
  ): ClientReadableStream<WatchExecutionsResponse> =>
    site.commands.watchExecutions(WatchExecutionsRequest.fromPartial(fields), headers(caller));
  const list = async (
    device: LimitedDevice,
    caller: Headers,
    fields: Partial<ListExecutionsRequest> = {},
  ): Promise<ListExecutionsResponse> =>
    await call(
      site.commands.listExecutions.bind(site.commands),
      ListExecutionsRequest.fromPartial({ id: device.id, ...fields }),
      caller,
    );
  /**
   * Watches until an execution that is created last appears; the executions that must stay hidden are created before
   * it.
   */
  const watched = async (
    caller: Headers,
    fields: Partial<WatchExecutionsRequest>,
    before: () => Promise<unknown>,
    last: () => Promise<string>,
  ): Promise<WatchExecutionsResponse[]> => {
    let marker: string | undefined;
    return await readUntil(
      watch(fields, caller),
      ({ execution }) => execution !== undefined && execution.id === marker,
      async () => {
        await before();
        marker = await last();
      },
    );
  };

  it('are found where device and command are inside; others seem not to exist', async () => {
    const { named, bound, outside } = site;
    for (const [device, command, visibleTo] of [
      [named, named.first, [byDevice, byCommand]],
      [bound, bound.second, [byDevice]],
      [bound, bound.first, [byDevice, byCommand]],
      [outside, outside.first, []],
    ] as const) {
      const id = await execute(command, device);
      for (const key of [byDevice, byCommand]) {
        if ((visibleTo as readonly Headers[]).includes(key)) {
          expect((await get(id, key)).id).toBe(id);
          continue;
        }
        await expectUnknown(async (requestedId) => await getFails(requestedId, key), id);
        await expectUnknown(async (requestedId) => await cancelFails(requestedId, key), id);
        await expectUnknown(async (requestedId) => await streamFails(watch({ executionId: requestedId }, key)), id);
      }
    }
    const ids = { [outside.id]: byDevice, [NOBODY]: byDevice };
    for (const [id, key] of Object.entries(ids)) {
      expect(
        await callFails(
          site.commands.executeCommand.bind(site.commands),
          ExecuteCommandRequest.fromPartial({ id, commandId: outside.first }),
          key,
        ),
      ).toMatchObject({ reason: 'device_not_found' });
      expect(
        await callFails(
          site.commands.listExecutions.bind(site.commands),
          ListExecutionsRequest.fromPartial({ id }),
          key,
        ),
      ).toMatchObject({ reason: 'device_not_found' });
      expect(await streamFails(watch({ id }, key))).toMatchObject({ reason: 'device_not_found' });
    }
    for (const commandId of [named.second, NOBODY])
      expect(
        await callFails(
          site.commands.executeCommand.bind(site.commands),
          ExecuteCommandRequest.fromPartial({ id: named.id, commandId }),
          byCommand,
        ),
      ).toMatchObject({ reason: 'command_not_found' });
  });

  it('of other commands are never reported as duplicates, nor by a trigger id that was used for them', async () => {
    const { named } = site;
    const other = await site.execute(named.second, named, site.all, { triggerId: 'used', params: {} });
    const ownExecution = await site.execute(named.first, named, byCommand, { triggerId: 'used' });
    expect(ownExecution).toMatchObject({ accepted: true, duplicate: false });
    expect(ownExecution.executionId).not.toBe(other.executionId);
    expect(await site.execute(named.first, named, byCommand, { triggerId: 'used' })).toMatchObject({
      duplicate: true,
      executionId: ownExecution.executionId,
    });
  });

  it('are listed where their command is inside, in full pages, and in the same way with a token of another key', async () => {
    const device = await site.device('listed', site.connections[1]);
    const { first, second } = device;
    const key = await site.key({ commandIds: [first, site.named.first] });
    // Creates more executions of the other command than some steps of the scan read, all of them finished, so that the
    // list does not change.
    const { db } = site.server.database.database;
    const newest = await execute(first, device);
    const row = await db.knex('executions').where({ id: newest }).first<Record<string, unknown>>();
    const from = Number(row['updated_at']) - 10_000;
    const ended = { dedupe_key: null, state: 'converged', final: 1, holds_slot: 0, next_deadline: null };
    const past = Array.from({ length: 1200 }, (_, at) => ({
      ...row,
      ...ended,
      id: `${device.id}-${at}`,
      command_id: at % 200 === 100 ? first : second,
      queue_order: 1000 + at,
      updated_at: from + at,
      finished_at: from + at,
    }));
    for (let at = 0; at < past.length; at += 50) await db.knex('executions').insert(past.slice(at, at + 50));
    const wanted = [
      newest,
      ...past
        .filter((one) => one.command_id === first)
        .map(({ id }) => id)
        .toReversed(),
    ];
    const pages: string[][] = [];
    for (let before: string | undefined = ''; before !== undefined;) {
      const page: ListExecutionsResponse = await list(device, key, { limit: 3, before });
      pages.push(page.items.map(({ id }) => id));
      before = page.nextCursor;
    }
    expect(pages).toEqual([wanted.slice(0, 3), wanted.slice(3, 6), wanted.slice(6)]);
    const { nextCursor, items } = await list(device, site.all, { limit: 200 });
    expect(items).toHaveLength(200);
    expect((await list(device, key, { limit: 50, before: nextCursor ?? '' })).items.map(({ id }) => id)).toEqual(
      wanted.slice(2),
    );
    await call(
      site.commands.deleteCommand.bind(site.commands),
      DeleteCommandRequest.fromPartial({ id: device.id, commandId: first }),
      site.all,
    );
    expect(await list(device, key)).toMatchObject({ items: [] });
    await expectUnknown(async (requestedId) => await getFails(requestedId, key), wanted[0] ?? '');
    const plan = await getPlan(site.server.database.database, async (tx) => {
      const repository = new ExecutionScopeRepository(tx);
      await repository.list({ organizationId: 'org-1', deviceId: 'd', size: 50, after: undefined }, new Set(['c']));
      await repository.isInScope(
        'org-1',
        { devices: { ids: new Set(['d']), connectionIds: new Set(['c']) }, commands: new Set(['c']) },
        'e',
      );
    });
    expect(plan).not.toMatch(/SCAN \w+"|Seq Scan|\(organization_id=\?\)"/);
  });

  it('are watched where they are inside, live and after a resume, without revealing others', async () => {
    const { named, bound, outside } = site;
    const created: string[] = [];
    const noise = async (): Promise<void> => {
      await execute(outside.first, outside);
      created.push(await execute(bound.first, bound));
      await execute(outside.second, outside);
    };
    const marker = async (): Promise<string> => (created.push(await execute(named.first, named)), created.at(-1) ?? '');
    for (const key of [byDevice, byCommand]) {
      created.length = 0;
      const answers = await watched(key, {}, noise, marker);
      expect(submitted(answers)).toEqual(created);
      expect(answers.slice(1).every(({ event }) => event !== undefined)).toBe(true);
      const again = await readUntil(
        watch({ resumeToken: answers[0]?.resumeToken ?? '' }, key),
        ({ execution }) => execution?.id === created[1],
      );
      expect(submitted(again)).toEqual(created);
    }
    // The same token is not sent again while nothing happens, because that would reveal other activity.
    const beginWatch = async (): Promise<string | undefined> =>
      (await readUntil(watch({}, byDevice), () => true))[0]?.resumeToken;
    expect(await beginWatch()).not.toBe(await beginWatch());
    // A token of a key that sees everything reveals nothing more.
    created.length = 0;
    const [first] = await readUntil(watch({}, site.all), () => true);
    await noise();
    await marker();
    expect(
      submitted(
        await readUntil(
          watch({ resumeToken: first?.resumeToken ?? '' }, byDevice),
          ({ execution }) => execution?.id === created[1],
        ),
      ),
    ).toEqual(created);
  });

  it('of a device that moves away leave a running watch and return with it', async () => {
    const { bound, named, connections } = site;
    const left = await watched(
      byDevice,
      {},
      async () => {
        await site.move(bound, connections[1]);
        const away = await execute(bound.first, bound);
        await expectUnknown(async (requestedId) => await getFails(requestedId, byDevice), away);
      },
      async () => await execute(named.first, named),
    );
    expect(new Set(submitted(left)).size).toBe(1);
    await site.move(bound, connections[0]);
    const ofDevice = await watched(
      byDevice,
      { id: bound.id },
      async () => {
        await site.move(bound, connections[1]);
        await execute(bound.first, bound);
        await site.move(bound, connections[0]);
      },
      async () => await execute(bound.first, bound),
    );
    expect(ofDevice.length).toBeGreaterThan(1);
  });

  it('that query for another execution follow the command that they execute', async () => {
    const device = await site.device('queried', site.connections[0]);
    const parent = await execute(device.first, device);
    const child = await execute(device.second, device);
    await site.server.database.database.db
      .knex('executions')
      .where({ id: child })
      .update({ parent_execution_id: parent });
    const key = await site.key({ commandIds: [device.first] });
    expect((await get(parent, key)).id).toBe(parent);
    await expectUnknown(async (requestedId) => await getFails(requestedId, key), child);
  });

  it('of a deleted device are inside only where the key names it', async () => {
    const device = await site.device('gone', site.connections[0]);
    const executionId = await execute(device.first, device);
    const [byId, byCommandId] = [
      await site.key({ deviceIds: [device.id] }),
      await site.key({ commandIds: [device.first] }),
    ];
    for (const key of [byDevice, byId, byCommandId]) expect((await get(executionId, key)).id).toBe(executionId);
    await site.remove(device);
    expect((await get(executionId, byId)).id).toBe(executionId);
    for (const key of [byDevice, byCommandId])
      await expectUnknown(async (requestedId) => await getFails(requestedId, key), executionId);
  });
});
