import { type Execution, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { call, callFails, type SeenError } from '../support/edge';
import { engines } from '../support/engines';
import { AS_ONE, AS_TWO, type ExecutionRoom } from './executionRoom';
import { roomForAll } from './executionSuite';
import { TestGateway } from './testGateway';

const { EXECUTION_STATE_TRANSPORT_UNREACHABLE: UNREACHABLE, EXECUTION_STATE_ENQUEUED: ENQUEUED } = ExecutionState;
const NUMBERED = { paramsSchema: { n: { type: 2, enum: [] } }, directPayload: '{"n": {{params.n}}}' } as never;

describe.each(engines())('taking back on $name', ({ createDatabase }) => {
  let room: ExecutionRoom;
  roomForAll(createDatabase, (made) => (room = made.room));
  const cancel = async (executionId: string): Promise<Execution> => await call(room.client.cancelExecution.bind(room.client), { executionId, organizationId: '' }, AS_ONE);
  const cancelFails = async (executionId: string, as = AS_ONE): Promise<SeenError> => await callFails(room.client.cancelExecution.bind(room.client), { executionId, organizationId: '' }, as);

  it('ends what is enqueued, and makes room for another', async () => {
    const target = await room.target({ connectionId: await room.connection({ policy: { queueLimit: 1 } }) });
    const { executionId } = await room.execute(target);
    const taken = await cancel(executionId);
    expect(taken).toMatchObject({ id: executionId, state: UNREACHABLE, detail: 'cancelled', attempts: 0, deadlineAt: undefined, events: [], organizationId: 'org-1' });
    expect((await room.get(executionId)).events.map(({ event, layer, source, to }) => [event, layer, source, to])).toEqual([['submitted', 1, 'api', ENQUEUED], ['cancelled', 1, 'api', UNREACHABLE]]);
    expect(await room.execute(target)).toMatchObject({ accepted: true, duplicate: false });
  });

  it('may be repeated, also in parallel, and tells the same', async () => {
    const { executionId } = await room.execute(await room.target());
    const answers = await Promise.all([1, 2, 3].map(async () => await cancel(executionId)));
    const { events, ...kept } = await room.get(executionId);
    expect(answers).toEqual(answers.map(() => ({ ...kept, events: [] })));
    expect(events).toHaveLength(2);
  });

  it('takes one out of the middle of a queue, and the others go on in order', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId, command: NUMBERED });
    const ids: string[] = [];
    for (const n of [1, 2, 3]) ids.push((await room.execute(target, { params: { n } })).executionId);
    await cancel(ids[1] ?? '');
    const gateway = await TestGateway.attach(room, { connectionId });
    for (const [at, id] of [ids[0], ids[2]].entries()) {
      expect((await gateway.command(at + 1)).executionId).toBe(id);
      await gateway.result(id ?? '', 1);
    }
    await gateway.cut();
  });

  it('comes too late for what may have left, or has ended', async () => {
    const connectionId = await room.connection();
    const target = await room.target({ connectionId });
    const { executionId } = await room.execute(target);
    const gateway = await TestGateway.attach(room, { connectionId });
    await gateway.command(1);
    const late = await cancelFails(executionId);
    expect(late).toMatchObject({ code: 9, reason: 'not_enqueued', message: expect.stringContaining('is in_transit') });
    expect(late.metadata).toMatchObject({ execution_id: executionId, state: 'in_transit' });
    await gateway.result(executionId, 1);
    expect(await cancelFails(executionId)).toMatchObject({ code: 9, reason: 'not_enqueued', message: expect.stringContaining('has ended') });
    await gateway.cut();
  });

  it('knows executions of the own organization only', async () => {
    const { executionId } = await room.execute(await room.target());
    expect(await cancelFails(executionId, AS_TWO)).toMatchObject({ code: 5, reason: 'execution_not_found' });
    expect(await cancelFails('0190a0a0-0000-7000-8000-000000000000')).toMatchObject({ code: 5, reason: 'execution_not_found' });
    expect((await room.get(executionId)).state).toBe(ENQUEUED);
  });
});
