import fc from 'fast-check';
import { ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { AS_ONE, type ExecutionFixture, type Target } from './executionFixture';
import { call, callFails } from '../support/edge';
import { engines, type TestDatabase } from '../support/engines';
import { fixtureForAll } from './executionSuite';
import { TestGateway } from './testGateway';

const SEED = 20_261_125;
const ACCEPTED = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED;
const SWITCH = {
  name: 'Switch',
  paramsSchema: { on: { type: 2, enum: [] } },
  directPayload: '{"on": {{params.on}}}',
} as never;
const OPEN = { name: 'Open', directPayload: '{"open": true}' };

/** What a caller may request of the device: on, off, or a different command. */
type Act = 'on' | 'off' | 'open';
type Step =
  | { readonly kind: 'request'; readonly act: Act; readonly withTrigger: boolean }
  | { readonly kind: 'cancel'; readonly at: number }
  | { readonly kind: 'serve'; readonly commands: number };

const STEP: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('request' as const),
      act: fc.constantFrom<Act>('on', 'off', 'open'),
      withTrigger: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), at: fc.nat(20) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('serve' as const), commands: fc.integer({ min: 0, max: 4 }) }),
  },
);

/** A device with a gateway that attaches at times. Records what was requested and what the device received. */
class Site {
  /** Accepted requests in their order, without cancelled ones. */
  readonly accepted: { readonly act: Act; readonly executionId: string; readonly isDuplicate: boolean }[] = [];
  readonly delivered: Act[] = [];

  private constructor(
    private readonly fixture: ExecutionFixture,
    private readonly database: TestDatabase['database'],
    private readonly connectionId: string,
    private readonly device: Target,
    private readonly openCommandId: string,
  ) {}

  static async create(fixture: ExecutionFixture, { database }: TestDatabase): Promise<Site> {
    const connectionId = await fixture.connection({ policy: { sleepy: true } });
    const device = await fixture.target({ connectionId, command: SWITCH });
    return new Site(fixture, database, connectionId, device, await fixture.addCommand(device.deviceId, OPEN));
  }

  async runStep(step: Step): Promise<void> {
    if (step.kind === 'request')
      await this.request(step.act, step.withTrigger ? `t-${this.accepted.length}` : undefined);
    else if (step.kind === 'cancel') await this.cancel(step.at);
    else await this.serve(step.commands);
  }

  async request(act: Act, triggerId?: string): Promise<{ executionId: string; duplicate: boolean }> {
    const { deviceId } = this.device;
    const commandId = act === 'open' ? this.openCommandId : this.device.commandId;
    const params = act === 'open' ? {} : { on: act === 'on' ? 1 : 0 };
    const { accepted, executionId, duplicate } = await this.fixture.execute(
      { deviceId, commandId },
      { params, ...(triggerId !== undefined && { triggerId }) },
    );
    if (accepted) this.accepted.push({ act, executionId, isDuplicate: duplicate });
    return { executionId, duplicate };
  }

  /** Cancels the execution of a request if it was not sent yet. */
  async cancel(at: number): Promise<void> {
    const executionId = this.accepted[at]?.executionId;
    if (executionId === undefined) return;
    const request = { executionId, organizationId: '' };
    const cancel = this.fixture.client.cancelExecution.bind(this.fixture.client);
    if ((await this.fixture.get(executionId)).state !== ExecutionState.EXECUTION_STATE_ENQUEUED) {
      expect(await callFails(cancel, request, AS_ONE)).toMatchObject({ reason: 'not_cancellable' });
      return;
    }
    await call(cancel, request, AS_ONE);
    this.accepted.splice(0, Infinity, ...this.accepted.filter((one) => one.executionId !== executionId));
  }

