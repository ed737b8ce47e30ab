import fc from 'fast-check';
import { isFinal } from '../../../src/executions';
import { newId } from '../../../src/kernel/ids';
import { sqliteOnly } from '../../support/engines';
import { Mqtt5Broker } from '../../support/mqtt5Broker';
import { TestClock } from '../../support/testClock';
import { type ExecutionFixture, type Target, type TargetOptions, untilEvent, untilFinal } from '../executionFixture';
import { fixtureForEach } from '../executionSuite';
import { connectMqtt } from './mqttField';

const SEED = 20_261_128;
const MINUTE = 60_000;
const NEXT_UPLINK = { verificationStrategy: 2 };
const ANSWERS = { kind: 'response_topic', responseTopic: 'plant/answers', statusPath: 'status', okValues: ['ok'] };
/** A command whose expected state is its parameter. */
const SET_LEVEL: TargetOptions = {
  expects: '{{params.level}}',
  command: {
    ...NEXT_UPLINK,
    paramsSchema: { level: { type: 3, enum: [] } } as never,
    directPayload: '{"level": {{params.level}}}',
  },
};

/** What happens at a site: a request, late PUBACKs, or an uplink that shows the level of a recent command. */
type Step =
  { readonly kind: 'request' } | { readonly kind: 'acknowledge' } | { readonly kind: 'uplink'; readonly back: number };
const STEPS = fc.array(
  fc.oneof<fc.Arbitrary<Step>[]>(
    fc.constant({ kind: 'request' } as const),
    fc.constant({ kind: 'acknowledge' } as const),
    fc.record({ kind: fc.constant('uplink' as const), back: fc.integer({ min: 0, max: 2 }) }),
  ),
  { minLength: 4, maxLength: 14 },
);

/** A device whose PUBACKs come late. The n-th command of a device expects the level n. */
class LateSite {
  /** The final states and details that were reached. */
  readonly outcomes = new Set<string>();
  private target: Target | undefined;
  private executions: string[] = [];
  private readonly open = new Set<string>();
  private sent = 0;
  private lateTopic = '';

  constructor(
    private readonly fixture: ExecutionFixture,
    private readonly broker: Mqtt5Broker,
    private readonly publish: (target: Target, level: number) => Promise<void>,
  ) {
    broker.onPublish = ({ topic }) => (topic === this.lateTopic ? undefined : 0);
  }

  start(target: Target): void {
    this.target = target;
    this.executions = [];
    this.open.clear();
    this.sent = 0;
    this.lateTopic = `plant/${target.clientDeviceId}/command`;
  }

  /** Acknowledges all commands of the device, also those that are still queued. */
  end(): void {
    this.lateTopic = '';
    this.broker.acknowledgeLate();
  }

  async run(step: Step): Promise<void> {
    if (step.kind === 'request') await this.request();
    else if (step.kind === 'acknowledge') await this.acknowledge();
    else await this.sendUplink(Math.max(0, this.sent - step.back));
    await this.waitForNext();
    await this.removeFinal();
  }

  private async request(): Promise<void> {
    const params = { level: this.executions.length + 1 };
    const { executionId } = await this.fixture.execute(this.target as Target, { params });
    this.executions.push(executionId);
    this.open.add(executionId);
  }

  private async acknowledge(): Promise<void> {
    const isAwaited = await this.isInTransit();
    this.broker.acknowledgeLate();
    if (isAwaited) await untilEvent(this.fixture.executions, this.newestSent, 'transport_ok');
  }

  /** Sends an uplink, and checks which executions it has ended. */
  private async sendUplink(level: number): Promise<void> {
    await this.publish(this.target as Target, level);
    for (const executionId of this.open) {
      const { detail } = await this.read(executionId);
      const isNewest = executionId === this.newestSent;
      if (detail === 'verification_mismatch') expect(isNewest).toBe(true);
      if (detail === 'superseded') expect(isNewest).toBe(false);
    }
  }

  /** Waits until the next command is sent, unless there is none or the previous one is still in transit. */
  private async waitForNext(): Promise<void> {
    if (this.executions.length === this.sent || (await this.isInTransit())) return;
    this.sent += 1;
    await this.broker.until(
      () => this.broker.published.filter(({ topic }) => topic === this.lateTopic).length === this.sent,
    );
  }

  private async removeFinal(): Promise<void> {
    for (const executionId of this.open) {
      const { state, detail } = await this.read(executionId);
      if (!isFinal(state)) continue;
      this.open.delete(executionId);
      this.outcomes.add(`${state} ${detail}`);
    }
  }

