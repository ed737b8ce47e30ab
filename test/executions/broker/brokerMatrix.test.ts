import type { ConnectorKind } from '../../../src/connections';
import { isFinal } from '../../../src/executions';
import type { Execution } from '../../../src/gen/actuator_command/v2/actuator_command_service';
import { newId } from '../../../src/kernel/ids';
import { engines, type TestEngine } from '../../support/engines';
import { type ExecutionRoom, nameOf, type Target, untilEvent, untilFinal } from '../executionRoom';
import { roomForAll } from '../executionSuite';
import { ChirpStackField, chirpStackConfiguration } from './chirpStackField';
import { type FieldCommand, MqttField, mqttConfiguration } from './mqttField';
import { SiteBroker } from './siteBroker';

const KINDS = ['mqtt', 'mqtt_answer', 'chirpstack', 'chirpstack_confirmed'] as const satisfies readonly ConnectorKind[];
const STRATEGIES = { no_verification: 1, wait_next_uplink: 2, query_after_ack: 3 } as const;

type Kind = (typeof KINDS)[number];
type Strategy = keyof typeof STRATEGIES;

/** How an execution ended: state, detail, and what it rests on. */
type End = readonly [state: string, detail: string, evidence?: string];

interface Case {
  readonly kind: Kind;
  readonly strategy: Strategy;
  readonly expects: boolean;
}

const CASES: readonly Case[] = KINDS.flatMap((kind) => (Object.keys(STRATEGIES) as Strategy[]).flatMap((strategy) => [true, false].map((expects) => ({ kind, strategy, expects }))));
const answers = (kind: Kind): boolean => kind === 'mqtt_answer' || kind === 'chirpstack_confirmed';
const onMqtt = (kind: Kind): boolean => kind.startsWith('mqtt');

/** All that can be shown is shown. */
function shownEnd({ kind, strategy, expects }: Case): End {
  if (strategy !== 'no_verification' && expects) return ['converged', '', 'sensor'];
  if (strategy === 'query_after_ack') return ['accepted_no_l4', '', 'query'];
  if (answers(kind)) return ['accepted_no_l4', '', 'native_ack'];
  return strategy === 'wait_next_uplink' ? ['accepted_no_l4', '', 'implicit_uplink'] : ['unconfirmed', ''];
}

/** It was delivered, and then nothing came. */
function silentEnd({ kind, strategy, expects }: Case): End {
  if (strategy === 'no_verification') return ['unconfirmed', answers(kind) ? 'ack_timeout' : ''];
  if (expects) return ['unconfirmed', 'l4_timeout'];
  return ['unconfirmed', answers(kind) || strategy === 'wait_next_uplink' ? 'ack_timeout' : 'query_timeout'];
}

/** The device, or the network for it, answered no. */
function refusedEnd({ kind, strategy, expects }: Case): End {
  if (onMqtt(kind)) return ['protocol_rejected', 'jammed'];
  return strategy !== 'no_verification' && expects ? ['unconfirmed', strategy === 'wait_next_uplink' ? 'l4_mismatch' : 'l4_timeout'] : ['unconfirmed', 'no_ack'];
}

/** All on SQLite; on PostgreSQL those that answer: what the others have stored is a part of that, and nothing that a broker does depends on the engine. */
const casesOn = (engine: TestEngine['name']): readonly Case[] => CASES.filter(({ kind }) => engine === 'sqlite' || answers(kind));

