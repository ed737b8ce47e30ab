import fc from 'fast-check';
import { newId } from '../../../src/kernel/ids';
import { sqliteOnly, type TestDatabase } from '../../support/engines';
import { Mqtt5Broker } from '../../support/mqtt5Broker';
import {
  type ExecutionFixture,
  prepare,
  startExecutionFixture,
  type Target,
  type TargetOptions,
  untilEvent,
  untilFinal,
} from '../executionFixture';
import { JumpClock } from './jumpClock';

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

describe.each(sqliteOnly())('what messages of a broker prove about a command, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  let clock: JumpClock;
  let broker: Mqtt5Broker;

  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
  });
  beforeEach(async () => {
    clock = new JumpClock();
    fixture = await startExecutionFixture(db.database, clock);
    broker = await new Mqtt5Broker().start();
  });
  afterEach(async () => {
    await fixture.stop();
    await broker.stop();
  });
  afterAll(async () => await db.drop());

  async function connect(more: object = {}): Promise<string> {
    const configuration = {
      url: broker.url,
      uplinkTopic: 'plant/{clientDeviceId}/up',
      downlinkTopic: 'plant/{clientDeviceId}/command',
      ...more,
    };
    const connectionId = await fixture.connection({ connectorId: 'mqtt', configuration });
    await fixture.untilConnected(connectionId);
    return connectionId;
  }

  async function createDevice(options: TargetOptions = {}, more: object = {}): Promise<Target> {
    return await fixture.target({ connectionId: await connect(more), clientDeviceId: `d-${newId()}`, ...options });
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
    /** A command whose query expects the state of the sensor at `level`, or of none. Resolves when both were sent. */
    async function query(isAsking: boolean): Promise<{ target: Target; executionId: string }> {
      const plain = await createDevice({ expects: true });
      const expectedSensorStates = isAsking ? [{ sensorId: plain.sensorId, valueTemplate: '0' }] : [];
      const queryCommandId = await fixture.addCommand(plain.deviceId, { expectedSensorStates });
      const command = { verificationStrategy: 3, queryCommandId };
      const target = { ...plain, commandId: await fixture.addCommand(plain.deviceId, command) };
      const executionId = await deliver(target);
      const sent = (await fixture.get(executionId)).events.find(
        ({ data }) => data?.['query_execution_id'] !== undefined,
      );
      await untilEvent(fixture.executions, String(sent?.data?.['query_execution_id']), 'transport_ok');
      return { target, executionId };
    }

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
    const execute = async (target: Target, level: number): Promise<string> =>
      (await fixture.execute(target, { params: { level } })).executionId;
    const countCommands = (): number => broker.published.filter(({ topic }) => topic.endsWith('/command')).length;

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

    type Step = { readonly kind: 'request' | 'acknowledge' } | { readonly kind: 'uplink'; readonly back: number };
    const STEPS = fc.array(
      fc.oneof<fc.Arbitrary<Step>[]>(
        fc.constant({ kind: 'request' } as const),
        fc.constant({ kind: 'acknowledge' } as const),
        fc.record({ kind: fc.constant('uplink' as const), back: fc.integer({ min: 0, max: 2 }) }),
      ),
      { minLength: 4, maxLength: 14 },
    );

    it('is a mismatch only of the newest command that was sent, with late PUBACKs in any order', async () => {
      let lateTopic = '';
      broker.onPublish = ({ topic }) => (topic === lateTopic ? undefined : 0);
      const connectionId = await connect();
      const outcomes = new Map<string, number>();
      const run = async (steps: readonly Step[]): Promise<void> => {
        const target = await fixture.target({ connectionId, clientDeviceId: `d-${newId()}`, ...SET_LEVEL });
        const executions: string[] = []; // the one at index n expects the level n + 1
        const open = new Set<string>();
        let sent = 0;
        lateTopic = `plant/${target.clientDeviceId}/command`;
        const isInTransit = async (): Promise<boolean> =>
          sent > 0 && (await getStored(executions[sent - 1] ?? '')).state === 'in_transit';
        /** Waits until the next command is sent, unless the previous one is still in transit. */
        const waitForNext = async (): Promise<void> => {
          if (executions.length === sent || (await isInTransit())) return;
          sent += 1;
          await broker.until(() => broker.published.filter(({ topic }) => topic === lateTopic).length === sent);
        };
        for (const step of steps) {
          clock.advance(100);
          if (step.kind === 'request') {
            const executionId = await execute(target, executions.length + 1);
            executions.push(executionId);
            open.add(executionId);
          } else if (step.kind === 'acknowledge') {
            const isAwaited = await isInTransit();
            broker.acknowledgeLate();
            if (isAwaited) await untilEvent(fixture.executions, executions[sent - 1] ?? '', 'transport_ok');
          } else if (step.kind === 'uplink') {
            const level = Math.max(0, sent - step.back);
            await publish(target, JSON.stringify({ level }));
            for (const executionId of open) {
              const { detail } = await getStored(executionId);
              const isNewest = executionId === executions[sent - 1];
              if (detail === 'verification_mismatch') expect(isNewest).toBe(true);
              if (detail === 'superseded') expect(isNewest).toBe(false);
            }
          }
          await waitForNext();
          for (const executionId of open) {
            const { state, detail } = await getStored(executionId);
            if (!['unconfirmed', 'converged'].includes(state)) continue;
            open.delete(executionId);
            outcomes.set(`${state} ${detail}`, (outcomes.get(`${state} ${detail}`) ?? 0) + 1);
          }
        }
        lateTopic = '';
        broker.acknowledgeLate();
      };
      await fc.assert(fc.asyncProperty(STEPS, run), { seed: SEED, numRuns: 40 });
      // Every outcome was reached.
      expect([...outcomes.keys()].toSorted()).toEqual([
        'converged ',
        'unconfirmed superseded',
        'unconfirmed verification_mismatch',
      ]);
    });
  });

  describe('a response that says neither success nor rejection', () => {
    /** Executes a command and publishes the device's response to it. */
    async function respond(target: Target, payload: string | Buffer): Promise<string> {
      const { executionId } = await fixture.execute(target);
      await fixture.until(executionId, 'delivered');
      broker.publish('plant/answers', payload, { properties: { correlationData: Buffer.from(executionId) } });
      return executionId;
    }

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
