import { newId } from '../../../src/kernel/ids';
import { engines, type TestDatabase } from '../../support/engines';
import { Mqtt5Broker } from '../../support/mqtt5Broker';
import { type ExecutionRoom, prepare, startExecutionRoom, type Target, type TargetOptions, untilEvent, untilFinal } from '../executionRoom';
import { JumpClock } from './jumpClock';

const HOUR = 3_600_000;
const NO_SUBSCRIBERS = 0x10;
const NOT_AUTHORIZED = 0x87;
const COMMAND = { directPayload: '{"id": "{{execution.id}}"}' };
const ANSWERS = { kind: 'response_topic', responseTopic: 'plant/answers', statusPath: 'status', okValues: ['ok'], messagePath: 'message' };

describe.each(engines())('executions over MQTT, on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  let clock: JumpClock;
  let broker: Mqtt5Broker;

  beforeAll(async () => {
    db = await createDatabase();
    await prepare(db.database);
  });
  beforeEach(async () => {
    clock = new JumpClock();
    room = await startExecutionRoom(db.database, clock);
    broker = await new Mqtt5Broker().start();
  });
  afterEach(async () => {
    await room.stop();
    await broker.stop();
  });
  afterAll(async () => await db.drop());

  async function connect(at = broker, more: object = {}): Promise<string> {
    const configuration = { url: at.url, uplinkTopic: 'plant/{clientDeviceId}/up', downlinkTopic: 'plant/{clientDeviceId}/command', ...more };
    const connectionId = await room.connection({ connectorId: 'mqtt', configuration });
    await room.untilConnected(connectionId);
    return connectionId;
  }

  async function valve(connectionId: string, options: TargetOptions = {}): Promise<Target> {
    return await room.target({ connectionId, clientDeviceId: `valve-${newId()}`, ...options, command: { ...COMMAND, ...options.command } });
  }

  const sent = () => broker.published.filter(({ topic }) => topic.endsWith('/command'));
  const show = ({ clientDeviceId }: Target, level: number, more: object = {}): void => broker.publish(`plant/${clientDeviceId}/up`, JSON.stringify({ level }), more);
  const stored = async (executionId: string) => (await room.executions.service.get('org-1', executionId)).execution;
  const events = async (executionId: string): Promise<string[]> => (await room.executions.service.get('org-1', executionId)).events.map(({ event }) => event);

  async function ended(executionId: string): Promise<readonly unknown[]> {
    await untilFinal(room.executions, executionId);
    const { state, detail } = await stored(executionId);
    return [state, detail];
  }

  it('gives the broker what is left of the time of delivery', async () => {
    const { executionId } = await room.execute(await valve(await connect()));
    await ended(executionId);
    expect(sent().map(({ qos, retain, properties }) => [qos, retain, properties?.messageExpiryInterval])).toEqual([[1, false, 60]]);
  });

  it('is sent again, and once, where nobody was there to take it', async () => {
    const connectionId = await connect();
    broker.onPublish = () => NO_SUBSCRIBERS;
    const { executionId } = await room.execute(await valve(connectionId));
    await untilEvent(room.executions, executionId, 'known_undelivered');
    expect(await stored(executionId)).toMatchObject({ state: 'enqueued', detail: 'no_subscribers', attempts: 1 });
    broker.onPublish = () => 0;
    clock.advance(1000);
    expect(await ended(executionId)).toEqual(['unconfirmed', '']);
    expect(sent()).toHaveLength(2);
  });

  it('is not done where nobody was there in time', async () => {
    const connectionId = await connect();
    broker.onPublish = () => NO_SUBSCRIBERS;
    const { executionId } = await room.execute(await valve(connectionId));
    await untilEvent(room.executions, executionId, 'known_undelivered');
    clock.advance(HOUR);
    await room.executions.sweep();
    expect(await ended(executionId)).toEqual(['transport_unreachable', 'no_subscribers']);
    expect(sent()).toHaveLength(1);
  });

  it('ends as the broker refuses it', async () => {
    const connectionId = await connect();
    broker.onPublish = () => NOT_AUTHORIZED;
    const { executionId } = await room.execute(await valve(connectionId));
    expect(await ended(executionId)).toEqual(['transport_rejected', 'not_authorized']);
  });

  it('is never sent again when the link was lost before its PUBACK, and ends sooner', async () => {
    const connectionId = await connect(broker);
    broker.onPublish = () => undefined;
    const { executionId } = await room.execute(await valve(connectionId));
    await broker.until(() => sent().length === 1);
    broker.cut();
    await untilEvent(room.executions, executionId, 'link_lost');
    await room.untilConnected(connectionId);
    const { tDelivery } = await stored(executionId);
    expect(tDelivery).toBe(clock.now() + 30_000);
    clock.advance(30_000);
    await room.executions.sweep();
    expect(await ended(executionId)).toEqual(['unconfirmed', 'delivery_unknown']);
    expect(sent()).toHaveLength(1);
  });

  it('is never sent again by a server that started anew', async () => {
    const connectionId = await connect();
    broker.onPublish = () => undefined;
    const [leaving, waiting] = [await valve(connectionId), await valve(connectionId)];
    const { executionId } = await room.execute(leaving);
    await broker.until(() => sent().length === 1);
    await room.stop();
    room = await startExecutionRoom(db.database, clock);
    await room.reopen(connectionId);
    await room.untilConnected(connectionId);
    expect(await events(executionId)).toContain('link_lost');
    broker.onPublish = () => 0;
    expect(await ended((await room.execute(waiting)).executionId)).toEqual(['unconfirmed', '']);
    clock.advance(30_000 + 60_000);
    await room.executions.sweep();
    expect(await ended(executionId)).toEqual(['unconfirmed', 'delivery_unknown']);
    expect(sent()).toHaveLength(2);
  });

  it('waits for a broker that is not there, and goes when it comes', async () => {
    const connectionId = await connect();
    await broker.stop();
    const target = await valve(connectionId);
    const { executionId } = await room.execute(target);
    await broker.start();
    expect(await ended(executionId)).toEqual(['unconfirmed', '']);
    expect(sent()).toHaveLength(1);
  });

  it('does not wait for the slow broker of another connection', async () => {
    const slow = await new Mqtt5Broker().start();
    slow.onPublish = () => undefined;
    const [there, here] = [await connect(slow), await connect()];
    const targets = await Promise.all(Array.from({ length: 40 }, async () => await valve(there)));
    for (const target of targets) await room.execute(target);
    expect(await ended((await room.execute(await valve(here))).executionId)).toEqual(['unconfirmed', '']);
    expect(slow.published.length).toBeLessThanOrEqual(16);
    await slow.stop();
  });

  it('makes one execution of identical ones at the same time', async () => {
    const connectionId = await connect();
    broker.onPublish = () => undefined;
    const target = await valve(connectionId);
    const all = await Promise.all(Array.from({ length: 8 }, async () => await room.execute(target)));
    expect(new Set(all.map(({ executionId }) => executionId)).size).toBe(1);
    expect(all.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    await broker.until(() => sent().length > 0);
    expect(sent()).toHaveLength(1);
  });

  const verified = { expects: true, command: { verificationStrategy: 2 } };

  it('takes an effect for the PUBACK that was lost', async () => {
    const target = await valve(await connect(), verified);
    broker.onPublish = () => undefined;
    const { executionId } = await room.execute(target);
    await broker.until(() => sent().length === 1);
    clock.advance(1000);
    show(target, 20);
    show(target, 21);
    expect(await ended(executionId)).toEqual(['converged', '']);
    expect(await events(executionId)).toEqual(['submitted', 'dispatch', 'sensors_matched']);
  });

  it.each([
    ['what waited at the broker while the server was away', async (target: Target, connectionId: string) => {
      await broker.stop();
      show(target, 21);
      await broker.start();
      await room.untilConnected(connectionId);
    }],
    ['a retained message', async (target: Target) => await Promise.resolve(show(target, 21, { retain: true }))],
  ] as const)('does not take for an effect %s', async (_name, showOld) => {
    const connectionId = await connect();
    const target = await valve(connectionId, verified);
    const { executionId } = await room.execute(target);
    await room.until(executionId, 'delivered');
    clock.advance(1000);
    await showOld(target, connectionId);
    await broker.until(() => broker.acknowledged.length > 0);
    show(target, 22);
    expect(await ended(executionId)).toEqual(['unconfirmed', 'l4_mismatch']);
  });

  it('takes an answer before its PUBACK, once, however often it comes', async () => {
    const target = await valve(await connect(broker, { answer: ANSWERS }));
    broker.onPublish = () => undefined;
    const { executionId } = await room.execute(target);
    await broker.until(() => sent().length === 1);
    const [{ properties } = {}] = sent();
    for (let count = 0; count < 3; count += 1) broker.publish(properties?.responseTopic ?? '', '{"status": "ok"}', { properties: { correlationData: properties?.correlationData ?? Buffer.alloc(0) } });
    expect(await ended(executionId)).toEqual(['accepted_no_l4', '']);
    await broker.until(() => broker.acknowledged.length === 3);
    expect(await events(executionId)).toEqual(['submitted', 'dispatch', 'ack', 'late_evidence', 'late_evidence']);
  });

  it('takes no answer from another device, though that knows the execution', async () => {
    const target = await valve(await connect(broker, { answer: { kind: 'topic', answerTopic: 'plant/{clientDeviceId}/answer', correlationPath: 'id' } }));
    const { executionId } = await room.execute(target);
    await room.until(executionId, 'delivered');
    broker.publish('plant/somebody/answer', JSON.stringify({ id: executionId }));
    await broker.until(() => broker.acknowledged.length === 1);
    expect(await stored(executionId)).toMatchObject({ state: 'delivered' });
    broker.publish(`plant/${target.clientDeviceId}/answer`, JSON.stringify({ id: executionId }));
    expect(await ended(executionId)).toEqual(['accepted_no_l4', '']);
  });

  it('is not shown by its own command, which the broker sends back', async () => {
    const connectionId = await connect();
    const named = await valve(connectionId, { expects: true, levelPath: 'level', command: { mqttTopic: 'plant/{clientDeviceId}/up' } });
    const { executionId } = await room.execute(named);
    expect((await room.get(executionId)).violations.map(({ field }) => field)).toEqual(['command.mqttTopic']);
    expect(broker.published).toEqual([]);
  });

  it('ignores answers that name no execution, with a NUL in it or as deep as a stack', async () => {
    const connectionId = await connect(broker, { answer: { kind: 'topic', answerTopic: 'plant/{clientDeviceId}/answer', correlationPath: 'id', statusPath: 'status', okValues: ['ok'] } });
    const target = await valve(connectionId);
    broker.publish('plant/a/answer', '{"id":"\\u0000x","status":"ok"}');
    broker.publish('plant/a/answer', `{"id":"${newId()}","status":${'['.repeat(20_000)}${']'.repeat(20_000)}}`);
    await broker.until(() => broker.acknowledged.length === 2);
    const { executionId } = await room.execute(target);
    await room.until(executionId, 'delivered');
    broker.publish(`plant/${target.clientDeviceId}/answer`, JSON.stringify({ id: executionId, status: 'ok' }));
    expect(await ended(executionId)).toEqual(['accepted_no_l4', '']);
  });

  it('says nothing more, and sends nothing twice, when the clock of the machine is put an hour forward', async () => {
    const target = await valve(await connect(), verified);
    const { executionId } = await room.execute(target);
    await room.until(executionId, 'delivered');
    broker.onPublish = () => undefined;
    const leaving = await room.execute(await valve(await connect()));
    await broker.until(() => sent().length === 2);
    clock.jump(HOUR);
    await room.executions.sweep();
    expect(await ended(executionId)).toEqual(['unconfirmed', 'l4_timeout']);
    expect(await ended(leaving.executionId)).toEqual(['unconfirmed', 'delivery_unknown']);
    expect(sent()).toHaveLength(2);
  });

  it('extends nothing when the clock of the machine is put an hour back', async () => {
    const connectionId = await connect();
    const target = await valve(connectionId, verified);
    const { executionId } = await room.execute(target);
    await room.until(executionId, 'delivered');
    broker.onPublish = () => undefined;
    const leaving = await room.execute(await valve(connectionId));
    await broker.until(() => sent().length === 2);
    clock.jump(-HOUR);
    clock.advance(1000);
    show(target, 21);
    expect(await ended(executionId)).toEqual(['converged', '']);
    clock.advance(60_000);
    await room.executions.sweep();
    expect(await ended(leaving.executionId)).toEqual(['unconfirmed', 'delivery_unknown']);
    expect(sent()).toHaveLength(2);
  });

  it('says at once what the connection does not carry, of the query too', async () => {
    const connectionId = await connect();
    const target = await valve(connectionId, { command: { mqttTopic: 'plant/all' } });
    const refused = await room.get((await room.execute(target)).executionId);
    expect(refused.violations).toEqual([{ field: 'command.mqttTopic', description: expect.stringContaining('{clientDeviceId}') as string }]);
    const commandId = await room.addCommand(target.deviceId, { ...COMMAND, verificationStrategy: 3, queryCommandId: target.commandId });
    const asking = await room.get((await room.execute({ ...target, commandId })).executionId);
    expect(asking.violations).toEqual([{ field: 'command.queryCommandId', description: expect.stringContaining('command.mqttTopic') as string }]);
    expect(sent()).toEqual([]);
  });
});