describe.each(engines())('what an execution over a broker comes to, on $name', ({ name, createDatabase }) => {
  const cases = casesOn(name);
  let room: ExecutionRoom;
  let broker: SiteBroker;
  let mqtt: MqttField;
  let chirpStack: ChirpStackField;
  const connections = new Map<Kind, string>();

  roomForAll(createDatabase, (made) => ({ room } = made));
  beforeAll(async () => {
    broker = await SiteBroker.start();
    mqtt = await MqttField.start(broker.url);
    chirpStack = await ChirpStackField.start(broker.url, room.clock);
    connections.set('mqtt', await room.connection({ connectorId: 'mqtt', configuration: mqttConfiguration(broker.url, false) }));
    connections.set('mqtt_answer', await room.connection({ connectorId: 'mqtt', configuration: { ...mqttConfiguration(broker.url, true), clientId: 'with-answers' } }));
    const lorawan = await room.connection({ connectorId: 'chirpstack', configuration: chirpStackConfiguration(broker.url) });
    connections.set('chirpstack', lorawan).set('chirpstack_confirmed', lorawan);
    for (const id of connections.values()) await room.untilConnected(id);
  });
  afterAll(async () => {
    await mqtt.stop();
    await chirpStack.stop();
    await broker.stop();
  });

  const fieldOf = (kind: Kind): MqttField | ChirpStackField => (onMqtt(kind) ? mqtt : chirpStack);

  async function makeTarget({ kind, strategy, expects }: Case): Promise<Target> {
    const id = newId().replaceAll('-', '');
    const clientDeviceId = onMqtt(kind) ? `valve-${id}` : id.slice(-16);
    if (!onMqtt(kind)) chirpStack.server.addDevice(clientDeviceId);
    const sent = { directPayload: '{"id": "{{execution.id}}"}', fPort: onMqtt(kind) ? undefined : 10, confirmed: kind === 'chirpstack_confirmed' };
    const target = await room.target({ connectionId: connections.get(kind) ?? '', clientDeviceId, levelPath: fieldOf(kind).levelPath, expects, command: sent });
    const queryCommandId = strategy === 'query_after_ack' ? await room.addCommand(target.deviceId, sent) : undefined;
    const expectedSensorStates = expects ? [{ sensorId: target.sensorId, valueTemplate: '21' }] : [];
    return { ...target, commandId: await room.addCommand(target.deviceId, { ...sent, verificationStrategy: STRATEGIES[strategy], queryCommandId, expectedSensorStates }) };
  }

  async function ended(executionId: string): Promise<readonly unknown[]> {
    await untilFinal(room.executions, executionId);
    const { state, detail, evidence } = (await room.executions.service.get('org-1', executionId)).execution;
    return evidence === undefined ? [state, detail] : [state, detail, evidence];
  }

  /** Lets time pass until it has ended. */
  async function endedInTime(executionId: string): Promise<readonly unknown[]> {
    while (!isFinal((await room.executions.service.get('org-1', executionId)).execution.state)) {
      room.clock.advance(600_000);
      await room.executions.sweep();
    }
    return await ended(executionId);
  }

  it.each(cases)('$kind $strategy expecting $expects: all is shown', async (one) => {
    const field = fieldOf(one.kind);
    const target = await makeTarget(one);
    const { clientDeviceId } = target;
    const { executionId } = await room.execute(target);
    const carryOut = async (count: number, level: number): Promise<void> => {
      const command = await field.command(clientDeviceId, count);
      room.clock.advance(1000);
      await field.deliver(command);
      room.clock.advance(1000);
      if (answers(one.kind)) await field.answer(command, true, { level });
    };
    const asks = one.strategy === 'query_after_ack';
    await carryOut(1, asks ? 20 : 21);
    if (asks) await carryOut(2, 21);
    if (one.strategy !== 'no_verification') await field.show(clientDeviceId, { level: 21 });
    expect(await ended(executionId)).toEqual(shownEnd(one));
  });

  it.each(cases)('$kind $strategy expecting $expects: delivered, then silence', async (one) => {
    const { executionId } = await delivered(one);
    expect(await endedInTime(executionId)).toEqual(silentEnd(one));
  });

  it.each(cases.filter(({ kind }) => answers(kind)))('$kind $strategy expecting $expects: the answer is no', async (one) => {
    const { executionId, command } = await delivered(one);
    room.clock.advance(1000);
    await fieldOf(one.kind).answer(command, false, { level: 20 });
    await untilEvent(room.executions, executionId, onMqtt(one.kind) ? 'negative' : 'no_answer');
    const end = refusedEnd(one);
    // The uplink of the same frame may still be on its way: no time passes before it.
    expect(end.includes('l4_mismatch') ? await ended(executionId) : await endedInTime(executionId)).toEqual(end);
  });

  it.each(cases)('$kind $strategy expecting $expects: no sign of delivery', async (one) => {
    const target = await makeTarget(one);
    if (onMqtt(one.kind)) broker.hold('/command');
    const { executionId } = await room.execute(target);
    await room.until(executionId, 'in_transit');
    if (onMqtt(one.kind)) await broker.untilHeld(1);
    else await chirpStack.server.until(() => chirpStack.server.queueOf(target.clientDeviceId).length > 0);
    expect(await endedInTime(executionId)).toEqual(['unconfirmed', 'delivery_unknown']);
    broker.release();
  });

  it.each(cases.filter(({ kind }) => !onMqtt(kind)))('$kind $strategy expecting $expects: the device sends only when it is too late', async (one) => {
    const target = await makeTarget(one);
    const { executionId, deadlineAt } = await executed(target);
    await chirpStack.server.until(() => chirpStack.server.queueOf(target.clientDeviceId).length > 0);
    room.clock.advance((deadlineAt ?? 0) - room.clock.now());
    await chirpStack.show(target.clientDeviceId, { level: 20 });
    expect(await ended(executionId)).toEqual(['transport_unreachable', 'expired']);
  });

  async function delivered(one: Case): Promise<{ executionId: string; command: FieldCommand }> {
    const target = await makeTarget(one);
    const { executionId } = await room.execute(target);
    const command = await fieldOf(one.kind).command(target.clientDeviceId, 1);
    room.clock.advance(1000);
    await fieldOf(one.kind).deliver(command);
    await untilEvent(room.executions, executionId, 'transport_ok');
    return { executionId, command };
  }

  async function executed(target: Target): Promise<{ executionId: string; deadlineAt: number | undefined }> {
    const { executionId } = await room.execute(target);
    const execution: Execution = await room.until(executionId, 'in_transit');
    expect(nameOf(execution.state)).toBe('in_transit');
    return { executionId, deadlineAt: (await room.executions.service.get('org-1', executionId)).execution.tDelivery };
  }
});
