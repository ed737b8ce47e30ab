import { newId } from '../../../src/kernel/ids';
import { sqliteOnly, type TestDatabase } from '../../support/engines';
import { Mqtt5Broker } from '../../support/mqtt5Broker';
import {
  type ExecutionFixture,
  startExecutionFixture,
  type Target,
  type TargetOptions,
  untilEvent,
  untilFinal,
} from '../executionFixture';
import { fixtureForEach } from '../executionSuite';
import { JumpClock } from './jumpClock';
import { connectMqtt } from './mqttField';

const HOUR = 3_600_000;
const NO_SUBSCRIBERS = 0x10;
const NOT_AUTHORIZED = 0x87;
const COMMAND = { directPayload: '{"id": "{{execution.id}}"}' };
const ANSWERS = {
  kind: 'response_topic',
  responseTopic: 'plant/answers',
  statusPath: 'status',
  okValues: ['ok'],
  messagePath: 'message',
};

describe.each(sqliteOnly())('executions over MQTT, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  let clock: JumpClock;
  let broker: Mqtt5Broker;
  fixtureForEach(
    createDatabase,
    (made) => ({ db, fixture } = made),
    () => fixture,
    () => (clock = new JumpClock()),
  );
  beforeEach(async () => {
    broker = await new Mqtt5Broker().start();
  });
  afterEach(async () => await broker.stop());

  const connect = async (at = broker, more: object = {}): Promise<string> => await connectMqtt(fixture, at.url, more);

  async function createValve(connectionId: string, options: TargetOptions = {}): Promise<Target> {
    return await fixture.target({
      connectionId,
      clientDeviceId: `valve-${newId()}`,
      ...options,
      command: { ...COMMAND, ...options.command },
    });
  }

  const listPublishedCommands = () => broker.published.filter(({ topic }) => topic.endsWith('/command'));
  const publishLevel = ({ clientDeviceId }: Target, level: number, more: object = {}): void =>
    broker.publish(`plant/${clientDeviceId}/up`, JSON.stringify({ level }), more);
  const getStored = async (executionId: string) =>
    (await fixture.executions.service.get('org-1', executionId)).execution;
  const listEvents = async (executionId: string): Promise<string[]> =>
    (await fixture.executions.service.get('org-1', executionId)).events.map(({ event }) => event);

  async function waitForEnd(executionId: string): Promise<readonly unknown[]> {
    await untilFinal(fixture.executions, executionId);
    const { state, detail } = await getStored(executionId);
    return [state, detail];
  }

  it('sets the message expiry at the broker to the remaining delivery time', async () => {
    const { executionId } = await fixture.execute(await createValve(await connect()));
    await waitForEnd(executionId);
    expect(
      listPublishedCommands().map(({ qos, retain, properties }) => [qos, retain, properties?.messageExpiryInterval]),
    ).toEqual([[1, false, 60]]);
  });

  it('publishes a command again, exactly once, when the broker had no subscriber', async () => {
    const connectionId = await connect();
    broker.onPublish = () => NO_SUBSCRIBERS;
    const { executionId } = await fixture.execute(await createValve(connectionId));
    await untilEvent(fixture.executions, executionId, 'known_undelivered');
    expect(await getStored(executionId)).toMatchObject({ state: 'enqueued', detail: 'no_subscribers', attempts: 1 });
    broker.onPublish = () => 0;
    clock.advance(1000);
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', '']);
    expect(listPublishedCommands()).toHaveLength(2);
  });

  it('does not deliver a command without a subscriber in time', async () => {
    const connectionId = await connect();
    broker.onPublish = () => NO_SUBSCRIBERS;
    const { executionId } = await fixture.execute(await createValve(connectionId));
    await untilEvent(fixture.executions, executionId, 'known_undelivered');
    clock.advance(HOUR);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(executionId)).toEqual(['transport_unreachable', 'no_subscribers']);
    expect(listPublishedCommands()).toHaveLength(1);
  });

  it('fails with the reason of the broker when it rejects the command', async () => {
    const connectionId = await connect();
    broker.onPublish = () => NOT_AUTHORIZED;
    const { executionId } = await fixture.execute(await createValve(connectionId));
    expect(await waitForEnd(executionId)).toEqual(['transport_rejected', 'not_authorized']);
  });

  it('never resends a command when the connection was lost before its PUBACK, and ends it sooner', async () => {
    const connectionId = await connect(broker);
    broker.onPublish = () => undefined;
    const { executionId } = await fixture.execute(await createValve(connectionId));
    await broker.until(() => listPublishedCommands().length === 1);
    broker.cut();
    await untilEvent(fixture.executions, executionId, 'link_lost');
    await fixture.untilConnected(connectionId);
    const { tDelivery } = await getStored(executionId);
    expect(tDelivery).toBe(clock.now() + 30_000);
    clock.advance(30_000);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'delivery_unconfirmed']);
    expect(listPublishedCommands()).toHaveLength(1);
  });

  it('never resends a command after a restart of the server', async () => {
    const connectionId = await connect();
    broker.onPublish = () => undefined;
    const [leaving, waiting] = [await createValve(connectionId), await createValve(connectionId)];
    const { executionId } = await fixture.execute(leaving);
    await broker.until(() => listPublishedCommands().length === 1);
    await fixture.stop();
    fixture = await startExecutionFixture(db.database, clock);
    await fixture.reopen(connectionId);
    await fixture.untilConnected(connectionId);
    expect(await listEvents(executionId)).toContain('link_lost');
    broker.onPublish = () => 0;
    expect(await waitForEnd((await fixture.execute(waiting)).executionId)).toEqual(['unconfirmed', '']);
    clock.advance(30_000 + 60_000);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'delivery_unconfirmed']);
    expect(listPublishedCommands()).toHaveLength(2);
  });

  it('waits for a broker that is not available, and sends the command when it returns', async () => {
    const connectionId = await connect();
    await broker.stop();
    const target = await createValve(connectionId);
    const { executionId } = await fixture.execute(target);
    await broker.start();
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', '']);
    expect(listPublishedCommands()).toHaveLength(1);
  });

  it('is not delayed by the slow broker of another connection', async () => {
    const slow = await new Mqtt5Broker().start();
    slow.onPublish = () => undefined;
    const [there, here] = [await connect(slow), await connect()];
    const targets = await Promise.all(Array.from({ length: 40 }, async () => await createValve(there)));
    for (const target of targets) await fixture.execute(target);
    expect(await waitForEnd((await fixture.execute(await createValve(here))).executionId)).toEqual(['unconfirmed', '']);
    expect(slow.published.length).toBeLessThanOrEqual(16);
    await slow.stop();
  });

  it('creates one execution for identical concurrent requests', async () => {
    const connectionId = await connect();
    broker.onPublish = () => undefined;
    const target = await createValve(connectionId);
    const all = await Promise.all(Array.from({ length: 8 }, async () => await fixture.execute(target)));
    expect(new Set(all.map(({ executionId }) => executionId)).size).toBe(1);
    expect(all.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    await broker.until(() => listPublishedCommands().length > 0);
    expect(listPublishedCommands()).toHaveLength(1);
  });

  const verified = { expects: true, command: { verificationStrategy: 2 } };

  it('treats an effect as proof of delivery when the PUBACK was lost', async () => {
    const target = await createValve(await connect(), verified);
    broker.onPublish = () => undefined;
    const { executionId } = await fixture.execute(target);
    await broker.until(() => listPublishedCommands().length === 1);
    clock.advance(1000);
    publishLevel(target, 20);
    publishLevel(target, 21);
    expect(await waitForEnd(executionId)).toEqual(['converged', '']);
    expect(await listEvents(executionId)).toEqual(['submitted', 'dispatch', 'sensors_matched']);
  });

  it.each([
    [
      'a message that waited at the broker while the server was down',
      async (target: Target, connectionId: string) => {
        await broker.stop();
        publishLevel(target, 21);
        await broker.start();
        await fixture.untilConnected(connectionId);
      },
    ],
    ['a retained message', async (target: Target) => await Promise.resolve(publishLevel(target, 21, { retain: true }))],
    [
      'a message with a time that cannot be read',
      async ({ clientDeviceId }: Target) => {
        const content = JSON.stringify({ level: 21, at: '2026-11-28T17:54:37' });
        await Promise.resolve(broker.publish(`plant/${clientDeviceId}/up`, content));
      },
    ],
  ] as const)('does not treat as an effect %s', async (_name, publishOldUplink) => {
    const connectionId = await connect(broker, { timePath: 'at' });
    const target = await createValve(connectionId, verified);
    const { executionId } = await fixture.execute(target);
    await fixture.until(executionId, 'delivered');
    clock.advance(1000);
    await publishOldUplink(target, connectionId);
    await broker.until(() => broker.acknowledged.length > 0);
    publishLevel(target, 22);
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'verification_mismatch']);
  });

  it('accepts an answer before its PUBACK, and counts repeated answers once', async () => {
    const target = await createValve(await connect(broker, { answer: ANSWERS }));
    broker.onPublish = () => undefined;
    const { executionId } = await fixture.execute(target);
    await broker.until(() => listPublishedCommands().length === 1);
    const [{ properties } = {}] = listPublishedCommands();
    for (let count = 0; count < 3; count += 1)
      broker.publish(properties?.responseTopic ?? '', '{"status": "ok"}', {
        properties: { correlationData: properties?.correlationData ?? Buffer.alloc(0) },
      });
    expect(await waitForEnd(executionId)).toEqual(['accepted_no_l4', '']);
    await broker.until(() => broker.acknowledged.length === 3);
    expect(await listEvents(executionId)).toEqual(['submitted', 'dispatch', 'ack', 'late_evidence', 'late_evidence']);
  });

  it('rejects an answer from another device, even one that knows the execution', async () => {
    const target = await createValve(
      await connect(broker, {
        answer: { kind: 'topic', answerTopic: 'plant/{clientDeviceId}/answer', correlationPath: 'id' },
      }),
    );
    const { executionId } = await fixture.execute(target);
    await fixture.until(executionId, 'delivered');
    broker.publish('plant/somebody/answer', JSON.stringify({ id: executionId }));
    await broker.until(() => broker.acknowledged.length === 1);
    expect(await getStored(executionId)).toMatchObject({ state: 'delivered' });
    broker.publish(`plant/${target.clientDeviceId}/answer`, JSON.stringify({ id: executionId }));
    expect(await waitForEnd(executionId)).toEqual(['accepted_no_l4', '']);
  });

  it('does not treat its own command, echoed by the broker, as evidence', async () => {
    const connectionId = await connect();
    const named = await createValve(connectionId, {
      expects: true,
      levelPath: 'level',
      command: { mqttTopic: 'plant/{clientDeviceId}/up' },
    });
    const { executionId } = await fixture.execute(named);
    expect((await fixture.get(executionId)).violations.map(({ field }) => field)).toEqual(['command.mqttTopic']);
    expect(broker.published).toEqual([]);
  });

  it('ignores answers that name no execution, contain a NUL or are nested too deeply', async () => {
    const connectionId = await connect(broker, {
      answer: {
        kind: 'topic',
        answerTopic: 'plant/{clientDeviceId}/answer',
        correlationPath: 'id',
        statusPath: 'status',
        okValues: ['ok'],
      },
    });
    const target = await createValve(connectionId);
    broker.publish('plant/a/answer', '{"id":"\\u0000x","status":"ok"}');
    broker.publish('plant/a/answer', `{"id":"${newId()}","status":${'['.repeat(20_000)}${']'.repeat(20_000)}}`);
    await broker.until(() => broker.acknowledged.length === 2);
    const { executionId } = await fixture.execute(target);
    await fixture.until(executionId, 'delivered');
    broker.publish(`plant/${target.clientDeviceId}/answer`, JSON.stringify({ id: executionId, status: 'ok' }));
    expect(await waitForEnd(executionId)).toEqual(['accepted_no_l4', '']);
  });

  it('makes no further claim and sends nothing twice when the system clock moves an hour forward', async () => {
    const target = await createValve(await connect(), verified);
    const { executionId } = await fixture.execute(target);
    await fixture.until(executionId, 'delivered');
    broker.onPublish = () => undefined;
    const leaving = await fixture.execute(await createValve(await connect()));
    await broker.until(() => listPublishedCommands().length === 2);
    clock.jump(HOUR);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(executionId)).toEqual(['unconfirmed', 'verification_timeout']);
    expect(await waitForEnd(leaving.executionId)).toEqual(['unconfirmed', 'delivery_unconfirmed']);
    expect(listPublishedCommands()).toHaveLength(2);
  });

  it('extends no deadline when the system clock moves an hour back', async () => {
    const connectionId = await connect();
    const target = await createValve(connectionId, verified);
    const { executionId } = await fixture.execute(target);
    await fixture.until(executionId, 'delivered');
    broker.onPublish = () => undefined;
    const leaving = await fixture.execute(await createValve(connectionId));
    await broker.until(() => listPublishedCommands().length === 2);
    clock.jump(-HOUR);
    clock.advance(1000);
    publishLevel(target, 21);
    expect(await waitForEnd(executionId)).toEqual(['converged', '']);
    clock.advance(60_000);
    await fixture.executions.deadlines.sweep();
    expect(await waitForEnd(leaving.executionId)).toEqual(['unconfirmed', 'delivery_unconfirmed']);
    expect(listPublishedCommands()).toHaveLength(2);
  });

  it('rejects what the connection cannot carry immediately, including for the query', async () => {
    const connectionId = await connect();
    const target = await createValve(connectionId, { command: { mqttTopic: 'plant/all' } });
    const rejected = await fixture.get((await fixture.execute(target)).executionId);
    expect(rejected.violations).toEqual([
      { field: 'command.mqttTopic', description: expect.stringContaining('{clientDeviceId}') as string },
    ]);
    const commandId = await fixture.addCommand(target.deviceId, {
      ...COMMAND,
      verificationStrategy: 3,
      queryCommandId: target.commandId,
    });
    const querying = await fixture.get((await fixture.execute({ ...target, commandId })).executionId);
    expect(querying.violations).toEqual([
      { field: 'command.queryCommandId', description: expect.stringContaining('command.mqttTopic') as string },
    ]);
    expect(listPublishedCommands()).toEqual([]);
  });
});
