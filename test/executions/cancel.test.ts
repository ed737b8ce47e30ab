import { type Execution, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { AS_ONE, AS_TWO, type ExecutionFixture } from './executionFixture';
import { fixtureForAll } from './executionSuite';
import { TestGateway } from './testGateway';

const { EXECUTION_STATE_TRANSPORT_UNREACHABLE: UNREACHABLE, EXECUTION_STATE_ENQUEUED: ENQUEUED } = ExecutionState;
const NUMBERED = { paramsSchema: { n: { type: 2, enum: [] } }, directPayload: '{"n": {{params.n}}}' } as never;

describe.each(engines())('cancelling executions on $name', ({ createDatabase }) => {
  let fixture: ExecutionFixture;
  fixtureForAll(createDatabase, (made) => (fixture = made.fixture));
  const cancel = async (executionId: string): Promise<Execution> =>
    await call(fixture.client.cancelExecution.bind(fixture.client), { executionId, organizationId: '' }, AS_ONE);
  const cancelFails = async (executionId: string, as = AS_ONE): Promise<GrpcErrorInfo> =>
    await callFails(fixture.client.cancelExecution.bind(fixture.client), { executionId, organizationId: '' }, as);

  it('ends an enqueued execution and makes room for another one', async () => {
    const target = await fixture.target({ connectionId: await fixture.connection({ policy: { queueLimit: 1 } }) });
    const { executionId } = await fixture.execute(target);
    const taken = await cancel(executionId);
    expect(taken).toMatchObject({
      id: executionId,
      state: UNREACHABLE,
      detail: 'cancelled',
      attempts: 0,
      deadlineAt: undefined,
      events: [],
      organizationId: 'org-1',
    });
    expect(
      (await fixture.get(executionId)).events.map(({ event, layer, source, to }) => [event, layer, source, to]),
    ).toEqual([
      ['submitted', 1, 'api', ENQUEUED],
      ['cancelled', 1, 'api', UNREACHABLE],
    ]);
    expect(await fixture.execute(target)).toMatchObject({ accepted: true, duplicate: false });
  });

  it('may be repeated, also in parallel, with the same response', async () => {
    const { executionId } = await fixture.execute(await fixture.target());
    const answers = await Promise.all([1, 2, 3].map(async () => await cancel(executionId)));
    const { events, ...stored } = await fixture.get(executionId);
    expect(answers).toEqual(answers.map(() => ({ ...stored, events: [] })));
    expect(events).toHaveLength(2);
  });

  it('removes an execution from the middle of a queue, and the others continue in order', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId, command: NUMBERED });
    const ids: string[] = [];
    for (const n of [1, 2, 3]) ids.push((await fixture.execute(target, { params: { n } })).executionId);
    await cancel(ids[1] ?? '');
    const gateway = await TestGateway.attach(fixture, { connectionId });
    for (const [at, id] of [ids[0], ids[2]].entries()) {
      expect((await gateway.command(at + 1)).executionId).toBe(id);
      await gateway.result(id ?? '', 1);
    }
    await gateway.cut();
  });

  it('is rejected for executions that may have been sent or have ended', async () => {
    const connectionId = await fixture.connection();
    const target = await fixture.target({ connectionId });
    const { executionId } = await fixture.execute(target);
    const gateway = await TestGateway.attach(fixture, { connectionId });
    await gateway.command(1);
    const late = await cancelFails(executionId);
    expect(late).toMatchObject({
      code: 9,
      reason: 'not_cancellable',
      message: expect.stringContaining('is in_transit'),
    });
    expect(late.metadata).toMatchObject({ execution_id: executionId, state: 'in_transit' });
    await gateway.result(executionId, 1);
    expect(await cancelFails(executionId)).toMatchObject({
      code: 9,
      reason: 'not_cancellable',
      message: expect.stringContaining('it is final'),
    });
    await gateway.cut();
  });

  it("finds only executions of the caller's organization", async () => {
    const { executionId } = await fixture.execute(await fixture.target());
    expect(await cancelFails(executionId, AS_TWO)).toMatchObject({ code: 5, reason: 'execution_not_found' });
    expect(await cancelFails('0190a0a0-0000-7000-8000-000000000000')).toMatchObject({
      code: 5,
      reason: 'execution_not_found',
    });
    expect((await fixture.get(executionId)).state).toBe(ENQUEUED);
  });
});