  /** Attaches a gateway, executes up to this number of waiting commands, and breaks the connection. */
  async serve(commands: number): Promise<void> {
    const gateway = await TestGateway.attach(this.fixture, { connectionId: this.connectionId });
    // Commands in transit when the connection broke are resent after a backoff.
    this.fixture.clock.advance(60_000);
    await this.fixture.executions.deadlines.sweep();
    const count = Math.min(commands, await this.countWaiting());
    for (let n = 1; n <= count; n++) {
      const { executionId, payload } = await gateway.command(n);
      const { on, open } = (payload?.value ?? {}) as { on?: number; open?: boolean };
      this.delivered.push(open ? 'open' : on === 1 ? 'on' : 'off');
      gateway.received(executionId);
      await gateway.result(executionId, ACCEPTED);
    }
    await gateway.cut();
    await this.fixture.executions.detached('org-1', this.connectionId);
  }

  private async countWaiting(): Promise<number> {
    const rows = this.database.db
      .knex('executions')
      .where({ organization_id: 'org-1', device_id: this.device.deviceId });
    return (await rows.where('final', 0).pluck<string[]>('id')).length;
  }
}

describe.each(engines())('the last accepted request on $name', ({ name, createDatabase }) => {
  let fixture: ExecutionFixture;
  let db: TestDatabase;
  fixtureForAll(createDatabase, (made) => ({ fixture, db } = made));

  it('is the last one that the device receives, after any requests, cancellations and deliveries', async () => {
    const property = fc.asyncProperty(fc.array(STEP, { minLength: 3, maxLength: 14 }), async (steps) => {
      const site = await Site.create(fixture, db);
      for (const step of steps) await site.runStep(step);
      await site.serve(Infinity);
      if (site.accepted.length > 0) expect(site.delivered.at(-1)).toBe(site.accepted.at(-1)?.act);
      expect(site.delivered).toHaveLength(site.accepted.filter(({ isDuplicate }) => !isDuplicate).length);
    });
    await fc.assert(property, { seed: SEED, numRuns: name === 'sqlite' ? 25 : 10 });
  });

  it.each([
    ['on', 'off', 'on'],
    ['on', 'open', 'on'],
  ] as const)('%s, %s, %s reach the device as requested, with three trigger ids or none', async (...acts) => {
    const site = await Site.create(fixture, db);
    for (const act of acts) expect(await site.request(act)).toMatchObject({ duplicate: false });
    const { executionId } = site.accepted.at(-1) ?? {};
    expect(await site.request(acts[2], 'repeat')).toEqual({ executionId, duplicate: true });
    await site.serve(Infinity);
    expect(site.delivered).toEqual(acts);
    for (const [at, act] of acts.entries())
      expect(await site.request(act, `trigger-${at}`)).toMatchObject({ duplicate: false });
    await site.serve(Infinity);
    expect(site.delivered).toEqual([...acts, ...acts]);
  });

  it('stays a duplicate of the one in flight when those in between do not undo it', async () => {
    const connectionId = await fixture.connection();
    const lamp = await fixture.target({ connectionId, expects: '1' });
    const fan = await fixture.target({ connectionId, expects: '1' });
    const other = { expectedSensorStates: [{ sensorId: fan.sensorId, valueTemplate: '0' }] };
    const [lampId, fanId] = [lamp.deviceId, fan.deviceId];
    const first = await fixture.execute(lamp);
    const again = { expectedSensorStates: [{ sensorId: lamp.sensorId, valueTemplate: '1' }] };
    expect(
      (await fixture.execute({ deviceId: lampId, commandId: await fixture.addCommand(lampId, again) })).duplicate,
    ).toBe(false);
    expect(
      (await fixture.execute({ deviceId: fanId, commandId: await fixture.addCommand(fanId, other) })).duplicate,
    ).toBe(false);
    expect(await fixture.execute(lamp)).toMatchObject({ duplicate: true, executionId: first.executionId });
    const opposite = { expectedSensorStates: [{ sensorId: lamp.sensorId, valueTemplate: '0' }] };
    expect(
      (await fixture.execute({ deviceId: lampId, commandId: await fixture.addCommand(lampId, opposite) })).duplicate,
    ).toBe(false);
    expect((await fixture.execute(lamp)).duplicate).toBe(false);
  });
});