  private get newestSent(): string {
    return this.executions[this.sent - 1] ?? '';
  }

  private async isInTransit(): Promise<boolean> {
    return this.sent > 0 && (await this.read(this.newestSent)).state === 'in_transit';
  }

  private async read(executionId: string) {
    return (await this.fixture.executions.service.get('org-1', executionId)).execution;
  }
}

describe.each(sqliteOnly())('what messages of a broker prove about a command, on $name', ({ createDatabase }) => {
  let fixture: ExecutionFixture;
  let clock: TestClock;
  let broker: Mqtt5Broker;
  fixtureForEach(
    createDatabase,
    (made) => ({ fixture } = made),
    () => fixture,
    () => (clock = new TestClock()),
  );
  beforeEach(async () => {
    broker = await new Mqtt5Broker().start();
  });
  afterEach(async () => await broker.stop());

  async function createDevice(options: TargetOptions = {}, more: object = {}): Promise<Target> {
    return await fixture.target({
      connectionId: await connectMqtt(fixture, broker.url, more),
      clientDeviceId: `d-${newId()}`,
      ...options,
    });
  }

  /** Publishes an uplink. Resolves when it is stored. */
  async function publish({ clientDeviceId }: Target, payload: string | Buffer): Promise<void> {
    const before = broker.acknowledged.length;
    clock.advance(1000);
    broker.publish(`plant/${clientDeviceId}/up`, payload);
    await broker.until(() => broker.acknowledged.length > before);
  }

  async function deliver(target: Target): Promise<string> {
    const { executionId } = await fixture.execute(target);
    await untilEvent(fixture.executions, executionId, 'transport_ok');
    return executionId;
  }

  const getStored = async (executionId: string) =>
    (await fixture.executions.service.get('org-1', executionId)).execution;

  async function getOutcome(executionId: string): Promise<readonly unknown[]> {
    const { state, detail, evidence } = await getStored(executionId);
    return [state, detail, evidence];
  }

  async function waitForEnd(executionId: string): Promise<readonly unknown[]> {
    await untilFinal(fixture.executions, executionId);
    return await getOutcome(executionId);
  }

  /** Lets time pass until no timer is left. */
  async function expire(executionId: string): Promise<readonly unknown[]> {
    for (let step = 0; step < 10; step += 1) {
      clock.advance(10 * MINUTE);
      await fixture.executions.deadlines.sweep();
    }
    return await waitForEnd(executionId);
  }

  const execute = async (target: Target, level: number): Promise<string> =>
    (await fixture.execute(target, { params: { level } })).executionId;
  const countCommands = (): number => broker.published.filter(({ topic }) => topic.endsWith('/command')).length;

  /** A command whose query expects the state of the sensor at `level`, or of none. Resolves when both were sent. */
  async function query(isAsking: boolean): Promise<{ target: Target; executionId: string }> {
    const plain = await createDevice({ expects: true });
    const expectedSensorStates = isAsking ? [{ sensorId: plain.sensorId, valueTemplate: '0' }] : [];
    const queryCommandId = await fixture.addCommand(plain.deviceId, { expectedSensorStates });
    const command = { verificationStrategy: 3, queryCommandId };
    const target = { ...plain, commandId: await fixture.addCommand(plain.deviceId, command) };
    const executionId = await deliver(target);
    const sent = (await fixture.get(executionId)).events.find(({ data }) => data?.['query_execution_id'] !== undefined);
    await untilEvent(fixture.executions, String(sent?.data?.['query_execution_id']), 'transport_ok');
    return { target, executionId };
  }

  /** Executes a command and publishes the device's response to it. */
  async function respond(target: Target, payload: string | Buffer): Promise<string> {
    const { executionId } = await fixture.execute(target);
    await fixture.until(executionId, 'delivered');
    broker.publish('plant/answers', payload, { properties: { correlationData: Buffer.from(executionId) } });
    return executionId;
  }

  describe('wait_next_uplink without expected states', () => {
    it.each(['5', '3.1.1'])(
      'says that an uplink came, not that the device acknowledged (MQTT %s)',
      async (protocol) => {
        const target = await createDevice({ command: NEXT_UPLINK }, { protocol });
        const executionId = await deliver(target);
        await publish(target, '{"temperature": 21.5}');
        expect(await getOutcome(executionId)).toEqual(['accepted_no_l4', '', 'implicit_uplink']);
        const { detailMessage } = await getStored(executionId);
        expect(detailMessage).toBe(
          'an uplink came after the command was sent; it does not show that the device received the command',
        );
        expect((await fixture.get(executionId)).events.at(-1)).toMatchObject({
          event: 'uplink',
          data: { message: detailMessage },
        });
      },
    );

    it.each<[string, string | Buffer]>([
      ['an empty payload', ''],
      ['an empty object', '{}'],
      ['an empty list', '[]'],
      ['null', 'null'],
      ['an object of empty objects', '{"data": {"values": [], "state": null}}'],
      ['bytes', Buffer.from([0xff, 0x00, 0x17])],
      ['a message cut in the middle', '{"temperature": 21.'],
    ])('does not count %s', async (_name, payload) => {
      const target = await createDevice({ command: NEXT_UPLINK });
      const executionId = await deliver(target);
      await publish(target, payload);
      expect(await getOutcome(executionId)).toEqual(['delivered', '', undefined]);
      expect(await expire(executionId)).toEqual(['unconfirmed', 'ack_timeout', undefined]);
    });

    it.each<[string, string | Buffer, string, 'string' | 'number']>([
      ['bytes that a sensor takes as they are', Buffer.from([0xff, 0x00, 0x17]), 'bytes', 'string'],
      ['a number', '21.5', 'value', 'number'],
      ['a value of another type than its sensor', '{"level": "open"}', 'level', 'number'],
    ])('counts %s', async (_name, payload, levelPath, valueType) => {
      const command = { ...NEXT_UPLINK, expectedSensorStates: [] };
      const target = await createDevice({
        expects: valueType === 'string' ? '"ff"' : true,
        levelPath,
        valueType,
        command,
      });
      const executionId = await deliver(target);
      await publish(target, payload);
      expect(await getOutcome(executionId)).toEqual(['accepted_no_l4', '', 'implicit_uplink']);
    });

    it('does not count an empty payload although a sensor takes bytes', async () => {
      const command = { ...NEXT_UPLINK, expectedSensorStates: [] };
      const target = await createDevice({ expects: '"ff"', levelPath: 'bytes', valueType: 'string', command });
      const executionId = await deliver(target);
      await publish(target, '');
      expect(await getOutcome(executionId)).toEqual(['delivered', '', undefined]);
    });

    it('does not count an uplink whose sample is older than the command', async () => {
      const target = await createDevice({ command: NEXT_UPLINK }, { timePath: 'time' });
      const executionId = await deliver(target);
      const sentAt = clock.now();
      await publish(target, JSON.stringify({ temperature: 21.5, time: sentAt - MINUTE }));
      expect(await getOutcome(executionId)).toEqual(['delivered', '', undefined]);
      await publish(target, JSON.stringify({ temperature: 21.5, time: sentAt + 500 }));
      expect(await getOutcome(executionId)).toEqual(['accepted_no_l4', '', 'implicit_uplink']);
    });
  });

  it.each(['', '{}', '{"level": 2'])('an uplink that cannot be read is no mismatch: %j', async (payload) => {
    const target = await createDevice({ expects: true, command: NEXT_UPLINK });
    const executionId = await deliver(target);
    await publish(target, payload);
    expect(await getOutcome(executionId)).toEqual(['delivered', '', undefined]);
    await publish(target, '{"level": 21}');
    expect(await getOutcome(executionId)).toEqual(['converged', '', 'sensor']);
  });

  describe('query_after_ack', () => {
    it('does not take a periodic uplink for the answer', async () => {
      const { target, executionId } = await query(false);
      await publish(target, '{"level": 12, "temperature": 21.5}');
      expect(await getOutcome(executionId)).toEqual(['delivered', '', undefined]);
      expect(await expire(executionId)).toEqual(['unconfirmed', 'query_timeout', undefined]);
    });

    it('takes an uplink for the answer if it carries what the query asks for', async () => {
      const { target, executionId } = await query(true);
      await publish(target, '{"temperature": 21.5}');
      expect(await getOutcome(executionId)).toEqual(['delivered', '', undefined]);
      await publish(target, '{"level": 12}');
      expect(await getOutcome(executionId)).toEqual(['accepted_no_l4', '', 'query']);
    });
  });

  describe('an uplink after a newer command', () => {
    it('does not decide the older command, whose PUBACK was late', async () => {
      broker.onPublish = () => undefined;
      const target = await createDevice(SET_LEVEL);
      const first = await execute(target, 20);
      await broker.until(() => countCommands() === 1);
      const second = await execute(target, 30);
      clock.advance(1000);
      broker.acknowledgeLate();
      await broker.until(() => countCommands() === 2);
      await publish(target, '{"level": 30}');
      expect(await getOutcome(first)).toEqual(['unconfirmed', 'superseded', undefined]);
      expect((await fixture.get(first)).events.at(-1)).toMatchObject({
        event: 'superseded',
        source: 'uplink',
        data: { by_execution_id: second, values: { [target.sensorId]: 30 } },
      });
      broker.acknowledgeLate();
      await untilEvent(fixture.executions, second, 'transport_ok');
      await publish(target, '{"level": 30}');
      expect(await getOutcome(second)).toEqual(['converged', '', 'sensor']);
    });

    it('does not decide the older command when the newer one expects nothing and is final', async () => {
      const target = await createDevice(SET_LEVEL);
      const first = await execute(target, 20);
      await untilEvent(fixture.executions, first, 'transport_ok');
      const newer = await fixture.addCommand(target.deviceId, { directPayload: '{"close": true}' });
      const { executionId } = await fixture.execute({ ...target, commandId: newer });
      expect(await waitForEnd(executionId)).toEqual(['unconfirmed', '', undefined]);
      await publish(target, '{"level": 0}');
      expect(await getOutcome(first)).toEqual(['unconfirmed', 'superseded', undefined]);
    });

    it('decides the older command if the sample is older than the newer command', async () => {
      broker.onPublish = ({ topic }) => (topic.endsWith('/command') && countCommands() > 1 ? undefined : 0);
      const target = await createDevice(SET_LEVEL, { timePath: 'time' });
      const first = await execute(target, 20);
      await untilEvent(fixture.executions, first, 'transport_ok');
      clock.advance(5000);
      const sampledAt = clock.now();
      clock.advance(5000);
      await execute(target, 30);
      await broker.until(() => countCommands() === 2);
      await publish(target, JSON.stringify({ level: 10, time: sampledAt }));
      expect(await getOutcome(first)).toEqual(['unconfirmed', 'verification_mismatch', undefined]);
    });

    it('is a mismatch only of the newest command that was sent, with late PUBACKs in any order', async () => {
      const site = new LateSite(
        fixture,
        broker,
        async (target, level) => await publish(target, JSON.stringify({ level })),
      );
      const connectionId = await connectMqtt(fixture, broker.url);
      const run = async (steps: readonly Step[]): Promise<void> => {
        site.start(await fixture.target({ connectionId, clientDeviceId: `d-${newId()}`, ...SET_LEVEL }));
        for (const step of steps) {
          clock.advance(100);
          await site.run(step);
        }
        site.end();
      };
      await fc.assert(fc.asyncProperty(STEPS, run), { seed: SEED, numRuns: 40 });
      // Every outcome was reached.
      expect([...site.outcomes].toSorted()).toEqual([
        'converged ',
        'unconfirmed superseded',
        'unconfirmed verification_mismatch',
      ]);
    });
  });

  describe('a response that says neither success nor rejection', () => {
    it.each([
      ['{"result":"ok"}', 'the response has no `status`: {"result":"ok"}'],
      ['ok', 'the response is not valid JSON of at most 65536 bytes: ok'],
      ['{"status":7}', '`status` in the response does not have the type of an okValue: {"status":7}'],
      [
        '{"status":{"code":"ok"}}',
        '`status` in the response does not have the type of an okValue: {"status":{"code":"ok"}}',
      ],
    ])('is not understood, and is no rejection: %s', async (payload, message) => {
      const executionId = await respond(await createDevice({}, { answer: ANSWERS }), payload);
      expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'answer_not_understood', undefined]);
      expect(await getStored(executionId)).toMatchObject({ detailMessage: message });
      expect((await fixture.get(executionId)).events.at(-1)).toMatchObject({
        event: 'answer_not_understood',
        data: { message },
      });
    });

    it('leaves the decision to the sensors', async () => {
      const command = { ...NEXT_UPLINK, convergenceTimeout: 600 };
      const target = await createDevice({ expects: true, command }, { answer: ANSWERS });
      const executionId = await respond(target, '{"result":"ok"}');
      await untilEvent(fixture.executions, executionId, 'answer_not_understood');
      expect(await getOutcome(executionId)).toEqual(['delivered', '', undefined]);
      await publish(target, '{"level": 21}');
      expect(await getOutcome(executionId)).toEqual(['converged', '', 'sensor']);
    });

    it('is different from a rejection', async () => {
      const executionId = await respond(await createDevice({}, { answer: ANSWERS }), '{"status":"jammed"}');
      expect(await waitForEnd(executionId)).toEqual(['protocol_rejected', 'jammed', undefined]);
    });
  });
});
